"""A label whose evidence stands farther away than windows reach is learned with global tokens, and not without."""

from __future__ import annotations

from pathlib import Path

from benchmarks.far_evidence import Size, compare

SMALL = Size(logs=100, asked=200, steps=30)


def test_a_window_alone_can_only_guess_what_global_tokens_let_be_learned(tmp_path: Path) -> None:
    found = compare(tmp_path, SMALL)
    right, changed = found["window"]
    assert changed == 0  # what it never sees makes no difference
    assert 0.35 <= right <= 0.65
    for name in ("full attention", "window and global tokens"):
        right, changed = found[name]
        assert right > 0.95
        assert changed > 0.95
