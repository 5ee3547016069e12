"""Rows that come one after another: a planted shift is noticed soon, without one nothing ever is; bounds are bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ks_2samp

from gpt1.tasks.drift import LEVEL, distance_between
from gpt1.tasks.drift_windows import KINDS, OTHERS, WINDOW, DriftWindows, Window, names_bound, numbers_bound

DRAWS = 20
NAMES = ["label"]


def drawn(seed: int, rows: int, by: float = 0.0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    shares = np.array([0.6, 0.3, 0.1]) + by * np.array([-0.5, 0.0, 0.5])
    return {
        "length": random.poisson(12 + 10 * by, rows),
        "sureness": random.uniform(0.5, 1 - 0.4 * by, rows),
        "label": random.choice(["a", "b", "c"], rows, p=shares),
    }


def windows(seed: int, known: int, count: int, by: float = 0.0) -> list[Window]:
    held = DriftWindows(drawn(seed, known), NAMES)
    return list(held.add(drawn(1000 + seed, count * WINDOW, by)))


def test_where_nothing_changes_nothing_is_noticed_however_long_rows_come() -> None:
    found = [one for seed in range(DRAWS) for one in windows(seed, known=150, count=100)]
    assert len(found) == 100 * DRAWS
    assert [one.number for one in found[:100]] == list(range(1, 101))
    assert not any(one.has_changed for one in found)


def test_a_planted_shift_is_noticed_in_its_first_window_early_and_late() -> None:
    for seed in range(DRAWS):
        held = DriftWindows(drawn(seed, 150), NAMES)
        assert [one.has_changed for one in held.add(drawn(1000 + seed, WINDOW, by=0.8))] == [True]
        quiet = list(held.add(drawn(2000 + seed, 98 * WINDOW)))
        assert not any(one.has_changed for one in quiet)
        (late,) = held.add(drawn(3000 + seed, WINDOW, by=0.8))
        assert late.number == 100
        assert all(moved.shift.is_noticed for moved in late.moved.values())


def test_rows_fill_windows_however_few_come_at_once() -> None:
    rows = drawn(7, 2 * WINDOW + 3, by=0.3)
    whole = list(DriftWindows(drawn(1, 100), NAMES).add(rows))
    held, some = DriftWindows(drawn(1, 100), NAMES), []
    for start in range(0, 2 * WINDOW + 3, 7):
        some += list(held.add({name: values[start : start + 7] for name, values in rows.items()}))
    assert len(whole) == 2
    assert some == whole


def test_the_levels_of_all_windows_together_are_that_of_one_look() -> None:
    same = {"it": np.arange(100) % 10 + (np.arange(100) < 60) * 5}
    known = {"it": np.arange(100) % 10}
    chances = [
        one.moved["it"].shift.chance for one in DriftWindows(known, window=100).add({"it": np.tile(same["it"], 4)})
    ]
    alone = numbers_bound(distance_between(known["it"], same["it"], is_ordered=True), 100, 100)
    assert chances == pytest.approx([alone * k * (k + 1) for k in range(1, 5)])
    assert sum(LEVEL / (k * (k + 1)) for k in range(1, 100_000)) == pytest.approx(LEVEL, rel=1e-4)


def test_several_who_look_share_the_level() -> None:
    known, came = {"it": np.arange(100) % 10}, {"it": np.arange(100) % 10 + (np.arange(100) < 60) * 5}
    alone, of_three = (next(DriftWindows(known, window=100, watchers=count).add(came)) for count in (1, 3))
    assert of_three.moved["it"].shift.chance == pytest.approx(3 * alone.moved["it"].shift.chance)


@pytest.mark.parametrize(("known", "new"), [(30, 30), (30, 200), (150, 200), (500, 200), (200, 200)])
def test_the_bound_of_numbers_is_above_the_exact_chance(known: int, new: int) -> None:
    random = np.random.default_rng(0)
    for by in np.linspace(0, 1.5, 12):
        theirs = ks_2samp(random.normal(0, 1, known), random.normal(by, 1, new), method="exact")
        assert theirs.pvalue <= numbers_bound(float(theirs.statistic), known, new) + 1e-9


@pytest.mark.parametrize("kinds", [2, 3, 8])
def test_the_bound_of_names_is_above_the_chance_among_rows_dealt_at_random(kinds: int) -> None:
    random = np.random.default_rng(kinds)
    rows = random.integers(0, kinds, 350)
    dealt = [random.permutation(rows) for _ in range(2000)]
    far = np.array([distance_between(one[:150], one[150:], is_ordered=False) for one in dealt])
    for distance in np.quantile(far, [0.5, 0.9, 0.99, 0.999]):
        assert (far >= distance - 1e-12).mean() <= names_bound(float(distance), 150, 200, kinds)


def test_of_many_names_the_rarest_count_as_one() -> None:
    known = {"label": np.array([f"L{at % 40:02}" for at in range(400)])}
    new = {"label": np.array(["L00", "L01", "new"] * 100)[:WINDOW]}
    (found,) = DriftWindows(known, NAMES).add(new)
    before, after = found.moved["label"].before, found.moved["label"].after
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert len(before.keys() | after.keys()) == KINDS
    assert OTHERS in before
    assert found.has_changed


def test_one_answer_alone_is_no_change() -> None:
    same = {"label": np.array(["a"] * WINDOW)}
    (found,) = DriftWindows(same, NAMES).add(same)
    assert (found.moved["label"].shift.distance, found.moved["label"].shift.chance) == (0.0, 1.0)
    assert math.isclose(names_bound(0.0, 30, 200, 1), 1.0)
