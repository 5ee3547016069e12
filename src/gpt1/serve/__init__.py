"""Runs behind an HTTP API that OpenAI's clients speak."""

# What other rooms may import of this one's modules.
OFFERS = {"limits": ["Limits"], "server": ["HOST", "PORT", "fitting", "is_loopback", "make_app", "serve"]}
