"""`gpt1 plan` prints a page, or the same as JSON."""

from __future__ import annotations

import json

import pytest

from gpt1.cli.app import main

TEXT = ("--tokens", "1100000000", "--vocab", "40478", "--gpu", "H200")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["plan", *arguments])
    out, err = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, out, err


def test_it_prints_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *TEXT)
    assert (code, err) == (0, "")
    assert out.startswith("Recipe 'paper'\n--------------\n  parameters              116,534,784  ")
    for section in ("\nMemory, 64 sequences at once\n", "\nTime on H200\n", "\nAdvice\n"):
        assert section in out


def test_json_is_the_plan_and_its_names_are_stable(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *TEXT, "--json")
    assert code == 0
    found = json.loads(out)
    assert {name: list(part) if isinstance(part, dict) else part for name, part in found.items()} == {
        "recipe": "paper",
        "text": ["tokens", "bytes", "vocab_size", "source"],
        "machine": [
            "name",
            "gpu",
            "memory_bytes",
            "precision",
            "product_flops",
            "product_flops_source",
            "utilisation",
            "notice",
        ],
        "parameters": ["embeddings", "layers", "output", "total"],
        "updates": ["tokens_an_update", "an_epoch", "epochs", "total", "tokens", "warmup", "warmup_of_recipe"],
        "flops": ["a_token", "an_update", "total"],
        "layer": ["parts", "contexts", "window"],
        "disk": ["checkpoint_bytes", "checkpoints", "weights_bytes", "weights", "total"],
        "time": ["seconds_an_update", "tokens_a_second", "seconds"],
        "memory": [
            "micro_batch",
            "weights",
            "gradients",
            "optimizer",
            "working_copies",
            "activations",
            "passing",
            "total",
            "usable",
            "fits",
            "largest_micro_batch",
        ],
        "advice": ["findings", "suitable_parameters", "suitable_merges", "set", "parameters", "updates", "seconds"],
    }
    assert run(capsys, *TEXT, "--json")[1] == out


def test_settings_change_the_recipe_and_advice_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    text = ("--tokens", "1250000", "--vocab", "2000", "--gpu", "L4", "--json")
    advice = json.loads(run(capsys, *text, "--set", "layers=6", "--set", "width=384")[1])["advice"]
    pasted = [word for setting in advice["set"] for word in ("--set", setting)]
    assert json.loads(run(capsys, *text, *pasted)[1])["advice"]["set"] == []


def test_errors_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *TEXT[:-1], "H2000")
    assert (code, out) == (2, "")
    assert err.startswith("error: unknown GPU 'H2000'; did you mean 'H200'?")
    assert run(capsys)[2] == "error: give either a prepared --corpus or a number of --tokens to plan for\n"
    assert "did you mean 'paper'" in run(capsys, *TEXT, "--recipe", "papr")[2]
    assert "recipe 'auto' is for fine-tuning; for text there are paper, " in run(capsys, *TEXT, "--recipe", "auto")[2]
    assert "Name the vocabulary's size with --vocab; the paper's is 40478" in run(capsys, "--tokens", "9000")[2]


def test_advice_is_in_the_words_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    text = ("--recipe", "tiny", "--tokens", "9000000", "--vocab", "300", "--gpu", "L4")
    page, told = run(capsys, *text)[1], json.loads(run(capsys, *text, "--json")[1])
    assert "gpt1 tokenizer train --merges" in " ".join(page.split())
    advice = [finding["advice"] for finding in told["advice"]["findings"]]
    assert any("gpt1 tokenizer train --merges " in sentence for sentence in advice)
    assert "`" not in page + "".join(advice)
