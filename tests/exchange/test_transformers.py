"""transformers' OpenAIGPT in and out again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from gpt1.base.errors import FormatError, Gpt1Error, InputError
from gpt1.exchange.importing import import_transformers
from gpt1.exchange.names import check_shape
from gpt1.exchange.to_transformers import export_transformers, folded
from gpt1.inference.answering import answer_split
from gpt1.inference.run import Run, load_run
from gpt1.recipes.values import LSTM, Shape
from gpt1.records.calibration import CALIBRATION_FILE, CalibrationRecord, TaskCalibration
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.encoded import encode_task
from gpt1.tasks.examples import Example
from gpt1.tasks.shapes import PAIR, SINGLE
from gpt1.text.tokenizer import Tokenizer
from tests.exchange.tools import CONTEXT, openai_gpt, relative, save_openai_gpt, write_vocabulary
from tests.inference.tools import STEP, make_run


@pytest.fixture(scope="module")
def theirs(words_tokenizer: Tokenizer) -> Any:
    return openai_gpt(words_tokenizer)


@pytest.fixture(scope="module")
def saved(theirs: Any, tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Path:
    return save_openai_gpt(tmp_path_factory.mktemp("theirs") / "gpt", theirs, words_tokenizer)


@pytest.fixture(scope="module")
def run(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return import_transformers(saved, tmp_path_factory.mktemp("ours") / "run", device="cpu")


def logits(run: Run, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        hidden, output = run.model(ids)
        return hidden @ output.T


def test_logits_are_the_same(run: Run, theirs: Any) -> None:
    ids = torch.randint(0, run.tokenizer.vocab_size, (4, CONTEXT))
    with torch.no_grad():
        assert relative(logits(run, ids), theirs(ids).logits) < 1e-5


def test_greedy_text_is_the_same(run: Run, theirs: Any) -> None:
    ids = torch.tensor([run.tokenizer.encode("Ann sold")])
    found = theirs.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=6, pad_token_id=0)
    (ours,) = run.generate_batch(["Ann sold"], max_new_tokens=6, temperature=0)
    assert ours.ids == found[0, ids.shape[1] :].tolist()


def test_the_way_there_and_back_changes_no_bit(run: Run, saved: Path, theirs: Any, tmp_path: Path) -> None:
    from transformers import OpenAIGPTLMHeadModel

    (tmp_path / "mine").write_text("mine")
    with pytest.raises(InputError, match="mine is a file; choose a new or empty folder"):
        export_transformers(run, tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "mine"
    said = export_transformers(run, tmp_path / "back")
    modes = {entry.stat().st_mode & 0o777 for entry in (tmp_path / "back").iterdir()}
    assert len(modes) == 1  # the weights too are for whom the umask lets
    assert ["gives other ids for some texts" in sentence for sentence in said] == [True]
    before, after = load_file(saved / "model.safetensors"), load_file(tmp_path / "back" / "model.safetensors")
    assert before.keys() - after.keys() <= {"lm_head.weight"}
    assert all(torch.equal(after[name], before[name]) for name in after)
    again, notes = OpenAIGPTLMHeadModel.from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not notes["unexpected_keys"]
    ids = torch.randint(0, run.tokenizer.vocab_size, (2, CONTEXT))
    with torch.no_grad():
        assert torch.equal(again.eval()(ids).logits, theirs(ids).logits)
    assert import_transformers(tmp_path / "back", tmp_path / "again", device="cpu").generate("Ann", max_new_tokens=3)


def test_an_export_whose_files_are_not_as_they_were_written_is_refused_by_name(run: Run, tmp_path: Path) -> None:
    export_transformers(run, tmp_path / "out")
    for name in ("model.safetensors", "config.json", "vocab.json", "merges.txt", "gpt1.json"):
        whole = (tmp_path / "out" / name).read_bytes()
        place = len(whole) // 2
        (tmp_path / "out" / name).write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(FormatError, match=rf"{name} is (damaged|not).*export the run again, or remove gpt1\.json"):
            import_transformers(tmp_path / "out", tmp_path / "run", device="cpu")
        (tmp_path / "out" / name).write_bytes(whole)
    facts = json.loads((tmp_path / "out" / "config.json").read_text())
    (tmp_path / "out" / "config.json").write_text(json.dumps({**facts, "resid_pdrop": 0.25}))
    (tmp_path / "out" / "gpt1.json").unlink()  # changed on purpose, or made before
    assert import_transformers(tmp_path / "out", tmp_path / "run", device="cpu").recipe.shape.dropout == 0.25


def test_the_words_they_cut_alike_get_the_same_ids(run: Run, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    export_transformers(run, tmp_path / "out")
    loaded = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert loaded.encode("ann sold a silver key") == run.tokenizer.encode("Ann sold a silver key")


def test_a_byte_vocabulary_goes_out_with_the_same_ids(
    corpus: Path, bytes_tokenizer: Tokenizer, tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    from transformers import AutoTokenizer

    task = Task(name="t", title="t", shape=SINGLE, labels=("a", "b"), metrics=("accuracy",), fields=("text",))
    made = load_run(make_run(tmp_path / "run", bytes_tokenizer, task), device="cpu")
    wide = replace(made.recipe, shape=replace(made.recipe.shape, feed_forward=64))
    assert wide == made.recipe  # 32 wide: twice the width, which theirs cannot have
    with pytest.raises(InputError, match="its feed-forward part is 64 wide, not 4 x 32"):
        export_transformers(made, tmp_path / "out")
    made = load_run(make_run(tmp_path / "wide", bytes_tokenizer, task, feed_forward=128), device="cpu")
    said = export_transformers(made, tmp_path / "out")
    assert not any("other ids" in sentence for sentence in said)
    loaded = AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in ("Hello,\n\nworld  it's", "naïve café 😀", " leading", "x+y ++ z"):
        assert loaded.encode(text) == bytes_tokenizer.encode(text)
        assert loaded.decode(loaded.encode(text)) == text


@pytest.mark.parametrize(("shape", "temperature"), [(SINGLE, 1.0), (PAIR, 1.0), (SINGLE, 2.5)])
def test_a_fine_tuned_run_goes_out_with_its_answers_and_as_sure(
    shape: str, temperature: float, tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    from transformers import OpenAIGPTForSequenceClassification

    fields = ("text",) if shape == SINGLE else ("a", "b")
    task = Task(
        name="moods.x", title="moods", shape=shape, labels=("x", "y", "z"), metrics=("accuracy",), fields=fields
    )
    sure = ["finetuning.calibrate=true"]
    make_run(tmp_path / "run", words_tokenizer, task, feed_forward=128, head_bias=2.0, changes=sure)
    calibration = CalibrationRecord(STEP, {task.name: TaskCalibration("because", temperature)})
    calibration.write(tmp_path / "run" / CALIBRATION_FILE)
    made = load_run(tmp_path / "run", device="cpu")
    said = export_transformers(made, tmp_path / "out")
    assert "start" in said[-1]
    theirs = OpenAIGPTForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    assert theirs.config.id2label == {0: "x", 1: "y", 2: "z"}
    texts = [["Ann lost a key", "the cat"], ["3 apples", "nothing at all was sold"], ["so", "they say"]]
    examples = [Example(tuple(own[: len(fields)]), None, place) for place, own in enumerate(texts)]
    split = encode_task(replace(task, dev_splits=(), test_splits=("t",)), {"t": examples}, words_tokenizer, 32).splits[
        "t"
    ]
    rows = [split.sequences(place)[0].tolist() for place in range(3)]
    pad, longest = theirs.config.pad_token_id, max(map(len, rows))
    ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    with torch.no_grad():
        found = theirs(ids, attention_mask=mask).logits.double().softmax(-1)
    wanted = torch.from_numpy(answer_split(made, task, split)[0])
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


def test_tasks_of_several_sequences_and_scores_are_refused(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    made = make_run(tmp_path / "run", words_tokenizer, CATALOGUE["mrpc"], CATALOGUE["stsb"], feed_forward=128)
    for name in ("mrpc", "stsb"):
        with pytest.raises(InputError, match="cannot be exported"):
            export_transformers(load_run(made, device="cpu"), tmp_path / "out", task=name)


def test_a_bias_that_cannot_be_folded_is_refused() -> None:
    rows = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    with pytest.raises(InputError, match="its bias cannot be folded away"):
        folded(rows, torch.tensor([1.0, -1.0]), "run")
    weight = torch.randn(3, 8)
    bias = torch.randn(3)
    torch.testing.assert_close(weight.double() @ folded(weight, bias, "run"), bias.double())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm": "rms"}, "its norms are rms norms"),
        ({"positions": "rotary"}, "its positions are rotary"),
        ({"tied": False, "bias": False}, "it has no biases, its output matrix is its own"),
        ({"window": 100}, "it looks back 100 tokens"),
        ({"kind": LSTM, "layers": 1}, "it is an LSTM"),
    ],
)
def test_another_form_than_the_papers_is_refused_with_what_differs(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_shape(replace(Shape(), **change), "run")
    check_shape(replace(Shape(), window=512), "run")


# ---- what cannot come in ----


def copied(saved: Path, folder: Path) -> Path:
    folder.mkdir()
    for file in saved.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def test_a_pickle_is_refused_and_never_opened(saved: Path, tmp_path: Path) -> None:
    folder = copied(saved, tmp_path / "gpt")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"in pytorch_model.bin, a pickle, which can run anything"):
        import_transformers(folder, tmp_path / "run")


def test_a_folder_of_the_librarys_own_vocabulary_file_comes_in_too(
    saved: Path, theirs: Any, tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    from transformers import OpenAIGPTTokenizer

    folder = copied(saved, tmp_path / "gpt")
    write_vocabulary(tmp_path, words_tokenizer, "vocab.json", "merges.txt")
    OpenAIGPTTokenizer.from_pretrained(folder).save_pretrained(folder)
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink(missing_ok=True)
    found = import_transformers(folder, tmp_path / "run", device="cpu").tokenizer
    assert found.fingerprint == words_tokenizer.fingerprint


def test_what_is_no_gpt_of_the_papers_form_is_refused(saved: Path, tmp_path: Path) -> None:
    folder = copied(saved, tmp_path / "gpt")
    facts = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")

    def refused(message: str, kind: type[Gpt1Error] = InputError) -> None:
        with pytest.raises(kind, match=message):
            import_transformers(folder, tmp_path / "run")
        assert not (tmp_path / "run").exists()

    for change, message in (({"model_type": "gpt2"}, "of a 'gpt2'"), ({"afn": "relu"}, "an activation or a norm")):
        (folder / "config.json").write_text(json.dumps({**facts, **change}))
        refused(message)
    (folder / "config.json").write_text(json.dumps({**facts, "n_layer": 3}))
    refused("has no tensor 'h.2.attn.c_attn.weight'", FormatError)
    (folder / "config.json").write_text(json.dumps({**facts, "n_layer": 1}))
    refused("has a tensor 'h.1.attn.c_attn.bias' that GPT-1 has not")
    (folder / "config.json").write_text(json.dumps(facts))
    save_file({**tensors, "lm_head.weight": torch.randn(3, 3)}, folder / "model.safetensors")
    refused("its output matrix is not its token table")
    ruined = {**tensors, "transformer.h.0.ln_1.bias": tensors["transformer.h.0.ln_1.bias"] * torch.nan}
    save_file(ruined, folder / "model.safetensors")
    refused("holds numbers in blocks.0.norm_1.bias that are none", FormatError)
    (folder / "model.safetensors").write_bytes(b"spoilt")
    refused("model.safetensors cannot be read", FormatError)


def test_a_name_that_is_no_folder_is_asked_for_on_the_hub(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def download(name: str, allow_patterns: list[str]) -> str:
        asked.append((name, allow_patterns))
        return str(saved)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    import_transformers("openai-community/openai-gpt", tmp_path / "run", device="cpu")
    assert asked[0][0] == "openai-community/openai-gpt"
    assert not any("bin" in pattern for pattern in asked[0][1])
    with pytest.raises(InputError, match="does not exist"):
        import_transformers("no/such/folder", tmp_path / "other")
