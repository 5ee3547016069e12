"""The API by its answers, its limits and its refusals."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from pydantic import ValidationError

from gpt1.inference.explaining import explaining_tokens
from gpt1.inference.run import load_run
from gpt1.serve.engine import Engine
from gpt1.serve.guards import host_of
from gpt1.serve.schemas import ClassifyRequest, CompletionRequest, EmbeddingRequest, Request, ScoreRequest
from gpt1.tasks.examples import Example
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text
from tests.inference.tools import make_run, sure_run
from tests.serve.conftest import MOODS
from tests.serve.tools import (
    LONG,
    Client,
    error_of,
    gate_before_encoding,
    gate_before_scores,
    gate_before_steps,
    post,
    serving,
)
from tests.waiting import eventually

GREEDY = {"model": "writer", "temperature": 0}


def complete(client: httpx.Client, **asked: Any) -> httpx.Response:
    return ask(client, "completions", **GREEDY | asked)


def ask(client: httpx.Client, path: str, **asked: Any) -> httpx.Response:
    """Post what is asked, half characters as escapes, which httpx would not send."""
    headers = {"Content-Type": "application/json"}
    return client.post(f"/v1/{path}", content=json.dumps(asked), headers=headers)


# ---- completions ----


def test_a_completion_is_what_the_run_writes(client: httpx.Client, trained: Path) -> None:
    settings = {"temperature": 1.3, "top_p": 0.9, "top_k": 30, "repetition_penalty": 1.1, "seed": 5, "stop": [".", "?"]}
    answer = complete(client, prompt=["Ann sold", "the cat"], max_tokens=12, **settings).json()
    wanted = load_run(trained, device="cpu").generate_batch(["Ann sold", "the cat"], max_new_tokens=12, **settings)
    assert [choice["text"] for choice in answer["choices"]] == [one.text for one in wanted]
    assert [choice["finish_reason"] for choice in answer["choices"]] == [one.finish_reason for one in wanted]
    assert (answer["object"], answer["model"]) == ("text_completion", "writer")
    assert answer["usage"]["completion_tokens"] == sum(len(one.ids) for one in wanted)


def test_defaults_are_openais(client: httpx.Client, trained: Path) -> None:
    answer = client.post("/v1/completions", json={"model": "writer", "prompt": "Ann", "seed": 3}).json()
    wanted = load_run(trained, device="cpu").generate("Ann", max_new_tokens=16, temperature=1.0, top_k=None, seed=3)
    assert answer["choices"][0]["text"] == wanted
    texts = {client.post("/v1/completions", json={"model": "writer"}).json()["choices"][0]["text"] for _ in range(4)}
    assert len(texts) > 1  # without a seed, another text each time


def test_a_prompt_may_be_ids_be_echoed_and_be_continued_several_times(client: httpx.Client, trained: Path) -> None:
    ids = load_run(trained, device="cpu").tokenizer.encode("Ann sold")
    as_text, as_ids, several = (
        complete(client, max_tokens=5, echo=True, prompt=prompt).json() for prompt in ("Ann sold", ids, [ids, ids[:1]])
    )
    assert as_text["choices"][0]["text"].removeprefix("Ann") == as_ids["choices"][0]["text"].removeprefix("ann")
    assert len(several["choices"]) == 2
    twice = complete(client, prompt="Ann sold", n=2, temperature=1.5, seed=1).json()
    assert twice["choices"][0]["text"] != twice["choices"][1]["text"]
    assert twice["usage"]["prompt_tokens"] == len(ids)


def events(response: httpx.Response) -> list[Any]:
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def test_a_stream_gives_the_same_text_in_pieces(client: httpx.Client) -> None:
    asked = {"prompt": ["Ann sold", "the cat"], "max_tokens": 20, "temperature": 1.2, "seed": 2}
    whole = complete(client, **asked).json()
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *pieces, last = events(complete(client, **asked, **options))
    for choice in whole["choices"]:
        own = [piece["choices"][0] for piece in pieces if piece["choices"][0]["index"] == choice["index"]]
        assert "".join(piece["text"] for piece in own) == choice["text"]
        assert len(own) > 1
        assert [piece["finish_reason"] for piece in own] == [None] * (len(own) - 1) + [choice["finish_reason"]]
    assert (last["choices"], last["usage"]) == ([], whole["usage"])


def test_no_tokens_are_no_text(client: httpx.Client) -> None:
    assert complete(client, prompt="Ann", max_tokens=0).json()["choices"][0]["text"] == ""
    assert [piece["choices"][0]["text"] for piece in events(complete(client, max_tokens=0, stream=True))] == [""]


# ---- the other questions ----


def test_texts_pairs_and_choices_are_classified_as_the_run_predicts(client: httpx.Client, taught: Path) -> None:
    run = load_run(taught, device="cpu")
    choices = {"context": "Ann lost a key.", "question": "What?", "choices": ["a key", "a hat", "a cat", "nothing"]}
    pair = {"a": "It rains.", "b": "It is wet."}
    for task, given, rows in (
        ("moods", "Ann lost a key", [{"text": "Ann lost a key"}]),
        ("moods", ["Ann", {"text": "the cat"}], [{"text": "Ann"}, {"text": "the cat"}]),
        ("rte", pair, [pair]),
        ("mrpc", [pair, pair], [pair, pair]),
        ("race", [choices], [choices]),
    ):
        answer = client.post("/v1/classify", json={"model": "taught", "task": task, "input": given}).json()
        wanted = list(run.predict(rows, task=task))
        assert [one["label"] for one in answer["data"]] == [str(one["prediction"]) for one in wanted]
        assert all(one["probabilities"][one["label"]] == one["confidence"] for one in answer["data"])
        assert [one["probabilities"] for one in answer["data"]] == [one["probabilities"] for one in wanted]


def test_figures_tell_what_was_answered_how_surely_and_how_much_was_read(
    tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    folder = make_run(tmp_path / "counted", words_tokenizer, MOODS)
    texts = ["Ann lost a key", "Ann lost " * 100, "\u5b57 Ann"]
    with serving(str(folder)) as served:
        rows = ask(served, "classify", model="counted", input=texts).json()["data"]
        told = served.figures()
    for label in MOODS.labels:
        answered = sum(row["label"] == label for row in rows)
        assert told.get(f'gpt1_answers_total{{label="{label}",model="counted",task="moods"}}', 0) == answered
    of = '{model="counted"}'
    assert told[f"gpt1_answer_confidence_count{of}"] == len(texts)
    assert told[f"gpt1_answer_confidence_sum{of}"] == pytest.approx(sum(row["confidence"] for row in rows))
    assert told[f"gpt1_tokens_classified_total{of}"] == sum(row["tokens"] for row in rows)
    assert told[f"gpt1_tokens_unknown_total{of}"] == sum(row["unknown_tokens"] for row in rows) > 0
    assert told[f"gpt1_rows_truncated_total{of}"] == 1


def test_several_labels_come_as_a_list_each_with_its_probability(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    topics = replace(MOODS, name="topics", labels=("glad", "sad", "odd"), labels_sep="|", metrics=("micro_f1",))
    folder = make_run(tmp_path / "topics", words_tokenizer, topics)
    texts = [make_text(1, seed).strip() for seed in range(20)]
    wanted = list(load_run(folder, device="cpu").predict(texts))
    with serving(str(folder)) as served:
        found = ask(served, "classify", model="topics", input=texts).json()["data"]
        refused = ask(served, "classify", model="topics", input=texts, abstain=0.1)
        (told,) = served.get("/v1/models").json()["data"]
    assert ["|".join(row["labels"]) for row in found] == [row["prediction"] for row in wanted]
    assert [row["probabilities"] for row in found] == [row["probabilities"] for row in wanted]
    assert {len(row["labels"]) for row in found} > {1}
    assert all("label" not in row and row["confidence"] is None for row in found)
    assert told["tasks"]["topics"]["labels_sep"] == "|"
    assert "answered with several labels" in error_of(refused)[2]


def test_with_a_risk_what_is_not_sure_enough_has_no_label_and_the_promise_is_told(
    tmp_path: Path, words_tokenizer: Tokenizer, client: httpx.Client
) -> None:
    texts = [make_text(1, seed).strip() for seed in range(20)]
    threshold = sure_run(tmp_path / "sure", words_tokenizer, MOODS, texts)
    with serving(str(tmp_path / "sure")) as served:
        plain = ask(served, "classify", model="sure", input=texts).json()
        found = ask(served, "classify", model="sure", input=texts, abstain=0.1).json()
        refused = ask(served, "classify", model="sure", input=texts, abstain=0.01)
        wrong = ask(served, "classify", model="sure", input=texts, abstain=5)
    assert "promise" not in plain
    assert found["promise"] == {
        "risk": 0.1, "confidence": 0.95, "examples": 100, "answered": 60, "wrong": 0,
    }  # fmt: skip
    for row, before in zip(found["data"], plain["data"], strict=True):
        assert "abstained" not in before
        assert row["abstained"] == (before["confidence"] < round(threshold, 6))
        assert row["label"] == (None if row["abstained"] else before["label"])
        assert row["probabilities"] == before["probabilities"]
    assert {row["abstained"] for row in found["data"]} == {True, False}
    status, _, said = error_of(refused)
    assert (status, refused.json()["error"]["param"]) == (400, "abstain")
    assert said.startswith("the run 'sure' cannot promise that at most 1 % of its answers to 'moods' are wrong")
    assert (error_of(wrong)[0], wrong.json()["error"]["param"]) == (400, "abstain")
    without = ask(client, "classify", model="taught", task="moods", input="Ann", abstain=0.1)
    assert "the run 'taught' was fine-tuned without finetuning.calibrate" in error_of(without)[2]


def test_reasons_are_those_that_the_run_gives(client: httpx.Client, taught: Path) -> None:
    run = load_run(taught, device="cpu")
    texts = ["Ann lost a key", "Tom sold a hat!"]
    before = ask(client, "classify", model="taught", task="moods", input=texts).json()["data"]
    assert not any("explanation" in row for row in before)
    for explain, given in ((True, {"gradients": True}), ("sad", {"gradients": True}), ("sad", {})):
        asked = {"model": "taught", "task": "moods", "input": texts, "explain": explain}
        found = ask(client, "classify", **asked, **given).json()["data"]
        wanted = run.predict(texts, task="moods", explain=explain)
        for row, own in zip(found, wanted, strict=True):
            ((why,), (same,)) = row["explanation"], own["explanation"]
            assert why["label"] == same["label"]
            assert ("gap" in why) == bool(given)
            for one, other in zip(why["words"], same["words"], strict=True):
                if not given:  # which cost more than all else, and are made where they are asked for
                    del other["gradient"]
                assert one == pytest.approx(other, abs=1e-3)
    refused = ask(client, "classify", model="taught", task="moods", input=texts, gradients=True)
    assert (error_of(refused)[0], refused.json()["error"]["param"]) == (400, "gradients")
    pair = {"a": "It rains.", "b": "It is wet."}
    ((row,),) = [ask(client, "classify", model="taught", task="rte", input=pair, explain=True).json()["data"]]
    assert {word["field"] for word in row["explanation"][0]["words"]} == {"a", "b"}


def test_what_would_have_the_run_read_too_much_is_not_explained_and_nothing_is_worked_on(
    client: Client, taught: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(Engine, "ask", lambda *given: asked.append(given))
    run, texts = load_run(taught, device="cpu"), ["Ann lost a key " * 30] * 128
    tokens = 128 * explaining_tokens(run, MOODS, Example((texts[0],), None, 1), True)
    assert tokens > 100_000
    refused = ask(client, "classify", model="taught", task="moods", input=texts, explain=True)
    status, code, message = error_of(refused)
    assert (status, code, refused.json()["error"]["param"]) == (400, "too_long", "explain")
    assert message == (
        f"to explain this the run would read {tokens:,} tokens, and it reads at most 100,000 for a request; "
        "give fewer or shorter texts"
    )
    refused = ask(client, "classify", model="taught", task="moods", input=texts[:8], explain=True, gradients=True)
    status, code, message = error_of(refused)
    assert (status, code, refused.json()["error"]["param"]) == (400, "too_long", "gradients")
    assert message.endswith("; leave out 'gradients', or give fewer or shorter texts")
    for label, task in (("", "moods"), ("joyful", "moods"), ("4", "race")):
        row = {"context": "Ann", "question": "Who?", "choices": list("abcd")} if task == "race" else "Ann"
        refused = ask(client, "classify", model="taught", task=task, input=row, explain=label)
        assert f"unknown label '{label}' of '{task}' to explain" in error_of(refused)[2]
        assert refused.json()["error"]["param"] == "explain"
    assert asked == []


def test_each_row_is_explained_by_itself_so_that_others_have_their_turn(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    asking = Engine.ask

    def watched(engine: Engine, key: tuple[str, ...], answering: Any, items: Any) -> Any:
        assert all(future.done() for future in futures)  # what came meanwhile stands before the next row
        asked.append(len(items))
        futures.append(asking(engine, key, answering, items))
        return futures[-1]

    futures: list[Any] = []
    monkeypatch.setattr(Engine, "ask", watched)
    texts = ["Ann lost a key", "Tom", "Ann"]
    data = ask(client, "classify", model="taught", task="moods", input=texts, explain=True).json()["data"]
    assert asked == [1, 1, 1]
    assert [row["index"] for row in data] == [0, 1, 2]
    assert [len(row["explanation"][0]["words"]) for row in data] == [4, 1, 1]


def test_what_is_not_answered_is_not_explained(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    texts = [f"Ann lost {number} keys" for number in range(20)]
    sure_run(tmp_path / "sure", words_tokenizer, MOODS, texts)
    with serving(str(tmp_path / "sure")) as served:
        data = ask(served, "classify", model="sure", input=texts, abstain=0.1, explain=True).json()["data"]
    assert {row["abstained"] for row in data} == {True, False}
    assert all(bool(row["explanation"]) != row["abstained"] for row in data)


def test_a_text_whose_end_is_not_read_says_so(client: httpx.Client) -> None:
    asked = {"model": "taught", "task": "moods", "input": ["Ann", "Ann lost a key. " * 30]}
    answer = client.post("/v1/classify", json=asked).json()
    assert [one["truncated"] for one in answer["data"]] == [False, True]
    assert answer["truncated"] == 1


def test_tokens_that_the_vocabulary_does_not_have_are_counted(client: httpx.Client) -> None:
    asked = {"model": "taught", "task": "moods", "input": ["Ann", "Ann 재미있었다"]}
    answer = client.post("/v1/classify", json=asked).json()
    first, second = answer["data"]
    assert (answer["unknown"], answer["truncated"]) == (1, 0)
    assert (first["unknown_tokens"], second["unknown_tokens"]) == (0, 5)
    assert second["tokens"] == first["tokens"] + 5
    assert all("notice" not in one for one in (first, second))


def test_a_text_of_which_nothing_is_known_says_so_beside_its_confidence(client: httpx.Client) -> None:
    answer = ask(client, "classify", model="taught", task="moods", input="재미있었다").json()["data"][0]
    assert answer["unknown_tokens"] == answer["tokens"] == 5
    assert answer["notice"] == (
        "none of its 5 tokens is in the vocabulary, so that the answer tells nothing of the text"
    )


def test_usage_counts_tokens_that_the_vocabulary_does_not_have(client: httpx.Client) -> None:
    known, unknown = "Ann sold", "Ann 재미있었다"
    asked = {"prompt": [known, unknown], "n": 2, "max_tokens": 1}
    *_, last = events(complete(client, **asked, stream=True, stream_options={"include_usage": True}))
    vectors = ask(client, "embeddings", model="writer", input=[known, unknown]).json()
    for usage in (complete(client, **asked).json()["usage"], last["usage"], vectors["usage"]):
        assert usage["unknown_tokens"] == 5
    assert complete(client, prompt=known).json()["usage"]["unknown_tokens"] == 0


def test_embeddings_and_scores_are_those_of_the_run(client: httpx.Client, trained: Path) -> None:
    run, texts = load_run(trained, device="cpu"), ["Ann sold a hat", "the cat"]
    for pooling in ("mean", "last"):
        asked = {"model": "writer", "input": texts, "pooling": pooling}
        answer = client.post("/v1/embeddings", json=asked).json()
        found = np.array([one["embedding"] for one in answer["data"]])
        np.testing.assert_allclose(found, run.embed(texts, pooling=pooling), rtol=1e-4, atol=1e-5)
    answer = client.post("/v1/score", json={"model": "writer", "input": texts}).json()
    for one, wanted in zip(answer["data"], run.score(texts), strict=True):
        assert one["ids"] == wanted.ids
        np.testing.assert_allclose(one["log_probabilities"][1:], wanted.log_probabilities[1:], rtol=1e-4)


def test_ids_are_embedded_as_they_are(client: httpx.Client, trained: Path) -> None:
    run = load_run(trained, device="cpu")
    whole, ids = run.tokenizer.encode("the"), range(run.tokenizer.vocab_size)
    parts = [id for id in ids if run.tokenizer.encode(run.tokenizer.decode([id])) != [id]][:5]
    assert run.tokenizer.encode(run.tokenizer.decode(parts)) != parts
    for given, wanted in ((parts, [parts]), ([parts, whole], [parts, whole])):
        answer = ask(client, "embeddings", model="writer", input=given).json()
        found = np.array([one["embedding"] for one in answer["data"]])
        np.testing.assert_allclose(found, run.embed(wanted), rtol=1e-4, atol=1e-5)
        assert answer["usage"]["prompt_tokens"] == sum(map(len, wanted))


def test_each_token_of_a_completion_has_its_log_probability_and_its_alternatives(
    client: httpx.Client, trained: Path
) -> None:
    asked = {"prompt": ["Ann sold", "the cat"], "max_tokens": 9, "temperature": 1.1, "seed": 4, "logprobs": 3}
    run = load_run(trained, device="cpu")
    settings = {"max_new_tokens": 9, "temperature": 1.1, "top_k": None, "seed": 4, "top_logprobs": 3}
    for choice, wanted in zip(
        complete(client, **asked).json()["choices"], run.generate_batch(asked["prompt"], **settings), strict=True
    ):
        told = choice["logprobs"]
        assert "".join(told["tokens"]) == choice["text"] == wanted.text
        for token, start in zip(told["tokens"], told["text_offset"], strict=True):
            assert choice["text"][start : start + len(token)] == token
        assert told["token_logprobs"] == pytest.approx([one.log_probability for one in wanted.weighed], abs=1e-4)
        for top, one in zip(told["top_logprobs"], wanted.weighed, strict=True):
            assert list(top) == [run.tokenizer.spell(id) for id, _ in one.likeliest]
    assert complete(client, prompt="Ann", logprobs=0).json()["choices"][0]["logprobs"]["top_logprobs"][0] == {}


def test_texts_are_scored_after_another_and_told_token_by_token(client: httpx.Client, trained: Path) -> None:
    texts = [" a silver key.", " nothing"]
    answer = client.post("/v1/score", json={"model": "writer", "input": texts, "after": "Ann sold"}).json()
    for one, wanted in zip(answer["data"], load_run(trained, device="cpu").score(texts, after="Ann sold"), strict=True):
        assert one["log_probabilities"] == pytest.approx(wanted.log_probabilities, rel=1e-4)
        assert len(one["tokens"]) == len(one["ids"])
    assert "".join(answer["data"][0]["tokens"]) == "a silver key."


def test_attention_is_told_for_each_head_and_token(client: httpx.Client, trained: Path) -> None:
    answer = client.post("/v1/attention", json={"model": "writer", "input": "Ann sold a hat", "layer": 2}).json()
    wanted = load_run(trained, device="cpu").attention("Ann sold a hat", layer=2)
    assert (answer["ids"], answer["layer"]) == (wanted.ids, 2)
    assert "".join(answer["tokens"]) == "ann sold a hat"
    for head, rows in zip(wanted.weights, answer["weights"], strict=True):
        for token, row in enumerate(rows):
            assert row == pytest.approx(head[token, : token + 1].tolist(), abs=1e-4)


def test_runs_are_listed_each_with_what_it_is(client: Client) -> None:
    writer, taught = client.get("/v1/models").json()["data"]
    assert (writer["id"], writer["kind"], writer["tasks"]) == ("writer", "pretraining", {})
    assert (taught["id"], taught["kind"], taught["status"]) == ("taught", "finetuning", "ready")
    assert (writer["attention"], writer["tokenizer"]) == ({"layers": 2, "heads": 2, "tokens": 16}, "words")
    moods = {"title": "moods", "fields": ["text"], "labels": ["glad", "sad"], "labels_sep": "", "choices": 0}
    moods["score_range"] = None
    assert taught["tasks"]["moods"] == moods
    assert taught["tasks"]["race"]["choices"] == 4
    assert client.get("/v1/models/taught").json() == taught
    counted = 'gpt1_requests_total{path="/v1/models/{name}",status="200"}'
    assert client.figures()[counted] >= 1


def test_health_and_figures_may_be_asked_for_without_a_body(client: httpx.Client) -> None:
    for path in ("/healthz", "/readyz", "/startupz", "/metrics"):
        answer = client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")


# ---- what is refused ----


@pytest.mark.parametrize(
    ("path", "asked", "message"),
    [
        ("completions", {"prompt": "x" * 100_001}, "the texts have 100,001 characters, a request at most 100,000"),
        ("completions", {"max_tokens": 1025}, "max_tokens is at most 1,024, not 1,025"),
        ("completions", {"n": 129}, "a request is for 1 to 128 texts, not 129"),
        ("completions", {"prompt": []}, "a request is for 1 to 128 texts, not 0"),
        ("completions", {"prompt": [10**9]}, "id 1000000000 is not in the vocabulary"),
        ("completions", {"prompt": [[-1]]}, "id -1 is not in the vocabulary"),
        ("completions", {"logprobs": 1, "stream": True}, "logprobs in a stream is not supported"),
        ("completions", {"logprobs": 1, "echo": True}, "logprobs with echo is not supported"),
        ("completions", {"logprobs": 21}, "logprobs: Input should be less than or equal to 20"),
        ("score", {"input": "x", "after": "x" * 100_000}, "the texts have 100,001 characters"),
        ("attention", {"input": "Ann", "layer": 3}, "there are layers 1 to 2, not 3"),
        ("attention", {"input": "Ann", "layer": 0}, "layer: Input should be greater than or equal to 1"),
        ("attention", {"input": "Ann " * 200}, "tokens, attention is shown of at most 16"),
        ("attention", {"input": " "}, "the text has 0 tokens; attention is shown of 1 to 16"),
        ("completions", {"presence_penalty": 0.5}, "presence_penalty is not supported"),
        ("completions", {"stop": ["x"] * 17}, "at most 16 stop strings"),
        ("completions", {"stop": ""}, "a stop string has at least one character"),
        ("completions", {"temperature": -1}, "temperature: Input should be greater than or equal to 0"),
        ("completions", {"temprature": 1}, "temprature: there is no such field; did you mean 'temperature'?"),
        ("completions", {"max_new_tokens": 3}, "max_new_tokens: there is no such field; did you mean 'max_tokens'?"),
        ("classify", {"model": "taught", "inputs": "Ann"}, "inputs: there is no such field; did you mean 'input'?"),
        ("classify", {"model": "taught", "input": 5}, "input: expected a text or an object or a list"),
        ("completions", {"max_tokens": "many"}, "max_tokens: Input should be a valid integer"),
        ("completions", {"prompt": 3}, "prompt: expected a text or a list"),
        ("completions", {"stop": 3}, "stop: expected a text or a list"),
        ("completions", {"stream_options": {"x": 1}}, "stream_options.x: there is no such field"),
        ("completions", {"seed": -1}, "seed: Input should be greater than or equal to 0"),
        ("completions", {"seed": 2**63}, "seed: Input should be less than 9223372036854775808"),
        ("classify", {"input": "Ann"}, "the run 'writer' has learned no task yet"),
        ("classify", {"model": "taught", "input": "Ann"}, "'taught' has learned several tasks; name one in 'task': m"),
        ("classify", {"model": "taught", "task": "zz", "input": "Ann"}, "unknown task 'zz' of 'taught' (known: moods,"),
        ("classify", {"model": "taught", "task": "rte", "input": {"\ud800": "x"}}, "reads a, b, and not '?'"),
        ("classify", {"model": "taught", "task": "rte", "input": {"x" * 900_000: "x"}}, "reads a, b, and not 'xxx"),
        ("completions", {"x" * 900_000: 1}, ": there is no such field"),
        ("classify", {"model": "taught", "task": "mods", "input": "Ann"}, "did you mean 'moods'"),
        ("classify", {"model": "taught", "task": "rte", "input": "Ann"}, "reads a, b: give an object with these"),
        ("classify", {"model": "taught", "task": "rte", "input": {"a": "x"}}, "b"),
        (
            "classify",
            {"model": "taught", "task": "rte", "input": {"a": "x", "b": 3}},
            "input: 'b' holds 3, expected text",
        ),
        (
            "classify",
            {"model": "taught", "task": "rte", "input": [{"a": "x", "b": "y"}, {"a": "x", "b": 3}]},
            "input[1]: 'b' holds 3, expected text",
        ),
        ("classify", {"model": "taught", "task": "rte", "input": {"c": "x"}}, "reads a, b, and not 'c'"),
        ("classify", {"model": "taught", "task": "moods", "input": ["Ann", " "]}, "'input' has an empty text"),
        ("embeddings", {"input": []}, "a request has 1 to 128 inputs, not 0"),
        ("embeddings", {"input": ["Ann", " "]}, "text 2 has no tokens"),
        ("embeddings", {"input": "Ann", "dimensions": 3}, "vectors have 32 dimensions"),
        ("embeddings", {"input": [10**9]}, "id 1000000000 is not in the vocabulary"),
        ("embeddings", {"input": [[1], [-1]]}, "id -1 is not in the vocabulary"),
        ("embeddings", {"input": [[1], []]}, "text 2 has no tokens"),
        ("score", {"input": ["x"] * 129}, "a request has 1 to 128 inputs, not 129"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(
    client: httpx.Client, path: str, asked: dict[str, Any], message: str
) -> None:
    status, _, found = error_of(ask(client, path, **{"model": "writer", **asked}))
    assert status == 400
    assert message in found
    assert "/" not in found.replace("/v1/models", "")  # no path of the server's


@pytest.mark.parametrize(
    ("path", "asked", "param"),
    [
        ("completions", {"model": "nobody"}, "model"),
        ("completions", {"prompt": 3}, "prompt"),
        ("completions", {"prompt": [10**6]}, "prompt"),
        ("completions", {"n": 200}, "n"),
        ("completions", {"stop": [""]}, "stop"),
        ("classify", {"model": "taught", "task": "moods", "input": " "}, "input"),
        ("classify", {"model": "taught", "task": "rte", "input": {"a": "It rains."}}, "input"),
        ("embeddings", {"input": " "}, "input"),
        ("attention", {"input": "Ann", "layer": 3}, "layer"),
        ("completions", {"max_tokens": 10**6}, "max_tokens"),
        ("completions", {"stream_options": {"x": 1}}, "stream_options"),
        ("completions", {"logprobs": 1, "echo": True}, "logprobs"),
        ("completions", {"temprature": 1}, "temprature"),
        ("classify", {"input": "Ann"}, "model"),
        ("classify", {"model": "taught", "task": "mods", "input": "Ann"}, "task"),
        ("score", {}, "input"),
    ],
)
def test_an_error_names_the_field_that_is_wrong(
    client: httpx.Client, path: str, asked: dict[str, Any], param: str
) -> None:
    answer = client.post(f"/v1/{path}", json={"model": "writer", **asked})
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"model": x}', "the body is not JSON: JSON decode error at character 10, Expecting value"),
        (b"", 'the body is empty; send one, such as {"model": ...}'),
        (b"[1]", "the body is not a JSON object; send one"),
        (b"[" * 200_000, "brackets are nested more than 64 deep"),
        (b'{"a":' * 100_000, "brackets are nested more than 64 deep"),
        (b'{"model": "writer", "prompt": ' + b"[" * 100 + b"]" * 100 + b"}", "brackets are nested more than 64 deep"),
        (b'{"model": "writer", "temperature": NaN}', "the body is not JSON: NaN is no number of it"),
        (b'{"model": "writer", "temperature": -Infinity}', "the body is not JSON: -Infinity is no number of it"),
        (b'{"model": "writer", "n": 1, "seed": 1, "n": 2}', "'n' stands twice in the body"),
        (b'{"model": "\xff"}', "the body is not JSON that can be read: 'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_a_body_that_is_no_request_is_told_what_it_lacks(client: httpx.Client, body: bytes, message: str) -> None:
    answer = client.post("/v1/completions", content=body, headers={"Content-Type": "application/json"})
    _, code, told = error_of(answer)
    assert message in told
    assert code


def test_a_key_that_stands_twice_is_named_as_the_field_that_is_wrong(client: httpx.Client) -> None:
    body = b'{"model": "writer", "stream_options": {"x": 1, "include_usage": true, "include_usage": false}}'
    answer = client.post("/v1/completions", content=body, headers={"Content-Type": "application/json"})
    assert answer.json()["error"]["param"] == "include_usage"


def test_a_body_says_that_it_is_json(client: httpx.Client) -> None:
    body = json.dumps({**GREEDY, "prompt": "Ann"}).encode()
    for kind in ("application/json", "Application/JSON; charset=utf-8", "application/vnd.x+json"):
        answer = client.post("/v1/completions", content=body, headers={"Content-Type": kind})
        assert answer.status_code == 200
    for kind in ("", "application/x-www-form-urlencoded", "text/plain", "application/jsonlines"):
        answer = client.post("/v1/completions", content=body, headers={"Content-Type": kind})
        assert error_of(answer) == (415, "not_json", "send the body as JSON, with Content-Type: application/json")


def test_what_is_not_there_is_not_found(client: httpx.Client) -> None:
    for name in ("nobody", "\ud800", "x" * 900_000):
        assert error_of(complete(client, model=name))[:2] == (404, "model_not_found")
    assert error_of(complete(client, model="x" * 900_000))[2].endswith("x'; /v1/models lists them")
    assert error_of(client.get("/v1/models/nobody"))[:2] == (404, "model_not_found")
    assert error_of(client.get("/v1/nothing"))[0] == 404
    chat = client.post("/v1/chat/completions", json={"model": "writer", "messages": []})
    assert chat.status_code == 404
    assert chat.json()["error"]["message"] == (
        "there is no /v1/chat/completions here; the runs here do not chat, /v1/completions continues a text; there are "
        "/v1/attention, /v1/classify, /v1/completions, /v1/embeddings, /v1/models, /v1/models/{name}, /v1/score"
    )
    assert error_of(client.get("/v1/completions"))[0] == 405


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b'{"model": "\xff"}', b"[" * 100_000, b'{"model":"writer","prompt":"\\ud800"}']
)
def test_a_body_that_is_no_request_is_refused(client: httpx.Client, body: bytes) -> None:
    answer = client.post("/v1/completions", content=body, headers={"Content-Type": "application/json"})
    assert error_of(answer)[0] == 400


MANY = 100_000  # things that fit into a body


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        (CompletionRequest, {"prompt": ["a", 1] * MANY}),
        (CompletionRequest, {"prompt": [1, "a"] * MANY}),
        (CompletionRequest, {"prompt": [[1], ["a"]] * MANY}),
        (CompletionRequest, {"prompt": [["a"] * MANY]}),
        (CompletionRequest, {"prompt": [None] * MANY}),
        (CompletionRequest, {"stop": [1] * MANY}),
        (CompletionRequest, {"stream_options": {str(at): at for at in range(MANY)}}),
        (CompletionRequest, {str(at): at for at in range(MANY)}),
        (EmbeddingRequest, {"input": ["a", 1] * MANY}),
        (EmbeddingRequest, {"input": [[]] * MANY + [[1.5] * MANY]}),
        (ScoreRequest, {"input": [[1]] * MANY}),
        (ClassifyRequest, {"input": [["a"]] * MANY}),
        (ClassifyRequest, {"input": [1.5] * MANY, **{str(at): at for at in range(MANY)}}),
    ],
)
def test_a_body_full_of_faults_is_refused_for_a_few(kind: type[Request], asked: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        kind.model_validate({"model": "writer", **asked})
    assert refused.value.error_count() <= 5


NESTED = 300_000


@pytest.mark.parametrize("path", ["completions", "classify", "embeddings", "score", "attention"])
@pytest.mark.parametrize(
    "wrong",
    [
        b'["a", 1' + b', "a", 1' * 100_000 + b"]",
        b"[" * NESTED + b"]" * NESTED,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b"9" * 900_000,
        b"[" + b"9" * 4000 + b"]",
        b"1e999",
        b"[1e999, -1e999]",
        b"[NaN]",
        b'{"' + b"k" * 900_000 + b'": 1}',
        b'"' + b"\\ud800" * 100_000 + b'"',
        b"[" + b"[]," * 300_000 + b"[]]",
        b"{" + b",".join(b'"%d": 1' % at for at in range(80_000)) + b"}",
    ],
    ids=("mixed", "deep", "deep objects", "int", "ints", "inf", "infs", "nan", "key", "halves", "empty", "keys"),
)
def test_whatever_fills_a_body_it_is_refused_briefly(client: httpx.Client, path: str, wrong: bytes) -> None:
    field = b"prompt" if path == "completions" else b"input"
    body = b'{"model": "writer", "' + field + b'": ' + wrong + b"}"
    answer = client.post(f"/v1/{path}", content=body, headers={"Content-Type": "application/json"})
    assert error_of(answer)[0] == 400


def test_a_large_body_is_refused_whatever_it_says_of_its_length(client: httpx.Client) -> None:
    large = json.dumps({"model": "writer", "prompt": "x" * 1_000_000}).encode()
    headers = {"Content-Type": "application/json"}
    assert error_of(client.post("/v1/completions", content=large, headers=headers))[0] == 413
    pieces = (large[start : start + 10_000] for start in range(0, len(large), 10_000))
    assert error_of(client.post("/v1/completions", content=pieces, headers=headers))[0] == 413


def test_a_long_run_of_signs_does_not_stall_the_server(client: httpx.Client) -> None:
    assert complete(client, prompt="$" * 100_000, max_tokens=1).status_code == 200


# ---- who may ----


def test_only_its_own_name_is_answered_to_on_this_machine(client: httpx.Client) -> None:
    for host in ("localhost", "127.0.0.1:99", "[::1]:8000"):
        assert client.get("/healthz", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example", "", "]localhost[", "[localhost]", "localhost:x"):
        assert error_of(client.get("/healthz", headers={"Host": host}))[:2] == (421, "wrong_host")


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("localhost", "localhost"),
        ("LocalHost:8000", "localhost"),
        ("127.0.0.1:1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[::1]:65535", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("[::FFFF:127.0.0.1]:80", "::ffff:7f00:1"),
        ("]localhost[", None),
        ("[localhost]", None),
        ("[localhost", None),
        ("localhost]", None),
        ("[127.0.0.1]", None),
        ("::1", None),
        ("[::1", None),
        ("::1]", None),
        ("[[::1]]", None),
        ("[::1]x", None),
        ("[::1]:", None),
        ("[]", None),
        ("[::1%eth0]", None),
        ("[1:2]", None),
        ("localhost:", None),
        ("localhost:x", None),
        ("localhost:-1", None),
        ("localhost:+1", None),
        ("localhost: 1", None),
        ("localhost:65536", None),
        ("localhost:99999999999999999999", None),
        ("localhost:1:2", None),
        ("localhost:\u0661", None),
        (":8000", None),
        (":", None),
        ("", None),
        ("localhost.", "localhost."),
        ("localhost\n", None),
        (" localhost", None),
        ("localhost/", None),
        ("localhost@evil.example", None),
        ("localhost,evil.example", None),
        ("localhost\u2024", None),
    ],
)
def test_a_host_is_a_name_or_an_address_and_perhaps_a_port(header: str, host: str | None) -> None:
    assert host_of(header) == host


def test_with_a_token_only_health_is_told_to_strangers(trained: Path) -> None:
    with serving(f"writer={trained}", token="sesame", host="0.0.0.0") as client:
        for scheme in ("Bearer", "bearer", "BEARER"):
            client.headers["Authorization"] = f"{scheme} sesame"
            assert complete(client, prompt="Ann").status_code == 200
        for header in ("Basic sesame", "", "Bearer", "Bearer other", "sesame", "Bearer sesame2"):
            client.headers["Authorization"] = header
            for path in ("/v1/models", "/metrics", "/v1/nothing"):
                answer = client.get(path, headers={"Host": "any.example"})
                assert error_of(answer)[:2] == (401, "no_token")
                assert answer.headers["www-authenticate"] == "Bearer"
            assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
            assert client.get("/").status_code == 200  # the page, which holds nothing and asks for the token
            assert (
                client.get("/openapi.json").status_code == 200
            )  # which the page links to, and which is the same for all


# ---- many at once ----


def test_requests_are_worked_on_together(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(f"writer={trained}") as client:

        def text(seed: int) -> str:
            asked = {"prompt": "Ann sold", "seed": seed, "temperature": 1, "max_tokens": 20}
            return str(complete(client, **asked).json()["choices"][0]["text"])

        alone = [text(seed) for seed in range(8)]
        before = client.figures()
        gate = gate_before_steps(monkeypatch)
        with ThreadPoolExecutor(8) as threads:
            together = [threads.submit(text, seed) for seed in range(8)]
            engine = client.engine()
            eventually(lambda: len(engine._wishes) + len(engine._at_work) == 8, "all have come")
            gate.open()
            assert [future.result() for future in together] == alone
        after = client.figures()
    name = 'gpt1_batch_size_{}{{kind="write",model="writer"}}'
    passes, texts = (after[name.format(what)] - before[name.format(what)] for what in ("count", "sum"))
    assert texts == 8 * 20
    assert passes <= 21  # one may have begun alone


def test_a_full_queue_refuses_with_a_time_to_come_back(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = gate_before_steps(monkeypatch)
    with serving(f"writer={trained}", max_queue=2) as client, ThreadPoolExecutor(2) as threads:
        answers = [threads.submit(complete, client, prompt="Ann", max_tokens=8) for _ in range(2)]
        eventually(lambda: client.engine().open == 2, "two are let in")
        refused = complete(client, prompt="Ann", max_tokens=8)
        assert error_of(refused)[:2] == (429, "queue_full")
        assert int(refused.headers["retry-after"]) >= 1
        gate.open()
        assert [answer.result().status_code for answer in answers] == [200, 200]
        assert complete(client, prompt="Ann").status_code == 200  # places come free again


def test_some_connections_are_never_at_work(trained: Path, taught: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = gate_before_steps(monkeypatch)
    with serving(f"writer={trained}", str(taught), connections=4) as client, ThreadPoolExecutor(3) as threads:
        answers = [
            threads.submit(complete, client, model=model, prompt="Ann") for model in ("writer", "taught", "writer")
        ]
        eventually(lambda: client.engine().open + client.engine("taught").open == 3, "three are let in")
        assert error_of(complete(client, prompt="Ann"))[:2] == (429, "queue_full")
        assert client.get("/healthz").status_code == 200
        gate.open()
        assert [answer.result().status_code for answer in answers] == [200] * 3


def is_idle(engine: Engine) -> bool:
    return not (engine.open or engine._wishes or engine._requests or engine._questions)


@pytest.mark.parametrize("streams", [False, True])
def test_what_takes_too_long_is_given_up(trained: Path, monkeypatch: pytest.MonkeyPatch, streams: bool) -> None:
    gate = gate_before_steps(monkeypatch)
    with serving(f"writer={trained}", request_timeout=LONG) as client, ThreadPoolExecutor(1) as threads:
        asked = threads.submit(complete, client, prompt="Ann", max_tokens=100, stream=streams)
        assert gate.reached.wait(600)
        client.loop.set_forward(LONG)
        if streams:
            lines = asked.result().text.split("\n\n")
            assert json.loads(lines[-2].removeprefix("data: "))["error"]["code"] == "timeout"
        else:
            assert error_of(asked.result())[:2] == (504, "timeout")
        gate.open()
        eventually(lambda: is_idle(client.engine()), "nothing is left of it")


@pytest.mark.parametrize("streams", [False, True])
def test_a_prompt_that_takes_too_long_to_encode_is_given_up(
    trained: Path, monkeypatch: pytest.MonkeyPatch, streams: bool
) -> None:
    gate = gate_before_encoding(monkeypatch)
    with serving(f"writer={trained}", request_timeout=LONG) as client, ThreadPoolExecutor(1) as threads:
        asked = threads.submit(complete, client, prompt="Ann", stream=streams)
        assert gate.reached.wait(600)
        client.loop.set_forward(LONG)
        assert error_of(asked.result())[:2] == (504, "timeout")
        gate.open()
        eventually(lambda: is_idle(client.engine()), "the place is free")


def test_a_client_that_does_not_wait_for_its_prompt_to_be_encoded_frees_the_place(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = gate_before_encoding(monkeypatch)
    with serving(f"writer={trained}") as client:
        leaving = client.connected(post("/v1/completions", model="writer", prompt="Ann", stream=True))
        assert gate.reached.wait(600)
        leaving.close()
        eventually(lambda: is_idle(client.engine()), "the place is free")
        gate.open()
        counted = 'gpt1_requests_total{path="/v1/completions",status="499"}'
        eventually(lambda: counted in client.figures(), "it is counted")


def test_however_many_prompts_a_run_has_to_encode_those_of_another_do_not_wait(
    trained: Path, taught: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = gate_before_encoding(monkeypatch)
    with serving(f"writer={trained}", str(taught)) as client, ThreadPoolExecutor(40) as threads:
        many = [threads.submit(complete, client, prompt="Ann", max_tokens=1) for _ in range(40)]
        eventually(lambda: client.engine().open == 40, "all have come")
        assert complete(client, model="taught", prompt="", max_tokens=1).status_code == 200
        gate.open()
        assert {one.result().status_code for one in many} == {200}


def test_a_long_question_stands_in_nobodys_way_and_ends_with_its_time(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = gate_before_scores(monkeypatch)
    with serving(f"writer={trained}", request_timeout=LONG) as client, ThreadPoolExecutor(2) as threads:
        question = threads.submit(client.post, "/v1/score", json={"model": "writer", "input": ["Ann " * 1000] * 20})
        assert gate.reached.wait(600)
        text = threads.submit(complete, client, prompt="Ann", max_tokens=3)
        eventually(lambda: client.engine()._wishes, "the text waits")
        gate.let(4)  # of some hundred portions
        assert text.result().status_code == 200
        assert not question.done()
        client.loop.set_forward(LONG)
        assert error_of(question.result())[:2] == (504, "timeout")
        gate.open()
        assert complete(client, prompt="Ann", max_tokens=3).status_code == 200


def test_a_reader_who_goes_away_frees_the_place(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = gate_before_steps(monkeypatch)
    with serving(f"writer={trained}") as client:
        asked = {**GREEDY, "prompt": "Ann", "max_tokens": 1000, "stream": True}
        gate.let(5)
        with client.stream("POST", "/v1/completions", json=asked) as answer:
            lines = answer.iter_lines()  # which closes the connection when it is forgotten
            next(lines)
            (wish,) = client.engine()._at_work
        eventually(wish.future.cancelled, "the text is given up")
        gate.open()
        eventually(lambda: is_idle(client.engine()), "the place is free")


@pytest.mark.parametrize("path", ["completions", "score"])
def test_a_client_that_does_not_wait_for_its_answer_frees_the_place(
    trained: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    gates = gate_before_steps(monkeypatch), gate_before_scores(monkeypatch)
    with serving(f"writer={trained}") as client:
        asked = {"completions": {"prompt": "Ann", "max_tokens": 1000, "n": 40}, "score": {"input": "Ann " * 20_000}}
        leaving = client.connected(post(f"/v1/{path}", model="writer", **asked[path]))
        assert gates[path == "score"].reached.wait(600)
        leaving.close()
        counted = f'gpt1_requests_total{{path="/v1/{path}",status="499"}}'
        eventually(lambda: counted in client.figures(), "it is counted")
        for gate in gates:
            gate.open()
        eventually(lambda: is_idle(client.engine()), "the place is free")
        assert complete(client, prompt="Ann", max_tokens=2).status_code == 200


def test_a_server_that_ends_answers_what_is_in_flight(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = gate_before_steps(monkeypatch)
    with serving(f"writer={trained}") as client, ThreadPoolExecutor(1) as threads:
        asked = threads.submit(complete, client, prompt="Ann", max_tokens=30)
        assert gate.reached.wait(600)
        client.server.should_exit = True
        eventually(lambda: not client.server._is_open, "nobody is let in any more")
        gate.open()
        assert asked.result().json()["usage"]["completion_tokens"] == 30


def test_a_server_that_drains_is_not_ready_and_refuses_what_makes_work(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = gate_before_steps(monkeypatch)
    with serving(f"writer={trained}") as client, ThreadPoolExecutor(2) as threads:
        asked = [
            threads.submit(complete, client, prompt="Ann", max_tokens=30, stream=streams) for streams in (False, True)
        ]
        eventually(lambda: client.figures()['gpt1_requests_open{model="writer"}'] == 2, "both are in flight")
        client.server.handle_exit(signal.SIGTERM, None)
        client.server.handle_exit(signal.SIGTERM, None)  # said twice it is the same
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "draining")
        assert {client.get(path).status_code for path in ("/healthz", "/startupz", "/metrics", "/v1/models")} == {200}
        refused = complete(client, prompt="Ann")
        assert error_of(refused)[:2] == (503, "draining")
        assert (int(refused.headers["retry-after"]), refused.headers["connection"]) == (1, "close")
        gate.open()
        whole, stream = (one.result() for one in asked)
        assert whole.json()["usage"]["completion_tokens"] == 30
        assert stream.text.endswith("data: [DONE]\n\n")
        eventually(lambda: not client.server._is_open, "the server ends")


def test_whether_it_has_started_is_told_by_what_is_loaded(trained: Path) -> None:
    with serving(f"writer={trained}") as client:
        engine = client.engine()
        assert client.get("/startupz").json() == {"status": "started", "for": []}
        engine.loaded = False
        told = client.get("/startupz")
        assert (told.status_code, told.json()) == (503, {"status": "waiting", "for": ["writer"]})


# ---- a run that fails ----


@pytest.mark.parametrize("path", ["completions", "score", "embeddings", "attention", "classify"])
def test_a_run_that_fails_fails_alone(trained: Path, taught: Path, path: str) -> None:
    asked: dict[str, dict[str, Any]] = {
        "completions": {"prompt": "Ann"},
        "classify": {"input": "Ann", "task": "moods"},
    }
    with serving(f"writer={trained}", str(taught)) as client:
        engine = client.engine("taught")
        with torch.no_grad():
            for weights in engine.run.ready_classifier.parameters():
                weights.fill_(torch.nan)
        for _ in range(2):
            answer = ask(client, path, model="taught", **asked.get(path, {"input": "Ann sold a hat"}))
            assert error_of(answer)[:2] == (500, "run_failed")
        assert complete(client, prompt="Ann").status_code == 200
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()) == (503, {"status": "failed", "for": [], "failed": ["taught"]})
        assert client.get("/healthz").status_code == 200
        told = {model["id"]: model["status"] for model in client.get("/v1/models").json()["data"]}
        assert told == {"writer": "ready", "taught": "failed"}
        figures = client.figures()
        assert [figures[f'gpt1_run_ready{{model="{name}"}}'] for name in told] == [1, 0]


@pytest.mark.parametrize("streams", [False, True])
def test_a_request_that_is_beyond_the_network_is_told_so(trained: Path, streams: bool) -> None:
    with serving(f"writer={trained}") as client:
        with torch.no_grad():
            client.engine().run.network.positions[8] = 3e38
        answer = complete(client, prompt="Ann", max_tokens=12, stream=streams)
        told = json.loads(answer.text.split("\n\n")[-2].removeprefix("data: ")) if streams else answer.json()
        assert told["error"]["code"] == "no_numbers"
        assert complete(client, prompt="Ann", max_tokens=2).status_code == 200
        assert client.get("/readyz").status_code == 200


def test_a_run_that_looks_both_ways_answers_and_refuses_to_write(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    changes = ("finetuning.bidirectional=true", "finetuning.lm_weight=0")
    make_run(tmp_path / "both", words_tokenizer, MOODS, changes=changes)
    run = load_run(tmp_path / "both", device="cpu")
    with serving(str(tmp_path / "both")) as client:
        answer = ask(client, "classify", model="both", input=["Ann sold the lamp"]).json()
        (wanted,) = run.predict(["Ann sold the lamp"])
        assert answer["data"][0]["probabilities"] == pytest.approx(wanted["probabilities"])
        for path, asked in (
            ("completions", {"prompt": "Ann"}),
            ("completions", {"prompt": "Ann", "stream": True}),
            ("score", {"input": "Ann sold"}),
            ("attention", {"input": "Ann sold", "layer": 1}),
        ):
            refused = ask(client, path, model="both", **asked)
            assert refused.status_code == 400, refused.text
            assert "both ways" in refused.json()["error"]["message"]
        assert ask(client, "classify", model="both", input=["Ann sold the lamp"]).json()["data"] == answer["data"]
