"""`gpt1 generate`: a text continued on the terminal, or as JSON."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from gpt1.inference.run import load_run
from tests.cli.tools import run


def test_a_prompt_is_shown_and_continued(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "generate", str(trained), "Ann looked", "--max-new-tokens", "12", "--device", "cpu")
    assert (code, err) == (0, "")
    assert out == "Ann looked" + load_run(trained, device="cpu").generate("Ann looked", max_new_tokens=12) + "\n"


def test_every_option_reaches_the_writer(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = (
        "--max-new-tokens 15 --temperature 1.3 --top-k all --top-p 0.9 --repetition-penalty 1.2 --seed 7 "
        "--stop q --stop zz"
    )
    arguments = ["generate", str(trained), "the cat", *options.split(), "--samples", "2", "--json", "--device", "cpu"]
    code, out, _ = run(capsys, *arguments)
    answer = json.loads(out)
    wanted = load_run(trained, device="cpu").generate_batch(
        ["the cat", "the cat"],
        **{"max_new_tokens": 15, "temperature": 1.3, "top_k": None, "top_p": 0.9, "repetition_penalty": 1.2, "seed": 7},
        stop=("q", "zz"),
    )
    assert code == 0
    assert (answer["prompt"], answer["run"]) == ("the cat", str(trained))
    assert answer["samples"] == [
        {"text": x.text, "tokens": len(x.ids), "finish_reason": x.finish_reason} for x in wanted
    ]


def test_several_samples_are_shown_one_below_the_other(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(
        capsys, "generate", str(trained), "Ann", "--max-new-tokens", "5", "--samples", "3", "--device", "cpu"
    )
    assert out.count("Ann") == 3


def test_without_a_prompt_a_document_begins(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "generate", str(trained), "--max-new-tokens", "5", "--device", "cpu")
    assert code == 0
    assert out.strip()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--top-k", "many"], "a whole number or 'all', not 'many'"),
        (["--top-k", "0"], "at least 1, or 'all'"),
        (["--temperature", "nan"], "temperature is at least 0, not nan"),
        (["--temperature", "inf"], "temperature is a finite number, not inf"),
        (["--repetition-penalty", "0"], "'--repetition-penalty': 0.0 is not in the range x>0"),
        (["--seed", str(2**63)], "seed is between 0 and 2**63"),
        (["--step", "7"], "has no checkpoint of step 7"),
        (["--top-p", "2"], "'--top-p': 2.0 is not in the range 0<x<=1"),
        (["--stop", ""], "a stop string has at least one character"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(
    trained: Path, wrong: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "generate", str(trained), "Ann", *wrong, "--device", "cpu")
    assert (code, out) == (2, "")
    assert message in err


def test_a_prompt_that_cannot_be_read_is_not_shown(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "generate", str(trained), "Ann \ud800", "--device", "cpu")
    assert (code, out) == (1, "")
    assert "is a lone surrogate" in err


def test_a_prompt_may_come_from_standard_input(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--max-new-tokens", "12", "--device", "cpu")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Ann looked\n"), "utf-8"))
    assert run(capsys, "generate", str(trained), "-", *options) == run(
        capsys, "generate", str(trained), "Ann looked", *options
    )


def test_the_old_option_works_and_the_new_one_is_told_beside_the_answer(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("generate", str(trained), "Ann", "--device", "cpu", "--json")
    wanted = run(capsys, *asked, "--max-new-tokens", "5")
    told = "--tokens is called --max-new-tokens now\n"
    assert run(capsys, *asked, "--tokens", "5") == (0, wanted[1], told)
    code, out, err = run(capsys, *asked, "--tokens", "5", "--max-new-tokens", "6")
    assert (code, out) == (2, "")
    assert "--tokens and --max-new-tokens are one option; give --max-new-tokens alone" in err
    assert "--tokens" not in run(capsys, "generate", "--help")[1].replace("--max-new-tokens", "")


def test_a_prompt_that_the_vocabulary_does_not_have_is_told(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("generate", str(trained), "재미있었다", "--max-new-tokens", "2", "--device", "cpu")
    _, _, err = run(capsys, *arguments)
    assert err.startswith(
        "the prompt: 5 of 5 tokens are not in the vocabulary (the commonest: 재 미 있 었 다); the network"
    )
    assert json.loads(run(capsys, *arguments, "--json")[1])["unknown_tokens"] == 5
