"""Which token comes next, judged by plain numbers and by transformers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gpt1.base.errors import Renamed, SettingError
from gpt1.inference import sampling
from gpt1.inference.sampling import Sampler, SamplingParams, candidates, draw, penalised, sampling_params
from tests.reference.generation import allowed

VOCAB = 50
WAYS: list[dict[str, Any]] = [
    {"temperature": 1.0, "top_k": None},
    {"temperature": 0.5, "top_k": 7},
    {"temperature": 1.5, "top_k": None, "top_p": 0.9},
    {"temperature": 0.7, "top_k": None, "top_p": 0.2},
    {"temperature": 0.9, "top_k": 20, "top_p": 0.6},
    {"temperature": 1.0, "top_k": 1},
    {"temperature": 1.0, "top_k": 1000, "top_p": 1.0},
    {"temperature": 1.0, "top_k": 30, "top_p": 0.8, "repetition_penalty": 1.7},
    {"temperature": 1.0, "top_k": None, "top_p": 1e-9, "repetition_penalty": 0.6},
]


def scores(seed: int) -> Tensor:
    return torch.randn(VOCAB, generator=torch.Generator().manual_seed(seed)) * 2


def chances(way: dict[str, Any], logits: Tensor, before: list[int]) -> Tensor:
    """Return the probability with which each token would be drawn."""
    wanted = SamplingParams(**way)
    found = penalised(logits.unsqueeze(0), [wanted.repetition_penalty], [before]) / wanted.temperature
    ids, shares = candidates(found, wanted.top_k, wanted.top_p)
    spread = torch.zeros(VOCAB)
    spread[torch.arange(VOCAB) if ids is None else ids[0]] = shares[0] / shares.sum()
    return spread


def draw_one(sampler: Sampler, logits: Tensor, before: Iterable[int] = ()) -> int:
    return draw([sampler], logits.unsqueeze(0), [before])[0]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("first_guess", [4, 256])
def test_chances_are_those_of_the_plain_reference(
    way: dict[str, Any], first_guess: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "FIRST_GUESS", first_guess)
    full = {"top_p": None, "repetition_penalty": 1.0, **way}
    for seed in range(5):
        found = chances(way, scores(seed), [1, 2, 40])
        wanted = allowed(scores(seed), [1, 2, 40], **full)
        torch.testing.assert_close(found, torch.tensor(wanted))


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_chances_are_those_of_transformers(way: dict[str, Any]) -> None:
    from transformers.generation.logits_process import (
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    before = torch.tensor([[1, 2, 40]])
    for seed in range(5):
        theirs = scores(seed).unsqueeze(0)
        steps: list[Any] = [RepetitionPenaltyLogitsProcessor(way.get("repetition_penalty", 1.0))]
        steps.append(TemperatureLogitsWarper(way["temperature"]))
        steps += [TopKLogitsWarper(way["top_k"])] if way["top_k"] else []
        steps += [TopPLogitsWarper(way["top_p"])] if "top_p" in way else []
        for step in steps:
            theirs = step(before, theirs)
        torch.testing.assert_close(chances(way, scores(seed), [1, 2, 40]), theirs[0].softmax(0))


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_tokens_are_drawn_with_their_chances(way: dict[str, Any]) -> None:
    sampler, before = Sampler(SamplingParams(**way), seed=3), [1, 2, 40]
    drawn = np.bincount([draw_one(sampler, scores(0), before) for _ in range(3000)], minlength=VOCAB)
    wanted = chances(way, scores(0), before).numpy()
    assert (drawn[wanted == 0] == 0).all()
    spread = np.sqrt(wanted * (1 - wanted) / 3000)
    assert (np.abs(drawn / 3000 - wanted) <= 4.5 * spread + 1e-9).all()


@pytest.mark.parametrize("first_guess", [4, 256])
def test_texts_drawn_together_are_drawn_as_each_alone(first_guess: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "FIRST_GUESS", first_guess)
    ways = [*WAYS, *WAYS, {"temperature": 0}, {"temperature": 0, "repetition_penalty": 5.0}]
    before = [[number, 1, 40] for number in range(len(ways))]
    together, alone = ([Sampler(SamplingParams(**way), seed) for seed, way in enumerate(ways)] for _ in range(2))
    for seed in range(50):
        logits = torch.stack([scores(seed + place) for place in range(len(ways))])
        found = draw(together, logits, before)
        assert found == [draw_one(*text) for text in zip(alone, logits, before, strict=True)]


@pytest.mark.parametrize("penalty", [1e-300, 1e-38, 1e38, 1e300])
@pytest.mark.parametrize("sign", [1, -1])
def test_no_penalty_makes_an_infinity_of_a_score(penalty: float, sign: int) -> None:
    for way in ({"temperature": 1.0}, {"temperature": 0}, {"temperature": 1.0, "top_k": None, "top_p": 0.9}):
        sampler = Sampler(SamplingParams(repetition_penalty=penalty, **way), 0)
        for seed in range(5):
            assert 0 <= draw_one(sampler, sign * scores(seed).abs(), range(VOCAB)) < VOCAB


def test_even_scores_are_drawn_alike_beside_a_text_that_needs_all_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "FIRST_GUESS", 10)
    even, flat = (10 * scores(1)).round() / 5, torch.zeros(VOCAB)
    wanted = SamplingParams(temperature=1.0, top_k=None, top_p=0.6)
    beside, alone = Sampler(wanted, 7), Sampler(wanted, 7)
    for _ in range(100):
        found, _ = draw([beside, Sampler(wanted, 1)], torch.stack([even, flat]), [(), ()])
        assert found == draw_one(alone, even)


def test_the_last_point_there_is_draws_a_token_that_may_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sampler, "point", lambda sampler: 1 - 2**-53)
    for way in WAYS:
        for seed in range(20):
            drawn = draw_one(Sampler(SamplingParams(**way), 0), scores(seed))
            assert chances({**way, "repetition_penalty": 1.0}, scores(seed), [])[drawn] > 0


def test_points_ahead_are_those_of_one_after_another_and_remain_until_they_are_used() -> None:
    one, ahead = Sampler(SamplingParams(), seed=5), Sampler(SamplingParams(), seed=5)
    wanted = [one.point() for _ in range(40)]
    assert ahead.points(17) == ahead.points(17) == wanted[:17]
    ahead.use(3)
    assert ahead.points(30) == wanted[3:33]
    assert ahead.point() == wanted[3]


def test_at_temperature_0_it_is_the_likeliest() -> None:
    sampler = Sampler(SamplingParams(temperature=0), seed=0)
    assert [draw_one(sampler, scores(seed)) for seed in range(9)] == [int(scores(seed).argmax()) for seed in range(9)]


@pytest.mark.parametrize("temperature", [1e-4, 1e-40, 5e-324])
@pytest.mark.parametrize("limit", [{"top_k": None}, {"top_k": 5}, {"top_k": None, "top_p": 0.5}])
def test_a_very_low_temperature_is_the_likeliest_too(temperature: float, limit: dict[str, Any]) -> None:
    sampler = Sampler(SamplingParams(temperature=temperature, **limit), seed=0)
    assert draw_one(sampler, scores(1)) == int(scores(1).argmax())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_new_tokens": -1}, "max_new_tokens is at least 0, not -1"),
        ({"temperature": -0.1}, "temperature is at least 0, not -0.1"),
        ({"temperature": float("nan")}, "temperature is at least 0, not nan"),
        ({"temperature": float("inf")}, "temperature is a finite number, not inf"),
        ({"repetition_penalty": float("inf")}, "repetition_penalty is a finite number, not inf"),
        ({"top_k": 0}, r"top_k is at least 1 \(or none\), not 0"),
        ({"top_p": 0.0}, r"top_p is above 0 and at most 1 \(or none\), not 0.0"),
        ({"top_p": 1.1}, "top_p is above 0"),
        ({"repetition_penalty": 0}, "repetition_penalty is above 0, not 0"),
        ({"stop": ["a", ""]}, "a stop string has at least one character"),
        ({"seed": -1}, "seed is between 0 and"),
        ({"temprature": 1}, "unknown setting of generate 'temprature'; did you mean 'temperature'?"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        sampling_params(**wrong)


def test_one_stop_string_needs_no_list() -> None:
    assert sampling_params(stop="the end").stop == ("the end",)
    assert sampling_params(stop=["a", "b"]).stop == ("a", "b")


@pytest.mark.parametrize(("old", "new"), [("tokens", "max_new_tokens"), ("alternatives", "top_logprobs")])
def test_an_old_name_of_a_setting_works_and_the_new_one_is_told(old: str, new: str) -> None:
    with pytest.warns(Renamed, match=f"^{old} is called {new} now$"):
        assert sampling_params(**{old: 5}, seed=2) == SamplingParams(**{new: 5}, seed=2)
    with pytest.raises(SettingError, match=f"{old} and {new} are two names of one setting; give one of them"):
        sampling_params(**{new: 5, old: 5})
