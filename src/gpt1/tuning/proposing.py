"""What is tried next, and whether a trial that has begun is hopeless: optuna's answers to what was found so far.

Optuna keeps nothing: each time it is told all trials that are done, and its sampler is seeded anew. So what it
proposes is a function of the seed and of those trials, whoever was killed in between.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpt1.base.errors import MissingDependency
from gpt1.records.tuning import DONE, TrialRecord
from gpt1.tuning.space import Range

if TYPE_CHECKING:
    import optuna

RANDOM_FIRST = 5  # trials, before what was found says where to look
TIMES_ASKED = 20  # for something that was not tried yet


def require_optuna() -> None:
    """Refuse where the library that searches is not installed."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise MissingDependency("searching settings needs the library optuna: pip install 'gpt1[tune]'") from None


class Proposal:
    """Values to be tried, and a judge of how it goes."""

    def __init__(self, values: dict[str, float], trial: optuna.Trial) -> None:
        self.values, self._trial = values, trial

    def is_hopeless(self, scores: Sequence[float]) -> bool:
        """Whether after so many folds it is worse than half of the trials that were made to the end."""
        self._trial.report(scores[-1], len(scores))
        return bool(self._trial.should_prune())


def propose(space: Sequence[Range], first: dict[str, float], done: Sequence[TrialRecord], seed: int) -> Proposal | None:
    """Return what is tried after trials that are `done`, of which the first was the recipe with its `first` values.

    None where nothing comes up that was not tried: there is little to search in a few whole numbers.
    """
    tried = [trial.values or first for trial in done]
    for time in range(TIMES_ASKED):
        found = _ask(space, first, done, f"{seed} {len(done)} {time}")
        if found.values not in tried:
            return found
    return None


def _ask(space: Sequence[Range], first: dict[str, float], done: Sequence[TrialRecord], seed: str) -> Proposal:
    import optuna

    distributions = {one.name: _distribution(one) for one in space}
    sampler = optuna.samplers.TPESampler(n_startup_trials=RANDOM_FIRST, seed=random.Random(seed).getrandbits(32))
    pruner = optuna.pruners.MedianPruner(n_startup_trials=RANDOM_FIRST)
    with _quiet():
        study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
        for trial in done:
            values = trial.values or first
            if all(one.holds(values[one.name]) for one in space):  # the recipe's own may lie outside of a narrow range
                study.add_trial(_told(trial, values, distributions))
        asked = study.ask(distributions)
    return Proposal({one.name: one.rounded(asked.params[one.name]) for one in space}, asked)


def _told(
    trial: TrialRecord, values: dict[str, float], distributions: dict[str, optuna.distributions.BaseDistribution]
) -> optuna.trial.FrozenTrial:
    import optuna

    is_done = trial.end == DONE
    whole = optuna.distributions.IntDistribution
    return optuna.create_trial(
        state=optuna.trial.TrialState.COMPLETE if is_done else optuna.trial.TrialState.PRUNED,
        value=trial.scores[-1] if is_done else None,
        params={n: int(values[n]) if isinstance(d, whole) else values[n] for n, d in distributions.items()},
        distributions=distributions,
        intermediate_values=dict(enumerate(trial.scores, 1)),
    )


def _distribution(one: Range) -> optuna.distributions.BaseDistribution:
    import optuna

    if one.is_whole:
        return optuna.distributions.IntDistribution(int(one.low), int(one.high))
    return optuna.distributions.FloatDistribution(one.low, one.high, log=one.is_log)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep to ourselves what optuna tells of a study that is made anew for each trial."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
