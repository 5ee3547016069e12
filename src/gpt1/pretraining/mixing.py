"""Old text mixed into new text, so that a network that goes on with the new forgets less of the old (rehearsal).

A run reads one window after another, in slots that are counted from 0 through all its batches. With a share s slot i
has a window of the old text where floor((i + 1) s) > floor(i s), so that of the first n slots floor(n s) are old, for
every n: the share is exact to a window, in every batch and over the run. Each text is read in its own order, epoch
after epoch. Batch k is a pure function of both texts, the share, the seed and k.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from pathlib import Path

import numpy as np

from gpt1.base.errors import InputError, SettingError
from gpt1.documents.figures import rough
from gpt1.pretraining.stream import TokenStream, validation_text
from gpt1.pretraining.windows import Windows
from gpt1.records.run import RecordedMix
from gpt1.training.batches import Batch


@dataclass(frozen=True)
class Mix:
    """A corpus that is mixed in, and which share of all windows is of it."""

    corpus: Path
    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise SettingError(
                f"the share of {self.corpus} in what is read is above 0 and below 1, not {self.share:g}; without old "
                "text leave `mix` out"
            )


def mix_of(asked: Mapping[str, float] | Mapping[Path, float] | None) -> Mix | None:
    """Return what is mixed in, as it was asked for: the share of one corpus by its folder."""
    if not asked:
        return None
    if len(asked) > 1:
        named = ", ".join(map(str, asked))
        raise SettingError(f"one corpus is mixed in, not {len(asked)} ({named}); prepare their texts as one")
    ((corpus, share),) = asked.items()
    return Mix(Path(corpus), share)


class MixedIn:
    """The text that is mixed in, opened, and told from all others."""

    def __init__(self, mix: Mix, beside: Path, fingerprint: str) -> None:
        self.share = mix.share
        self.stream, self.valid = TokenStream(mix.corpus, "train"), validation_text(mix.corpus)
        if self.stream.fingerprint != fingerprint:
            raise InputError(
                f"{mix.corpus} was made with another tokenizer than {beside}, and both are read by one network; make "
                f"it with `gpt1.prepare(tokenizer={str(beside)!r})`"
            )
        self.recorded = RecordedMix(str(mix.corpus.resolve()), self.stream.identity, len(self.stream), share=self.share)

    def batches(self, new: TokenStream, *, context: int, batch: int, seed: int) -> MixedWindows:
        """Return the batches of new text with this one's windows among them."""
        return MixedWindows(new, self.stream, share=self.share, context=context, batch=batch, seed=seed)


class MixedWindows:
    """The batches of two texts, without end: all hold `batch` windows."""

    def __init__(
        self, new: TokenStream, old: TokenStream, *, share: float, context: int, batch: int, seed: int
    ) -> None:
        self._new, self._old = (Windows(text, context=context, batch=1, seed=seed) for text in (new, old))
        self._share = Fraction(str(share))  # the decimal that was written, as epochs are
        self._batch = batch

    def batch(self, k: int) -> Batch:
        """Return batch `k`, whatever was asked for before."""
        slots = range(k * self._batch, (k + 1) * self._batch + 1)
        old_before = np.array([self._old_before(slot) for slot in slots])
        is_old = np.diff(old_before).astype(bool)
        first, old = int(old_before[0]), int(is_old.sum())
        parts = (
            (is_old, self._old.windows(first, old)),
            (~is_old, self._new.windows(slots[0] - first, self._batch - old)),
        )
        arrays = {}
        for name in ("ids", "targets"):
            found = np.empty((self._batch, parts[0][1].arrays[name].shape[1]), np.int32)
            for places, part in parts:
                found[places] = part.arrays[name]
            arrays[name] = found
        return Batch(arrays, {"lm": sum(part.counts["lm"] for _, part in parts)})

    def batches_in(self, epochs: float) -> int:
        """Return the number of batches in which the new text is read so many times."""
        return ceil(self._new.batches_in(epochs) / (1 - self._share) / self._batch)

    def _old_before(self, slot: int) -> int:
        return int(slot * self._share)


def mix_in_words(mix: RecordedMix, *, paths: bool = True) -> str:
    """Return how much of what a run reads is old text."""
    name = mix.path if paths else Path(mix.path).name
    return f"a share of {mix.share:g} of {name} ({rough(mix.tokens)} tokens)"


def require_same_mix(run: Path, begun: RecordedMix | None, now: RecordedMix | None) -> None:
    """Refuse to go on with a run that reads other old text, or another share of it; it may have been moved."""
    if _decisive(begun) == _decisive(now):
        return
    before, after = ("no old text" if mix is None else mix_in_words(mix) for mix in (begun, now))
    raise SettingError(
        f"{run} was begun with {before} mixed in, and is to go on with {after}: a run goes on as it was begun; give "
        f"`mix` as it was, or begin a new run with `init={str(run)!r}`"
    )


def _decisive(mix: RecordedMix | None) -> object:
    return None if mix is None else (mix.identity, mix.share)
