"""Runs behind an HTTP API that OpenAI's clients speak."""

# What other rooms may import of this one's modules.
OFFERS = {
    "limits": ["Limits"],
    "listening": ["HOST", "PORT", "fitting", "is_loopback"],
    "server": ["serve"],
    "settings": ["ServerSettings"],
    "workers": ["serve_by_workers"],
}
