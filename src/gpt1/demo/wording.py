"""What other rooms say to a user of `gpt1 demo`, without the options of other verbs."""

from __future__ import annotations

import re

# What is said elsewhere, and what the demo says for it: its only options are --out, --text and --seeds.
_INSTEAD = (
    (r"; more --steps would go on", ""),
    (r"the same command with --resume goes on", "the same command goes on"),
    (r"; --unwrap would join its lines", ": its lines end where they do on paper, and so will those of the network"),
    (r"there is no document small enough \(cut .* --document\?\)", "the text is one document; add a second file"),
    (r"say which encoding the file has, for example --encoding \S+", "save the file as UTF-8"),
    (r"Say so with --field", "Call it 'text'"),
    (r"name it or its --field", "name it with a --text of its own"),
    (r"Mend it and run again with --restart, or leave .* --on-error skip", "Mend it"),
    (r", or (replace it|begin anew|prepare anew) with --restart", ""),
    (r"; prepare anew with --restart", ""),
    (r"; (leave it|resume it on its own corpus), or begin a new run with --init .*?(?=\.?$)", ""),
    (r"; gpt1 finetune --resume writes it anew", ""),
)


def in_words_of_the_demo(text: str) -> str:
    """Return a message with what a user of the demo can do in place of options that the demo lacks."""
    for said, instead in _INSTEAD:
        text = re.sub(said, instead, text, flags=re.MULTILINE)
    return text
