"""What is read, and how far reading is, told from the sizes of files that are perhaps compressed."""

from __future__ import annotations

from collections.abc import Sequence

from gpt1.base.progress import Bar, Progress
from gpt1.base.wording import many
from gpt1.corpus.documents import DocumentPart, Found, TextSource

# How much larger text is than its compressed file, for want of a better guess while the first one is read.
USUAL_COMPRESSION = 3.0


def announce(found: Found, progress: Progress) -> None:
    """Tell what will be read, and what was found but will not be."""
    size = sum(source.bytes for source in found.sources)
    progress.say(f"reading {many(len(found.sources), 'file')}, {size / 1e6:,.1f} MB on disk")
    for skipped in found.skipped[:5]:
        progress.say(f"  left out: {skipped.name} ({skipped.reason})")
    if len(found.skipped) > 5:
        progress.say(f"  left out: {len(found.skipped) - 5:,} more")


class Meter:
    """Watches parts go by and moves a bar."""

    def __init__(self, sources: Sequence[TextSource], bar: Bar) -> None:
        self._sources = sources
        self._total = max(1, sum(source.bytes for source in sources))
        self._bar = bar
        self._source = self._text_bytes = self._finished_text = self._finished_disk = self._done = 0

    def read(self, batch: Sequence[DocumentPart]) -> None:
        """Note that a batch was read."""
        for part in batch:
            if part.source != self._source:
                self._finished_disk += sum(source.bytes for source in self._sources[self._source : part.source])
                self._finished_text += self._text_bytes
                self._source, self._text_bytes = part.source, 0
            self._text_bytes += part.raw_bytes

    def done(self, text_bytes: int) -> None:
        """Note that so many bytes of text were worked on, and move the bar."""
        self._done += text_bytes
        expansion = self._finished_text / self._finished_disk if self._finished_disk else USUAL_COMPRESSION
        inside = min(self._sources[self._source].bytes, self._text_bytes / max(expansion, 1.0))
        self._bar.update(min(0.99, (self._finished_disk + inside) / self._total), self._done)
