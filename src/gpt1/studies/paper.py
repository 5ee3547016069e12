"""Published figures, x 100, and nothing else: the paper's tables 2 to 5, figure 2's scale.

MNLI has two figures in tables 2 (matched, mismatched) and one in table 5 (their mean). QNLI is the paper's first
version, which is not comparable with today's: a row with a remark is not held against ours.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A row of tables 2 to 4: what the paper reached, and the best that was known before it."""

    task: str
    split: str  # of ours, on which a comparable figure is found
    metric: str
    paper: float
    previous: float
    remark: str = ""


_V1 = "the paper's QNLI is version 1, which is not comparable"

TABLES: dict[str, tuple[Published, ...]] = {
    "table-2": (  # natural language inference
        Published("mnli", "dev_matched", "accuracy", 82.1, 80.6),
        Published("mnli", "dev_mismatched", "accuracy", 81.4, 80.1),
        Published("snli", "dev", "accuracy", 89.9, 89.3),
        Published("scitail", "dev", "accuracy", 88.3, 83.3),
        Published("qnli", "dev", "accuracy", 88.1, 82.3, _V1),
        Published("rte", "dev", "accuracy", 56.0, 61.7),
    ),
    "table-3": (  # question answering and commonsense reasoning
        Published("storycloze", "dev", "accuracy", 86.5, 77.6),
        Published("race", "dev", "accuracy/middle", 62.9, 60.2),
        Published("race", "dev", "accuracy/high", 57.4, 50.3),
        Published("race", "dev", "accuracy", 59.0, 53.3),
    ),
    "table-4": (  # classification and similarity
        Published("cola", "dev", "matthews", 45.4, 35.0),
        Published("sst2", "dev", "accuracy", 91.3, 93.2),
        Published("mrpc", "dev", "f1", 82.3, 86.0),
        Published("stsb", "dev", "pearson", 82.0, 81.0),
        Published("qqp", "dev", "f1", 70.3, 66.1),
    ),
}
TITLES = {
    "table-2": "Table 2: natural language inference",
    "table-3": "Table 3: question answering and commonsense",
    "table-4": "Table 4: classification and similarity",
}
GLUE, PREVIOUS_GLUE = 72.8, 68.9  # of table 4, on the test sets
BETTER, OF_TASKS = 9, 12  # better than the best before on so many tasks


def whole_rows() -> dict[str, tuple[Published, ...]]:
    """Return the rows of tables 2 to 4 by task, but those of parts of a task: RACE counts as a whole."""
    rows = [row for table in TABLES.values() for row in table if "/" not in row.metric]
    return {row.task: tuple(one for one in rows if one.task == row.task) for row in rows}


# Table 5, by arm and task; `average` is the plain mean of the eight.
FULL, SCRATCH, NO_LM, LSTM = "full", "scratch", "no-lm", "lstm"
ABLATED = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")
ABLATIONS: dict[str, dict[str, float]] = {
    arm: {"average": average, **dict(zip(ABLATED, figures, strict=True))}
    for arm, average, figures in (
        (FULL, 74.7, (45.4, 91.3, 82.3, 82.0, 70.3, 81.8, 88.1, 56.0)),
        (SCRATCH, 59.9, (18.9, 84.0, 79.4, 30.9, 65.5, 75.7, 71.2, 53.8)),
        (NO_LM, 75.0, (47.9, 92.0, 84.9, 83.2, 69.8, 81.1, 86.9, 54.4)),
        (LSTM, 69.1, (30.3, 90.5, 83.2, 71.8, 68.1, 73.7, 81.1, 54.6)),
    )
}
ARMS = {  # as study.json has them; what people read is `arm_name` of `records/study.py`
    FULL: "pre-trained, with auxiliary LM",
    SCRATCH: "without pre-training",
    NO_LM: "without auxiliary LM",
    LSTM: "LSTM, with auxiliary LM",
}


@dataclass(frozen=True)
class Scale:
    """What 0 and 1 mean in figure 2 (right): a guess, and the best single model of the time, or what stands for it."""

    chance: float
    best: float
    remark: str = ""
    best_is: str = ""  # where it is no model


SCALES: dict[str, Scale] = {
    "cola": Scale(0.0, 35.0),
    "sst2": Scale(50.0, 93.2),
    "race": Scale(25.0, 53.3, "the best of the time was an ensemble"),
    "dpr": Scale(50.0, 76.4, "the best of the time (Peng et al. 2015) is not verified"),
    "storycloze": Scale(50.0, 77.6, "not in the paper's figure"),
    # BLiMP (2020) is younger than the paper: there is no best model of the time, and nobody has 100. Its makers asked
    # people; 88.6 is how often one of them chose the good sentence, in the mean over the 67 paradigms.
    "blimp": Scale(50.0, 88.6, "the majority of twenty has 96.4", best_is="a single person"),
}


def normalised(task: str, score: float) -> float | None:
    """Return a score (0 to 1) on figure 2's scale, None for a task that has none."""
    scale = SCALES.get(task)
    return None if scale is None else (100 * score - scale.chance) / (scale.best - scale.chance)
