"""Integrated gradients: they add up, and where a network is a sum over its tokens they are what each has added."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gpt1.inference.gradients import TOLERANCE, integrated_gradients
from gpt1.inference.run import Run, load_run
from gpt1.model import Packing, pack
from gpt1.tasks.answers import predictions
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.encoded import encode_examples
from gpt1.tasks.examples import Example
from gpt1.tasks.shapes import SINGLE
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text
from tests.inference.tools import CONTEXT, make_run

MOODS = Task(
    name="moods", title="moods", shape=SINGLE, labels=("glad", "sad", "calm"), metrics=("accuracy",), fields=("text",)
)
MARKS = Task(
    name="marks",
    title="marks",
    shape=SINGLE,
    labels=("bill", "login"),
    metrics=("micro_f1",),
    fields=("text",),
    labels_sep="|",
)
TASKS = MOODS, MARKS, CATALOGUE["mrpc"], CATALOGUE["stsb"], CATALOGUE["race"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, bytes_tokenizer: Tokenizer) -> Run:
    """A run that has learned a task of every sort."""
    return load_run(make_run(tmp_path_factory.mktemp("runs") / "many", bytes_tokenizer, *TASKS), device="cpu")


def sequences_of(run: Run, task: Task, seed: int) -> list[np.ndarray]:
    texts = tuple(make_text(1, seed + place)[:20] for place in range(task.texts))
    return encode_examples(task, [Example(texts, None, 1)], run.tokenizer, CONTEXT).sequences(0)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
@pytest.mark.parametrize("seed", range(3))
def test_they_add_up_to_what_the_answer_has_moved(run: Run, task: Task, seed: int) -> None:
    sequences, target = sequences_of(run, task, seed), None if task.score_range else 1
    specials = run.tokenizer.vocab_size
    found = integrated_gradients(run.classifier, task, sequences, target, specials=specials, temperature=1.5)

    def moved(is_baseline: bool) -> float:
        """Return the answer's log-odds, or the score, of a network whose text tokens are all alike, or as they are."""
        model = run.classifier
        table = model.body.tokens.detach().clone()
        if is_baseline:
            table[:specials] = table[:specials].mean(0)
        lengths = torch.tensor([len(ids) for ids in sequences])
        ids = torch.from_numpy(np.concatenate(sequences).astype(np.int64))
        with torch.no_grad():
            logits, *_ = torch.func.functional_call(model, {"body.tokens": table}, (ids, pack(lengths), task.name))
        shares = model.tasks[task.name].probabilities(logits.double() / 1.5).numpy()
        if task.score_range:
            return float(predictions(task, shares)[0])
        return float(np.log(shares[0, 1]) - np.log(1 - shares[0, 1]))

    whole = moved(False) - moved(True)
    assert abs(whole) > 1e-4
    assert found.tokens.sum() == pytest.approx(whole + found.gap, abs=1e-3)
    assert abs(found.gap) <= TOLERANCE * max(1, abs(whole))


def test_special_tokens_move_nothing(run: Run) -> None:
    sequences = sequences_of(run, CATALOGUE["mrpc"], 0)
    found = integrated_gradients(run.classifier, CATALOGUE["mrpc"], sequences, 0, specials=run.tokenizer.vocab_size)
    special = np.concatenate(sequences) >= run.tokenizer.vocab_size
    assert special.sum() == 6
    assert (found.tokens[special] == 0).all()
    assert (found.tokens[~special] != 0).all()


class Adder(nn.Module):
    """A network whose logits are the sums of what each token gives them: each token's share is known exactly."""

    def __init__(self, vocabulary: int, answers: int) -> None:
        super().__init__()
        self.body = nn.Module()
        self.body.tokens = nn.Parameter(torch.randn(vocabulary, answers, dtype=torch.float64))

    def forward(self, ids_N: Tensor, packing: Packing, task: str) -> tuple[Tensor, ...]:
        """Return the logits of each sequence."""
        sums = torch.zeros(len(packing.offsets) - 1, self.body.tokens.shape[1], dtype=torch.float64)
        return (sums.index_add(0, packing.sequence, self.body.tokens[ids_N]),)


def test_of_a_sum_each_token_has_what_it_has_added() -> None:
    task = Task(name="t", title="t", shape=SINGLE, labels=("a", "b"), metrics=("accuracy",), fields=("text",))
    model = Adder(12, 2)
    ids = np.array([10, 3, 7, 3, 11])
    found = integrated_gradients(model, task, [ids], 1, specials=10)  # type: ignore[arg-type]
    table = model.body.tokens.detach().numpy()
    added = (table[ids] - table[:10].mean(0)) @ [-1, 1]
    np.testing.assert_allclose(found.tokens, np.where(ids < 10, added, 0), atol=1e-12)
    assert abs(found.gap) < 1e-12
