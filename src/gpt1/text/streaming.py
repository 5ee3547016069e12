"""Text that grows by one token after another, handed out as soon as nothing can change it any more.

A token may end inside a character, and where blanks belong may depend on the words to come. The pieces together are
what decoding everything at once would give, up to the first stop string.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpt1.text.tokenizer import Tokenizer


class TextStream:
    """The text that ids add to a prompt; `stopped` tells whether a stop string was met."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], stop: Sequence[str] = ()) -> None:
        self._tokenizer, self._stop = tokenizer, stop
        self._context = tokenizer.context(prompt)  # once: the prompt may be a thousand times as long as the text
        self._ids: list[int] = []  # since all before them was settled
        self._done = ""  # the text of what came before those
        self._handed_out = 0  # characters
        self._text = ""  # all of it
        self.stopped = False

    def push(self, id: int) -> str:
        """Add a token and return the text that is settled now, if any."""
        self._ids.append(id)
        text, settled = self._tokenizer.decode_after(self._context, self._ids)
        self._text = self._done + text
        if places := [place for stop in self._stop if (place := self._text.find(stop)) >= 0]:
            self._text, self.stopped = self._text[: min(places)], True
            return self.end()
        end = len(self._done) + settled
        if settled == len(text):
            self._context, self._ids, self._done = "", [], self._text
        return self._hand_out(end - self._begun_stop(end))

    def end(self) -> str:
        """Return the rest of the text: there will be no further token."""
        return self._hand_out(len(self._text))

    def whole(self) -> str:
        """Return all of the text so far."""
        return self._text

    def _hand_out(self, end: int) -> str:
        piece = self._text[self._handed_out : end]
        self._handed_out = max(self._handed_out, end)
        return piece

    def _begun_stop(self, end: int) -> int:
        """Return how many characters before `end` may be the beginning of a stop string."""
        begun = (
            length
            for stop in self._stop
            for length in range(min(len(stop) - 1, end), 0, -1)
            if self._text.endswith(stop[:length], 0, end)
        )
        return max(begun, default=0)
