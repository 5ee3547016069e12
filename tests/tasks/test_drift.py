from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from gpt1.tasks.drift import LEVEL, Shift, find_shifts, tail_share

DRAWS = 20


def drawn(seed: int, rows: int, by: float = 0.0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    shares = np.array([0.6, 0.3, 0.1]) + by * np.array([-0.5, 0.0, 0.5])
    return {
        "length": random.poisson(12 + 10 * by, rows),
        "bits": random.normal(2.0 + by, 0.5, rows),
        "label": random.choice(["a", "b", "c"], rows, p=shares),
    }


def test_a_planted_shift_is_noticed_and_where_there_is_none_nothing_is() -> None:
    found = [
        [find_shifts(drawn(seed, 200), drawn(1000 + seed, 200, by), ["label"]) for seed in range(DRAWS)]
        for by in (0.0, 0.8)
    ]
    still, moved = ([[shift.is_noticed for shift in one.values()] for one in some] for some in found)
    assert sum(any(one) for one in still) == 0
    assert sum(all(one) for one in moved) == DRAWS


def test_the_distance_of_numbers_is_that_of_scipy_and_so_is_the_chance() -> None:
    random = np.random.default_rng(0)
    known, new = random.normal(0, 1, 80), random.normal(0.35, 1, 60)
    theirs = ks_2samp(known, new, method="exact")
    ours = find_shifts({"it": known}, {"it": new})["it"]
    assert ours.distance == pytest.approx(theirs.statistic)
    assert ours.chance == pytest.approx(theirs.pvalue, abs=0.01)


def test_the_distance_of_names_is_the_share_that_would_have_to_change() -> None:
    known, new = np.array(["a"] * 50 + ["b"] * 50), np.array(["a"] * 20 + ["b"] * 70 + ["c"] * 10)
    assert find_shifts({"it": known}, {"it": new}, ["it"])["it"].distance == pytest.approx(0.3)


def test_equal_values_are_no_difference() -> None:
    same = {"unknown": np.zeros(300)}
    assert find_shifts(same, same)["unknown"] == Shift(0.0, 1.0)


def test_of_many_rows_a_small_difference_is_not_noticed_however_sure_it_is() -> None:
    random = np.random.default_rng(0)
    found = find_shifts({"it": random.normal(0, 1, 4000)}, {"it": random.normal(0.15, 1, 4000)})["it"]
    assert found.chance <= LEVEL
    assert not found.is_noticed


def test_holms_correction_is_that_of_the_formula() -> None:
    random = np.random.default_rng(1)
    known = {str(at): random.normal(0, 1, 60) for at in range(3)}
    new = {str(at): random.normal(0.25 * at, 1, 60) for at in range(3)}
    alone = sorted(find_shifts({name: known[name]}, {name: new[name]})[name].chance for name in known)
    wanted = np.maximum.accumulate([3 * alone[0], 2 * alone[1], alone[2]]).clip(max=1.0)
    assert sorted(shift.chance for shift in find_shifts(known, new).values()) == pytest.approx(wanted.tolist())


def test_the_tail_counts_the_value_itself() -> None:
    assert tail_share(np.array([1.0, 2.0, 3.0]), np.array([4.0, 3.0, 0.0])).tolist() == [0.25, 0.5, 1.0]
