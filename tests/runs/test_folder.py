"""A run folder: what it says of itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpt1.base.errors import FormatError, InputError
from gpt1.recipes.catalog import TINY
from gpt1.recipes.changes import change
from gpt1.records.run import RecordedCorpus
from gpt1.records.study import CellCounts, Cost, StudyRecord
from gpt1.runs.folder import begin_run, is_left_over, is_run, read_run, run_tokenizer, update_run
from gpt1.tasks.catalog import find_task
from gpt1.tasks.encoded import encode_task, save
from gpt1.text.tokenizer import Tokenizer
from tests.records import facts_in
from tests.runs.conftest import RECORD


def test_a_run_says_what_it_is(run: Path) -> None:
    record = read_run(run)
    assert (record.kind, record.seed, record.recipe) == ("pretraining", 3, TINY)
    assert {"gpt1", "git", "python", "torch", "numpy", "machine", "command", "at"} <= record.made_with.keys()
    assert (run / "tokenizer.json").read_text() == '{"a": 1}'
    assert sorted(path.name for path in run.iterdir()) == ["run.json", "tokenizer.json"]


def test_a_folder_is_a_run_only_when_it_was_begun_to_the_end(tmp_path: Path, tokenizer: Path) -> None:
    assert not is_run(tmp_path / "run")
    with pytest.raises(InputError, match=r"cannot read .*absent.json: No such file"):
        begin_run(tmp_path / "run", RECORD, tmp_path / "absent.json")
    assert not is_run(tmp_path / "run")
    begin_run(tmp_path / "run", RECORD, tokenizer)
    assert is_run(tmp_path / "run")


def test_what_a_run_killed_while_it_began_left_is_known(tmp_path: Path, tokenizer: Path) -> None:
    other = tmp_path / "out"
    other.mkdir()
    for name in ("run.json.7.tmp", "tokenizer.json.7.tmp", "tokenizer.json"):
        (other / name).write_bytes(tokenizer.read_bytes())
        assert is_left_over(other / name, tokenizer)
    for name in ("letters.txt", "letters.7.tmp", "run.json"):
        (other / name).write_text("mine")
        assert not is_left_over(other / name, tokenizer)
    (other / "tokenizer.json").write_text("another one")
    assert not is_left_over(other / "tokenizer.json", tokenizer)


def test_a_changed_recipe_is_written_anew_and_nothing_else_changes(run: Path) -> None:
    before = read_run(run)
    recipe = change(TINY, ["training.steps=77"])
    corpus = RecordedCorpus("moved", "0a")
    update_run(run, recipe=recipe, corpus=corpus)
    assert read_run(run) == replace(before, recipe=recipe, corpus=corpus)


def test_what_a_later_version_wrote_besides_is_kept_when_a_run_goes_on(run: Path) -> None:
    (run / "run.json").write_text(json.dumps({**facts_in(run / "run.json"), "weather": "fair"}))
    update_run(run, recipe=change(TINY, ["training.steps=77"]))
    assert facts_in(run / "run.json")["weather"] == "fair"
    assert read_run(run).recipe.training.steps == 77


def test_what_is_taken_for_a_run_is_told_what_it_is(
    tmp_path: Path, run: Path, corpus: Path, words_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "corpus").symlink_to(corpus)
    words_tokenizer.save(tmp_path / "words.json")
    save(encode_task(find_task("rte"), {}, words_tokenizer), tmp_path / "encoded")
    (tmp_path / "study").mkdir()
    study = StudyRecord("labels", {}, CellCounts(0, 0), Cost(0.0, []), [], {})
    study.write(tmp_path / "study" / "study.json")
    for number in range(7):
        begin_run(tmp_path / "runs" / str(number), RECORD, run / "tokenizer.json")
    monkeypatch.chdir(tmp_path)
    for place, message in {
        "corpus": "corpus is a prepared corpus, not a run; `gpt1.pretrain(corpus='corpus')` makes one",
        "encoded": "encoded is an encoded task, not a run; `gpt1.finetune(encoded='encoded')` teaches it to one",
        "study": "study is a study, not a run",
        "words.json": "words.json is a tokenizer, not a run; `gpt1.pretrain()` makes one of a corpus that is prepared "
        "with it",
        "runs": "runs holds runs: runs/0, runs/1, runs/2, runs/3, runs/4, 2 more; name one",
        "run/tokenizer.json": "run/tokenizer.json lies inside a run; name the run itself, run",
    }.items():
        with pytest.raises(InputError) as refused:
            read_run(Path(place))
        assert str(refused.value) == message


def test_what_is_no_run_is_refused_in_words(tmp_path: Path, run: Path) -> None:
    with pytest.raises(InputError, match=r"rum does not exist; did you mean '.*/run'\?"):
        read_run(tmp_path / "rum")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"run.json does not exist; expected a run there"):
        read_run(tmp_path / "empty")
    good = facts_in(run / "run.json")
    without_recipe = {name: value for name, value in good.items() if name != "recipe"}
    for facts, message in (
        ({"format": "gpt1-corpus"}, "is not a run of gpt1"),
        ({"format": "gpt1-run"}, "is a run of version None; this program reads version 1"),
        ({**good, "version": 2}, "is a run of version 2; this program reads version 1"),
        (without_recipe, "run.json is damaged: recipe is missing"),
        (
            {**good, "recipe": {**good["recipe"], "colour": "red"}},
            "'colour' holds no settings",
        ),
    ):
        (run / "run.json").write_text(json.dumps(facts))
        with pytest.raises(FormatError, match=message):
            read_run(run)
    (run / "run.json").write_text('{"format": ')
    with pytest.raises(FormatError, match="is not a run"):
        read_run(run)


@pytest.mark.parametrize("content", ["", "{", "[" * 100 + "]" * 100])
def test_a_run_of_which_nothing_can_be_read_is_to_be_brought_back(run: Path, content: str) -> None:
    (run / "run.json").write_text(content)
    with pytest.raises(FormatError, match=r"run\.json is not a run: .*; bring it back from a copy$"):
        read_run(run)


def test_a_run_that_was_changed_is_to_be_brought_back_or_to_lose_its_checksum(run: Path) -> None:
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(facts | {"seed": 7}))
    with pytest.raises(FormatError, match=r"; bring it back from a copy, or remove its entry sha256 if you changed"):
        read_run(run)


def test_a_run_without_its_tokenizer_is_told_to_have_its_own_back(run: Path) -> None:
    (run / "tokenizer.json").unlink()
    for place in (run, run / "tokenizer.json"):
        with pytest.raises(InputError, match=r"tokenizer\.json does not exist; .*; bring back the run's own"):
            run_tokenizer(place)
