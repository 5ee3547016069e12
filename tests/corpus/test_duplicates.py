from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from gpt1.base.errors import NoRoom
from gpt1.corpus import duplicates
from gpt1.corpus.duplicates import NUMBERS, RUN, TOO_SHORT, SketchIndex, digest, find_exact, sketch


def jaccard(a: list[int], b: list[int]) -> float:
    runs = [{tuple(ids[i : i + RUN]) for i in range(len(ids) - RUN + 1)} for ids in (a, b)]
    return len(runs[0] & runs[1]) / len(runs[0] | runs[1])


def flat(documents: list[list[int]]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    return np.array([id for ids in documents for id in ids], np.int32), np.cumsum([len(ids) for ids in documents])


def changed(ids: list[int], places: int, seed: int) -> list[int]:
    draw = random.Random(seed)
    copy = list(ids)
    for place in draw.sample(range(len(ids)), places):
        copy[place] = draw.randrange(10_000, 20_000)
    return copy


@pytest.fixture
def base() -> list[int]:
    return random.Random(1).choices(range(5000), k=1500)


def test_agreement_of_sketches_estimates_the_share_of_common_runs(base: list[int]) -> None:
    for places in (5, 30, 80, 200):
        other = changed(base, places, seed=places)
        ours, theirs = sketch(*flat([base, other]))
        # 120 numbers: a standard error of at most 0.046
        assert np.mean(ours == theirs) == pytest.approx(jaccard(base, other), abs=0.14)


def test_a_sketch_depends_on_its_own_document_alone(base: list[int]) -> None:
    alone = sketch(*flat([base]))[0]
    among = sketch(*flat([[1, 2, 3], base, [], base[:40], base]))
    assert (among[1] == alone).all()
    assert (among[4] == alone).all()
    assert (among[0] == TOO_SHORT).all()
    assert (among[2] == TOO_SHORT).all()
    assert not (among[3] == TOO_SHORT).any()


def test_a_repeated_text_points_to_its_first_copy_unless_it_is_no_candidate() -> None:
    texts = ["a", "b", "a", "c", "b", "a"]
    digests = np.frombuffer(b"".join(map(digest, texts)), "V16")
    assert find_exact(digests, np.ones(6, bool)).tolist() == [-1, -1, 0, -1, 1, 0]
    assert find_exact(digests, np.array([False, True, True, True, True, True])).tolist() == [-1, -1, -1, -1, 1, 2]


def test_near_copies_point_to_the_first_and_others_are_left_alone(tmp_path: Path, base: list[int]) -> None:
    other = random.Random(2).choices(range(5000), k=1500)
    documents = [base, other, changed(base, 10, 3), [7] * 3, changed(other, 10, 4), changed(base, 12, 5), [7] * 3]
    documents.append(changed(base, 300, 6))  # about a seventh of its runs are left
    index = SketchIndex(tmp_path, len(documents))
    sketches = sketch(*flat(documents))
    index.add(np.arange(3), sketches[:3])
    index.add(np.arange(3, len(documents)), sketches[3:])
    assert index.find_near(np.ones(len(documents), bool)).tolist() == [-1, -1, 0, -1, 1, 0, -1, -1]


def test_the_pieces_of_a_document_make_one_sketch(tmp_path: Path, base: list[int]) -> None:
    whole = sketch(*flat([base]))
    cut = sketch(*flat([base[:500], base[500:1000], base[1000:]]))
    index = SketchIndex(tmp_path, 2)
    index.add(np.array([0, 1, 1]), np.concatenate([whole, cut[:2]]))
    index.add(np.array([1]), cut[2:])
    assert index.find_near(np.ones(2, bool)).tolist() == [-1, 0]
    assert cut.shape == (3, NUMBERS)


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_how_many_documents_are_held_at_once_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: list[int], at_once: int
) -> None:
    draw = random.Random(4)
    others = [draw.choices(range(5000), k=300) for _ in range(5)]
    documents = [changed(draw.choice(others), draw.choice([0, 1, 3, 40]), seed) for seed in range(60)]
    index = SketchIndex(tmp_path, len(documents))
    index.add(np.arange(len(documents)), sketch(*flat(documents)))
    candidates = np.array([draw.random() < 0.9 for _ in documents])
    wanted = index.find_near(candidates)
    assert (wanted >= 0).sum() > 20
    monkeypatch.setattr(duplicates, "AT_ONCE", at_once)
    assert index.find_near(candidates).tolist() == wanted.tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sketches"]


def test_what_a_kill_left_of_a_search_is_not_taken_for_a_part_of_the_next(tmp_path: Path, base: list[int]) -> None:
    index = SketchIndex(tmp_path, 2)
    index.add(np.arange(2), sketch(*flat([base, base[::-1]])))
    for folder in ("pairs", "bands"):
        (tmp_path / folder).mkdir()
        np.array([1, 0], np.uint64).tofile(tmp_path / folder / "0")
    assert index.find_near(np.ones(2, bool)).tolist() == [-1, -1]


def test_a_disk_that_is_full_is_told_with_what_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: list[int]
) -> None:
    index = SketchIndex(tmp_path, 2)
    index.add(np.arange(2), sketch(*flat([base, base])))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(NoRoom, match=r"cannot write .*bands.0: No space left on device; make room"):
        index.find_near(np.ones(2, bool))
