"""Does augmentation help? The same few labels learned without any and with one way at a time, held against each other.

Labels are drawn and judged as in `labels.py`: every arm of a seed learns the same rows, and the rows that judge decide
nothing, not even the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gpt1.base.errors import SettingError, unknown
from gpt1.base.parts import Part
from gpt1.base.wording import some
from gpt1.finetuning.augmenting import unmixable
from gpt1.finetuning.data import Source
from gpt1.recipes.changes import change
from gpt1.recipes.values import AUGMENTATIONS, AUGMENTED, Recipe
from gpt1.records.study import AskedOfStudy, AugmentationDifference, AugmentedTask, LabelPoint, StudyRecord, arm_name
from gpt1.studies.cells import CellResult, Notebook, Watcher
from gpt1.studies.finetuned import Arm, FinetuningSettings, Plan, differences, figures, whole_arms
from gpt1.studies.folder import Done, StudySection, conduct
from gpt1.studies.labels import Draw, Key, Wanted, counts_of, draw_order, network_cell
from gpt1.studies.material import InitRun, TaskData, check_learnable, open_start, read_tasks, tell_start
from gpt1.text.synonyms import Synonyms, read_synonyms

NAME = "augmentation"
NONE, SYNONYMS, MIXUP = "none", "synonyms", "mixup"
SETTINGS = {  # of each arm
    "word-dropout": "finetuning.word_dropout",
    "span-deletion": "finetuning.span_deletion",
    "swaps": "finetuning.word_swaps",
    SYNONYMS: "finetuning.synonyms",
    MIXUP: "finetuning.mixup",
    "r-drop": "finetuning.r_drop",
}
# A tenth of the words, as in EDA; what mix-up's paper has for images; one of those that R-Drop's tried on GLUE.
STRENGTHS = {
    "word-dropout": AUGMENTED,
    "span-deletion": AUGMENTED,
    "swaps": AUGMENTED,
    SYNONYMS: AUGMENTED,
    MIXUP: 0.2,
    "r-drop": 1.0,
}


def study_augmentation(
    init: str | Path,
    out: str | Path,
    *,
    source: Source,
    training: FinetuningSettings,
    counts: Sequence[Wanted],
    arms: Sequence[str] | None = None,
    strengths: Mapping[str, float] | None = None,
    synonyms: str | Path | None = None,
    part: Part | None = None,
    watcher: Watcher | None = None,
) -> StudyRecord:
    """Learn from so many labels (`"all"`: those that a task has) with each way to augment and with none.

    The arms are those of `STRENGTHS`, each as strong as there or in `strengths` (None: all of them, synonyms where a
    list of `synonyms` is named); what is learned with none is there anyway.
    """
    notebook = Notebook(watcher)
    names = asked_arms(arms, strengths or {}, has_list=synonyms is not None)
    if not counts:
        raise SettingError("name at least one of `counts`")
    start = open_start(init)
    listed = None if synonyms is None else read_synonyms(synonyms)
    tell_start(start, notebook)
    labelled = read_tasks(source, notebook)
    check_learnable(labelled)
    training = training.settled_by(start, Path(out))
    strong = {name: (strengths or {}).get(name, STRENGTHS[name]) for name in names}
    networks = make_arms(start, strong, listed)
    _check_recipe(training, networks)
    by_task = {name: counts_of(one, counts, notebook) for name, one in labelled.items()}
    planned = plan(networks, labelled, training, by_task, notebook)
    about: AskedOfStudy = {
        "init": str(start.path),
        "source": source.recorded(),
        "changes": list(training.changes),
        "counts": sorted(set(counts), key=lambda count: (count == "all", count)),
        "strengths": strong,
        "synonyms": None if synonyms is None else str(synonyms),
        "seeds": list(training.seed_numbers),
    }
    return conduct(
        Path(out),
        NAME,
        about,
        list(planned.values()),
        lambda done: [tabulate(labelled, planned, strong, done)],
        notebook,
        part,
    )


def asked_arms(arms: Sequence[str] | None, strengths: Mapping[str, float], *, has_list: bool) -> list[str]:
    """Return the ways to augment that are asked for, in their usual order, or refuse before anything is read."""
    wanted = [name for name in SETTINGS if has_list or name != SYNONYMS] if arms is None else [*arms]
    for name in [*wanted, *strengths]:
        if name not in SETTINGS and not (name == NONE and name in wanted):
            raise unknown("arm", name, SETTINGS)
    if (SYNONYMS in wanted) != has_list:
        raise SettingError(
            f"the arm '{SYNONYMS}' needs a list of them; name one with `synonyms`, or leave the arm out"
            if SYNONYMS in wanted
            else f"a list of synonyms is named, and the arm '{SYNONYMS}' is not asked for; leave out the list"
        )
    if odd := [name for name in strengths if name not in wanted]:
        raise SettingError(f"a strength of '{odd[0]}' is named, and the arm is not asked for; leave out one of the two")
    if weak := [name for name, strength in strengths.items() if not strength > 0]:
        raise SettingError(f"the strength of '{weak[0]}' is above 0, not {strengths[weak[0]]:g}; 0 is the arm '{NONE}'")
    found = [name for name in SETTINGS if name in wanted]
    if not found:
        raise SettingError(f"name at least one way to augment with `arms`: {some(list(SETTINGS))}")
    return found


def make_arms(start: InitRun, strengths: Mapping[str, float], listed: Synonyms | None) -> list[Arm]:
    """Return the arm without augmentation, and one for each way."""
    arms = [
        Arm(name, start, [f"{SETTINGS[name]}={strength!r}"], listed if name == SYNONYMS else None)
        for name, strength in strengths.items()
    ]
    return [Arm(NONE, start), *arms]


def _check_recipe(training: FinetuningSettings, arms: Sequence[Arm]) -> None:
    """Refuse a recipe that augments what no arm should, and strengths that a setting cannot have."""
    recipe = training.recipe
    assert isinstance(recipe, Recipe)  # it is settled
    recipe = change(recipe, training.changes)
    on = [name for name in ("word_dropout", *AUGMENTATIONS) if getattr(recipe.finetuning, name)]
    if on:
        raise SettingError(
            f"finetuning.{on[0]} is set for all arms, also for the one without augmentation; leave it out, and say how "
            "strong an arm is with `strengths`"
        )
    for arm in arms:
        if arm.name == "r-drop" and not (recipe.shape.dropout or recipe.shape.layer_drop):
            raise SettingError("shape.dropout is 0, with which R-Drop's two passes are the same; leave out one of both")
        change(recipe, arm.changes)


def plan(
    arms: Sequence[Arm],
    labelled: Mapping[str, TaskData],
    training: FinetuningSettings,
    counts: Mapping[str, Sequence[int]],
    watcher: Watcher,
) -> Plan[Key]:
    """Return the cells by task, arm and count, and seed; labels that cannot be mixed are not, which is told."""
    cells: Plan[Key] = {}
    for name, one in labelled.items():
        own = list(arms)
        if (why := unmixable(one.task)) is not None and any(arm.name == MIXUP for arm in arms):
            watcher.say(f"{name} {why}: there is no {arm_name(MIXUP)} of it")
            own = [arm for arm in arms if arm.name != MIXUP]
        order = {seed: draw_order(one.task, one.train, seed) for seed in training.seed_numbers}
        for count in counts[name]:
            for seed in training.seed_numbers:
                draw = Draw(one, order[seed][:count], seed)
                for arm in own:
                    cells[name, (arm.name, count), seed] = network_cell(arm, draw, training)
    return cells


def tabulate(
    labelled: Mapping[str, TaskData], planned: Plan[Key], strengths: Mapping[str, float], done: Done
) -> StudySection:
    """Return the score of each arm by count, and by how much each way is better than none, in pairs."""
    content: dict[str, AugmentedTask] = {}
    rows: list[Mapping[str, object]] = []
    for name, arms in whole_arms(planned, done).items():
        one = labelled[name]
        curves: dict[str, list[LabelPoint]] = {}
        pairs: list[AugmentationDifference] = []
        for (arm, count), seeds in arms.items():
            point: LabelPoint = {"labels": count, **figures(one, seeds)}
            curves.setdefault(arm, []).append(point)
            own = [] if arm == NONE or (NONE, count) not in arms else _over_none(one, (arm, count), arms)
            pairs += own
            told = {name: own[0][name] for name in ("difference", "low", "high", "better", "worse")} if own else {}
            rows.append({"task": name, "arm": arm, **point, **told})
        content[name] = {"metric": one.task.metrics[0], "arms": curves, "differences": pairs}
    about = {NONE: "as it is"} | {name: f"{SETTINGS[name]}={value:g}" for name, value in strengths.items()}
    return StudySection(NAME, {"arms": about, "tasks": content}, rows)


def _over_none(one: TaskData, key: Key, arms: Mapping[Key, Mapping[int, CellResult]]) -> list[AugmentationDifference]:
    """Return by how much an arm is better than none, with the seeds that say so."""
    (arm, count), seeds = key, arms[key]
    none = arms[NONE, count]
    gains = [kept.result["score"] - none[seed].result["score"] for seed, kept in seeds.items() if seed in none]
    better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    return [
        {"labels": count, "arm": arm, "over": NONE, "better": better, "worse": worse, **found}
        for found in differences(one.task, [*seeds.values()], [*none.values()])
    ]
