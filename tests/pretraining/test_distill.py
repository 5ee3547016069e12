"""A small network learns what a larger one expects: by the loss that is meant, and through kills bit for bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from gpt1.base.errors import SettingError
from gpt1.finetuning.finetune import finetune
from gpt1.inference.run import load_run
from gpt1.inference.teaching import Teaching
from gpt1.model import build_model
from gpt1.pretraining.distill import TaughtModelling, distill_text
from gpt1.pretraining.measure import measure_corpus
from gpt1.pretraining.pretrain import pretrain
from gpt1.report import report
from gpt1.report.card import make_card
from gpt1.runs.files import last_scores
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import SMALL_RUN
from tests.finetuning.tools import Told, assert_same_run, lines_of, losses_of, make_pretrained
from tests.processes import kill_after, start

STUDENT = (*SMALL_RUN, "shape.layers=1", "shape.width=16", "shape.feed_forward=32", "training.steps=60")


@pytest.fixture(scope="module")
def teacher(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("teacher") / "run"
    changes = [*SMALL_RUN, "training.steps=300", "schedule.warmup_share=0.1", "logging.evaluate_every=100"]
    pretrain("tiny", corpus, run, changes=changes, device="cpu")
    return run


@pytest.fixture(scope="module")
def student(corpus: Path, teacher: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("student") / "run"
    distill_text([teacher], corpus, run, recipe="tiny", changes=STUDENT, device="cpu")
    return run


def test_the_loss_is_that_of_the_text_and_the_divergence_from_the_mean_of_the_teachers(trained: Path) -> None:
    runs = [load_run(trained, device="cpu"), load_run(trained, device="cpu", step="last")]
    vocab_size = runs[0].record.vocab_size
    shape = runs[0].recipe.shape
    other = build_model(shape, vocab_size, seed=5)
    model = build_model(shape, vocab_size, seed=7)
    objective = TaughtModelling(model, [runs[0].network, other], Teaching(("a",), weight=0.25, temperature=3.0))
    assert objective.weights == {"lm": 0.75, "teacher": 0.25}
    assert {name for name, _ in objective.named_parameters()} == {
        f"model.{name}" for name, _ in model.named_parameters()
    }
    ids = torch.randint(0, vocab_size, (2, 6))
    targets = torch.randint(0, vocab_size, (2, 6))
    targets[1, 4:] = -1
    terms = objective({"ids": ids, "targets": targets}, None)

    def logits(network: torch.nn.Module) -> torch.Tensor:
        hidden, output = network(ids)
        return (hidden @ output.T).flatten(0, 1)

    taught = torch.stack([(logits(one) / 3).softmax(-1) for one in (runs[0].model, other)]).mean(0)
    divergence = 9 * F.kl_div((logits(model) / 3).log_softmax(-1), taught, reduction="none").sum(-1)
    counted = targets.flatten() >= 0
    assert terms["teacher"].item() == pytest.approx(divergence[counted].sum().item(), rel=1e-4)
    own = F.cross_entropy(logits(model), targets.flatten(), ignore_index=-1, reduction="sum")
    assert terms["lm"].item() == pytest.approx(own.item(), rel=1e-5)


def test_a_student_is_a_run_that_says_who_taught_it(student: Path, teacher: Path, corpus: Path, tmp_path: Path) -> None:
    run = load_run(student, device="cpu")
    taught = run.record.taught
    assert taught is not None
    assert [one.run for one in taught.teachers] == [str(teacher.resolve())]
    assert taught.teachers[0].weights == load_run(teacher, device="cpu").checkpoint.weights_hash
    assert (taught.weight, taught.temperature) == (0.5, 2.0)
    assert losses_of(student)[60] < losses_of(student)[1]
    assert measure_corpus(run, corpus)["valid_loss"] == pytest.approx(last_scores(student)[1]["valid_loss"], abs=1e-5)
    assert "the teacher run (weight 0.5, temperature 2)" in make_card(student)
    page = report([student], tmp_path / "report.html").read_text("utf-8")
    assert f"the teacher {teacher.resolve()} (weight 0.5, temperature 2)" in page


def test_what_is_learned_of_a_teacher_comes_nearer_to_it_than_what_is_not(
    teacher: Path, corpus: Path, tmp_path: Path
) -> None:
    far = {}
    for weight in (1e-6, 1.0):
        run, changes = tmp_path / str(weight), [*STUDENT, "training.steps=120"]
        distill_text([teacher], corpus, run, recipe="tiny", weight=weight, changes=changes, device="cpu")
        far[weight] = sum(line["terms"]["teacher"] for line in lines_of(run) if line.get("loss") and line["step"] > 100)
    assert far[1.0] < 0.95 * far[1e-6]


def test_a_killed_distillation_goes_on_bit_for_bit(student: Path, teacher: Path, corpus: Path, tmp_path: Path) -> None:
    words = [word for change in STUDENT for word in ("--set", change)]
    asked = ["--teacher", str(teacher), "--recipe", "tiny", "--corpus", str(corpus), "--out", str(tmp_path / "run")]
    command = [sys.executable, "-m", "gpt1", "distill", *asked, *words, "--device", "cpu"]
    kill_after(start(command), tmp_path / "run", 9)
    subprocess.run([*command, "--resume"], check=True, capture_output=True)
    assert_same_run(student, tmp_path / "run")


def test_a_student_goes_on_with_its_teachers_alone(student: Path, teacher: Path, trained: Path, corpus: Path) -> None:
    with pytest.raises(SettingError, match=r"was begun with the teacher .*, and without a teacher now"):
        pretrain(None, corpus, student, resume=True, device="cpu")
    with pytest.raises(SettingError, match=r"was begun with the teacher .*, and with the teacher .* now"):
        distill_text([trained], corpus, student, resume=True, device="cpu")
    with pytest.raises(SettingError, match=r"weight 0.5, temperature 2.*weight 0.5, temperature 1"):
        distill_text([teacher], corpus, student, temperature=1.0, resume=True, device="cpu")
    with pytest.raises(SettingError, match=r"was begun without a teacher, and with the teacher"):
        distill_text([teacher], corpus, trained, resume=True, device="cpu")


def test_a_student_may_begin_with_the_weights_of_a_run(
    student: Path, teacher: Path, corpus: Path, tmp_path: Path
) -> None:
    told = Told()
    changes = ["steps=3", "optimizer.lr=1e-4"]
    run = distill_text(
        [teacher, student], corpus, tmp_path / "run", init=student, changes=changes, device="cpu", listeners=[told]
    )
    assert run.record.parent == str(student.resolve())
    assert losses_of(run.path)[1] < losses_of(student)[1] - 0.3
    assert f"learning from the teachers {teacher.resolve()}, {student.resolve()} (weight 0.5" in told


def test_who_has_another_vocabulary_or_reads_less_at_once_does_not_teach(
    teacher: Path, corpus: Path, tmp_path: Path, bytes_tokenizer: Tokenizer
) -> None:
    foreign = make_pretrained(tmp_path / "foreign", bytes_tokenizer)
    with pytest.raises(SettingError, match=r"foreign has another vocabulary than .*prepare the text with its own"):
        distill_text([teacher, foreign], corpus, tmp_path / "run", recipe="tiny", changes=STUDENT, device="cpu")
    with pytest.raises(SettingError, match=r"reads 16 tokens at once, and the student 32; .*shape.context=16"):
        changes = [*STUDENT, "shape.context=32"]
        distill_text([teacher], corpus, tmp_path / "run", recipe="tiny", changes=changes, device="cpu")
    assert not (tmp_path / "run").exists()


def test_a_fine_tuned_teacher_expects_no_special_tokens(teacher: Path, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,label\n" + "good day,1\nbad day,0\n" * 2)
    tuned = finetune(teacher, tmp_path / "tuned", train=tmp_path / "rows.csv", changes=["training.steps=1"])
    changes = [*STUDENT, "training.steps=2"]
    run = distill_text([tuned.path], corpus, tmp_path / "run", recipe="tiny", changes=changes, device="cpu")
    assert run.checkpoint.step == 2


def test_a_teacher_that_looks_both_ways_expects_nothing_and_is_refused(
    teacher: Path, corpus: Path, tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_text("text,label\n" + "good day,1\nbad day,0\n" * 2)
    changes = ["training.steps=1", "finetuning.bidirectional=true", "finetuning.lm_weight=0"]
    tuned = finetune(teacher, tmp_path / "tuned", train=tmp_path / "rows.csv", changes=changes, device="cpu")
    with pytest.raises(SettingError, match="tuned was fine-tuned to look both ways"):
        distill_text([tuned.path], corpus, tmp_path / "run", recipe="tiny", changes=STUDENT, device="cpu")
    assert not (tmp_path / "run").exists()
