"""What a study found: the paper's tables and figures, ours beside the paper's, x 100 as the paper has them.

A study wrote plain values (`studies/folder.py`); here they become tables and pictures, and nothing is computed anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from gpt1.base.wording import duration, many, x100
from gpt1.documents.blocks import (
    SCORE_SPAN,
    Block,
    Facts,
    Folded,
    Heading,
    LinePlot,
    Lines,
    Note,
    Picture,
    Pictures,
    Point,
    Table,
    TableCell,
    TableRow,
)
from gpt1.documents.figures import MINUS, between, metric_name, score, signed_score
from gpt1.records.study import (
    AblationsSection,
    ArmDifference,
    ArmFigures,
    AskedTask,
    AugmentationDifference,
    AugmentationSection,
    CheckpointPoint,
    ClaimFigures,
    ClaimsSection,
    ConvergenceSection,
    CurvesSection,
    DifferencesSection,
    DomainSection,
    DomainText,
    FurtherSection,
    GlueSection,
    LabelsSection,
    LayerPoint,
    ObjectivesSection,
    PublishedFigures,
    ScaleFacts,
    SeedFigures,
    StudyRecord,
    Summary,
    TablesSection,
    TextDifference,
    TransferSection,
    ZeroshotSection,
    arm_name,
)
from gpt1.tasks.assessment import RESAMPLES

SPOKEN = 12  # points of a line that are read out one by one
IN_PAIRS = (
    f"In pairs: examples are drawn with replacement {RESAMPLES:,} times, the same for both; below a difference is its "
    "95 % interval."
)
_NOTHING = (TableCell(""), TableCell(""))
KINDS = {
    "zeroshot": "Tasks that were never taught, along pre-training (figure 2 right)",
    "transfer": "More and more pre-trained blocks taken over (figure 2 left)",
    "ablations": "What is lost without each part (table 5)",
    "labels": "How many labels pre-training is worth",
    "objectives": "What looking both ways is worth",
    "augmentation": "Whether augmentation helps",
    "domain": "Text of a new domain, and how much old text among it",
    "reproduce": "The paper's tables 2 to 5 and figure 2",
}


def study_blocks(study: StudyRecord) -> list[Block]:
    """Return what was found, section by section."""
    blocks: list[Block] = []
    done, planned = study.cells.done, study.cells.planned
    if done < planned:
        blocks.append(Note(f"{done:,} of {many(planned, 'cell')} are done; the same command goes on with it."))
    found = study.sections
    if "claims" in found:
        blocks += _claims(found["claims"])
    if "tables" in found:
        blocks += _tables(found["tables"])
    if "glue" in found:
        blocks += _glue(found["glue"])
    if "ablations" in found:
        blocks += _ablations(found["ablations"])
    if "differences" in found:
        blocks += _differences(found["differences"])
    if "curves" in found:
        blocks += _curves(found["curves"])
    if "convergence" in found:
        blocks += _convergence(found["convergence"])
    if "zeroshot" in found:
        blocks += _zeroshot(found["zeroshot"])
    if "transfer" in found:
        blocks += _transfer(found["transfer"])
    if "labels" in found:
        blocks += _labels(found["labels"])
    if "objectives" in found:
        blocks += _objectives(found["objectives"])
    if "augmentation" in found:
        blocks += _augmentation(found["augmentation"])
    if "domain" in found:
        blocks += _domain(found["domain"])
    if "further" in found:
        blocks += _further(found["further"])
    return blocks


def about_study(study: StudyRecord) -> list[Block]:
    """Return what was asked, and what a person was told on the way."""
    return [Facts(_what(study)), *([Lines(study.notes)] if study.notes else [])]


def _what(study: StudyRecord) -> list[tuple[str, str]]:
    about = study.about
    source = about.get("source")
    tasks = about.get("tasks") or (source.tasks if source else [])
    told = {
        "pre-trained run": about.get("init") or ", ".join(about.get("runs", {}).values()),
        "LSTM": about.get("lstm"),
        "tasks": ", ".join(tasks) or (source and source.train),
        "data": about.get("data") or (source and source.data),
        "shots": about.get("shots"),
        "changed settings": ", ".join(about.get("changes") or []),
        "rates of their own": ", ".join(f"{arm_name(arm)} {rate:g}" for arm, rate in about.get("rates", {}).items()),
        "numbers of labels": ", ".join(map(str, about.get("counts") or [])),
        "texts": ", ".join(f"{arm_name(name)} {run}" for name, run in about.get("texts", {}).items()),
        "shares of old text": ", ".join(f"{share:g}" for share in about.get("shares", [])),
        "settings of reading": ", ".join(about.get("reading") or []),
        "seeds": ", ".join(map(str, about.get("seeds") or [])),
        "cells": f"{study.cells.planned:,}",
        "hardware": ", ".join(study.cost.devices),
        "time of the cells": duration(study.cost.seconds) if study.cells.done else None,
    }
    return [(name, str(value)) for name, value in told.items() if value]


# ---- claims ----


def claims_page(study: StudyRecord) -> list[Block]:
    """Return the page of claims by itself: what was asked, and each claim of the paper with what was found."""
    done, planned = study.cells.done, study.cells.planned
    blocks: list[Block] = [Heading("What the paper claims, and what was found here", level=2), Facts(_what(study))]
    if done < planned:
        blocks.append(Note(f"{done:,} of {many(planned, 'cell')} are done: what is missing cannot be told."))
    return [*blocks, *(_claims(study.sections["claims"]) if "claims" in study.sections else [])]


def _claims(content: ClaimsSection) -> list[Block]:
    rows = [_claim(claim) for claim in content["claims"]]
    rule = (
        "A claim holds where the 95 % interval of what should be above zero is above it as a whole, and does not hold "
        "where it is below as a whole; all else cannot be told here, nor can what stands on fewer than "
        f"{content['least_seeds']} seeds or lacks a task. Only the sign is judged. Ours are on dev, or on test rows "
        "that are labelled, the paper's on test sets; intervals are over other examples, of GLUE from the worst seed "
        "to the best, of curves over checkpoints of one pre-training, of numbers of updates over seeds."
    )
    header = ["claim", "section", "paper", "ours", "95 % interval", "examples", "seeds", "verdict"]
    return [Heading("The paper's claims"), Table(rule, header, rows)]


def _claim(claim: ClaimFigures) -> TableRow:
    cells = [
        TableCell(claim["section"], is_number=False),
        TableCell(claim["paper"]),
        TableCell(claim["told"] or _figure(claim["value"], claim)),
        TableCell("" if claim["told"] else _interval(claim)),
        TableCell(f"{claim['examples']:,}" if claim["examples"] else "–"),
        TableCell("–" if claim["seeds"] is None else f"{claim['seeds']:,}"),
        TableCell(claim["verdict"], note=claim["why"], is_number=False),
    ]
    return TableRow(claim["claim"], cells)


def _figure(value: float | None, claim: ClaimFigures) -> str:
    if value is None:
        return "–"
    return signed_score(value) if claim["is_score"] else f"{value:+.2f}".replace("-", MINUS)


def _interval(claim: ClaimFigures) -> str:
    if claim["low"] is None or claim["high"] is None:
        return ""
    return f"{_figure(claim['low'], claim)} to {_figure(claim['high'], claim)}"


# ---- tables 2 to 5 ----


def _tables(content: TablesSection) -> list[Block]:
    blocks: list[Block] = []
    for name, rows in content["tables"].items():
        if rows:
            header = ["task", "ours", "paper", "best before it"]
            how = _over(rows).capitalize()
            caption = f"{how}, on the split below the task; the paper's are on the test sets."
            blocks += [Heading(content["titles"][name]), Table(caption, header, [_published(row) for row in rows])]
    if better := content.get("better"):
        blocks.append(Note(_better(better)))
    return blocks


def _better(tasks: Mapping[str, bool | None]) -> str:
    """Tell on how many tasks ours is better than the best before, beside what the paper claims."""
    compared = [is_better for is_better in tasks.values() if is_better is not None]
    apart = [task for task, is_better in tasks.items() if is_better is None]
    left = f", {' and '.join(apart)} apart, which is not comparable" if apart else ""
    return (
        f"Better than the best before the paper on {sum(compared)} of {many(len(compared), 'task')} that were learned "
        f"here{left}; the paper is on 9 of 12."
    )


def _glue(content: GlueSection) -> list[Block]:
    if not content["tasks"]:
        return []
    header = ["", "ours", "paper", "best before it"]
    rows = [TableRow(task, [TableCell(score(value)), *_NOTHING]) for task, value in content["tasks"].items()]
    found, theirs = content["score"], [content["paper_percent"], content["previous_percent"]]
    ours = TableCell("–") if found is None else TableCell(score(found["median"]), note=spread(found))
    note = f"{', '.join(content['missing'])} missing" if found is None else _counted(found)
    rows.append(TableRow("GLUE", [ours, *(TableCell(f"{value:.1f}") for value in theirs)], note))
    caption = (
        "The mean over nine tasks; of a task's metrics, and of MNLI's two sets, the mean is taken first. The paper's "
        "are on the test sets, and with version 1 of QNLI, which is not comparable."
    )
    return [Heading("GLUE"), Table(caption, header, rows)]


def _counted(figure: SeedFigures) -> str:
    return f"{many(figure['examples'], 'example')}, {many(len(figure['seeds']), 'seed')}"


def _published(row: PublishedFigures) -> TableRow:
    ours = round(x100(row["median"]), 1) if not row["remark"] else 0.0  # what is not comparable is not the best
    best = max(ours, row["paper_percent"], row["previous_percent"])
    cells = [
        TableCell(score(row["median"]), note=spread(row), is_best=ours == best),
        TableCell(f"{row['paper_percent']:.1f}", is_best=row["paper_percent"] == best, note=row["remark"]),
        TableCell(f"{row['previous_percent']:.1f}", is_best=row["previous_percent"] == best),
    ]
    return TableRow(row["task"], cells, f"{row['split']} {metric_name(row['metric'])}, {_counted(row)}")


def _ablations(content: AblationsSection) -> list[Block]:
    tasks = content["tasks"]
    if not any(tasks.values()):
        return []
    averages = {arm: one["median"] for arm, one in content["average"].items() if one}
    best = {"average": _best_of(averages.values())}
    best |= {task: _best_of(figure["median"] for figure in arms.values()) for task, arms in tasks.items()}
    rows = []
    for arm in content["arms"]:
        average = content["average"][arm]
        cells = [TableCell("–")]
        if average:
            theirs = "" if average["paper_percent"] is None else f"paper {average['paper_percent']:.1f}"
            cells = [TableCell(score(average["median"]), note=theirs, is_best=average["median"] == best["average"])]
        for task, arms in tasks.items():
            cells.append(_ablated(arms.get(arm), content["paper_percent"][arm].get(task), best[task]))
        rows.append(TableRow(arm_name(arm), cells))
    figures = {task: next(iter(arms.values())) for task, arms in tasks.items() if arms}
    where = "; ".join(f"{task} on {_judged_on(figure)}" for task, figure in figures.items())
    spreads = ", below it between which values they lie, and" if any(map(spread, figures.values())) else ", below it"
    is_whole = all({"average", *tasks} == published.keys() for published in content["paper_percent"].values())
    caption = (
        f"{_over(figures.values()).capitalize()}{spreads} the paper's figure (on the test sets; its average is that of "
        f"the same tasks{', as it prints it' if is_whole else ''}). Ours: {where}.{_QNLI if 'qnli' in tasks else ''}"
    )
    return [Heading("Ablations"), Table(caption, ["", "average", *tasks], rows)]


_QNLI = " The paper's QNLI is version 1, which is not comparable, nor are averages with it."


def _ablated(figure: ArmFigures | None, published: float | None, best: float | None) -> TableCell:
    theirs = "" if published is None else f"paper {published:.1f}"
    if figure is None:
        return TableCell("–", note=theirs)
    return TableCell(
        score(figure["median"]),
        note="; ".join(filter(None, [spread(figure), theirs])),
        is_best=figure["median"] == best,
    )


def _differences(content: DifferencesSection) -> list[Block]:
    if not content["pairs"]:
        return []
    return [
        _pairs_table(
            "Pre-trained against each other arm.",
            [(f"{one['task']} {one['split']}", one) for one in content["pairs"]],
        )
    ]


def _curves(content: CurvesSection) -> list[Block]:
    pictures: list[Picture] = []
    drawn: list[list[Point]] = []
    for task, facts in content["tasks"].items():
        lines = {
            arm_name(arm): _points((point["step"], point) for point in points)
            for arm, points in facts["arms"].items()
            if points
        }
        if lines:
            pictures.append(_picture(task, lines, "updates", f"dev {metric_name(facts['metric'])}"))
            drawn += lines.values()
    if not pictures:
        return []
    title = "With and without the auxiliary LM, along fine-tuning"
    return [Heading(title), Pictures(pictures, _numbers_beside("curves", drawn))]


def _convergence(content: ConvergenceSection) -> list[Block]:
    if not content["tasks"]:
        return []
    arms = list(dict.fromkeys(arm for facts in content["tasks"].values() for arm in facts["updates"]))
    rows = []
    for task, facts in content["tasks"].items():
        cells = [_updates([*facts["updates"][arm].values()]) for arm in arms]
        rows.append(TableRow(task, [TableCell(f"{facts['level']:.3f}"), *cells]))
    caption = (
        "Updates until the task's training loss (the mean of the last few that were logged) was as low as it became in "
        "every run of both: the median over seeds, and between which values they lie."
    )
    return [Heading("How fast it is learned"), Table(caption, ["", "loss", *map(arm_name, arms)], rows)]


def _updates(found: Sequence[int]) -> TableCell:
    return TableCell(f"{median(found):,.0f}", note=f"{min(found):,} to {max(found):,}" if len(found) > 1 else "")


def _further(content: FurtherSection) -> list[Block]:
    if not content["tasks"]:
        return []
    rows = [
        TableRow(
            f"{task}, {arm_name(arm)}",
            [TableCell(score(figure["median"]), note=spread(figure))],
            f"{_judged_on(figure)}, {many(len(figure['seeds']), 'seed')}",
        )
        for task, arms in content["tasks"].items()
        for arm, figure in arms.items()
    ]
    every = [figure for arms in content["tasks"].values() for figure in arms.values()]
    pairs = [(f"{one['task']} {one['split']}", one) for one in content["pairs"]]
    return [
        Heading("What the paper says in words"),
        Table(f"{_over(every).capitalize()}.", ["", "score"], rows),
        _pairs_table("", pairs),
    ]


def _objectives(content: ObjectivesSection) -> list[Block]:
    blocks: list[Block] = [Heading("Left to right, or both ways")]
    if any(content["networks"].values()):
        header = ["network", "bits per byte", "loss of a next token", "loss of a masked token"]
        names = ("bits_per_byte", "valid_loss", "masked_loss")
        rows = [
            TableRow(name, [TableCell(f"{one[key]:.3f}" if key in one else "–") for key in names])
            for name, one in content["networks"].items()
        ]
        blocks.append(Table("Each network on its validation text, as it was looked at last.", header, rows))
    tasks = content["tasks"]
    if not any(tasks.values()):
        return blocks if len(blocks) > 1 else []
    best = {task: _best_of(figure["median"] for figure in arms.values()) for task, arms in tasks.items()}
    averages = content["average"]
    highest = _best_of(value for value in averages.values() if value is not None)
    rows = []
    for arm in content["arms"]:
        mean = averages[arm]
        cells = [TableCell("–") if mean is None else TableCell(score(mean), is_best=mean == highest)]
        cells += [_ablated(arms.get(arm), None, best[task]) for task, arms in tasks.items()]
        rows.append(TableRow(arm_name(arm), cells))
    figures = {task: next(iter(arms.values())) for task, arms in tasks.items() if arms}
    where = "; ".join(f"{task} on {_judged_on(figure)}" for task, figure in figures.items())
    spreads = ", below it between which values they lie" if any(map(spread, figures.values())) else ""
    caption = f"{_over(figures.values()).capitalize()}{spreads}. {where}. No arm has the auxiliary LM."
    blocks.append(Table(caption, ["", "average", *tasks], rows))
    pairs = [(f"{one['task']} {one['split']}", one) for one in content["pairs"]]
    return [*blocks, *([_pairs_table("", pairs)] if pairs else [])]


# ---- figure 2, and few labels ----


def _zeroshot(content: ZeroshotSection) -> list[Block]:
    pictures, rows = [], []
    for task, facts in content["tasks"].items():
        runs = {run: points for run, points in facts["runs"].items() if points}
        if not runs:
            continue
        scale = facts["scale"]
        lines = {run: [_asked(point) for point in points] for run, points in runs.items()}
        value = "normalised score" if scale else metric_name(facts["metric"])
        drawn = _picture(task, lines, "updates", value, levels=(0.0, 1.0) if scale else ())
        pictures.append(Picture(drawn.plot, drawn.alternative, f"{task}{_scale_in_words(scale)}"))
        pictures += _by_group(task, facts)
        for run, points in runs.items():
            rows.append(_last(task, run, content["kinds"].get(run, ""), points))
    if not pictures:
        return []
    others = [f"for {task} {best}" for task, facts in content["tasks"].items() if (best := _best_in_words(facts))]
    best = ", ".join(["1 the best single model of the time", *others])
    caption = f"The last checkpoint of each run; normalised: 0 is a guess, {best}."
    header = ["task and run", "updates", "score", "best on the way", "normalised", "best normalised"]
    return [
        Heading("Without learning the task"),
        Pictures(pictures, _numbers_beside("zeroshot", ())),
        Table(caption, header, rows),
    ]


def _asked(point: CheckpointPoint) -> Point:
    value = x100(point["score"]) if point["normalised"] is None else point["normalised"]
    return Point(point["step"], value, value, value)


def _by_group(task: str, facts: AskedTask) -> Iterator[Picture]:
    """Yield for each run a picture of what it knew of each group of a task's examples."""
    guess = "" if facts["scale"] is None else f"; {facts['scale']['chance']:g} is a guess"
    for run, points in facts.get("groups", {}).items():
        lines: dict[str, list[Point]] = {}
        for point in points:
            value = x100(point["score"])
            group = point["metric"].partition("/")[2].replace("_", " ")
            lines.setdefault(group, []).append(Point(point["step"], value, value, value))
        if lines:
            drawn = _picture(f"{task} in parts, {run}", lines, "updates", metric_name(facts["metric"]))
            yield Picture(drawn.plot, drawn.alternative, f"{drawn.caption}{guess}")


def _scale_in_words(scale: ScaleFacts | None) -> str:
    if scale is None:
        return ""
    remark = f"; {scale['remark']}" if scale["remark"] else ""
    best = scale.get("best_is") or "the best of the time"
    return f": 0 is a guess ({scale['chance']:g}), 1 {best} ({scale['best']:g}{remark})"


def _best_in_words(facts: AskedTask) -> str:
    """Return what is the best of a task whose best is no model; nothing for the others."""
    scale = facts["scale"]
    return f"{scale['best_is']} ({scale['best']:g})" if scale is not None and scale.get("best_is") else ""


def _last(task: str, run: str, kind: str, points: Sequence[CheckpointPoint]) -> TableRow:
    last = points[-1]
    examples = many(last["examples"], "example")
    scaled = [point["normalised"] for point in points if point["normalised"] is not None]
    cells = [
        TableCell(f"{last['step']:,}"),
        TableCell(score(last["score"]), note=f"{last['split']} {metric_name(last['metric'])}, {examples}"),
        TableCell(score(max(point["score"] for point in points))),
        TableCell(_plain(last["normalised"])),
        TableCell(_plain(max(scaled, default=None))),
    ]
    return TableRow(f"{task}, {run}", cells, kind)


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}".replace("-", MINUS)


def _transfer(content: TransferSection) -> list[Block]:
    pictures: list[Picture] = []
    tables: list[Block] = []
    drawn: list[list[Point]] = []
    for task, facts in content["tasks"].items():
        if not facts["points"]:
            continue
        value = metric_name(facts["metric"])
        lines = {task: _points((point["layers"], point) for point in facts["points"])}
        if learned := [(point["layers"], point["train"]) for point in facts["points"] if "train" in point]:
            lines[f"{task}, rows that were learned"] = _points(learned)
        drawn += lines.values()
        pictures.append(_picture(task, lines, "blocks taken over", value))
        rows = [_layers(point) for point in facts["points"]]
        caption = (
            f"{task}, {value} on {_judged_on(facts['points'][0])}: {_over(facts['points'])}. The gain is that of the "
            "most blocks over so many, in pairs, with its 95 % interval below; of the rows that were learned some are "
            "drawn."
        )
        tables.append(Table(caption, ["blocks", "score", "on learned rows", "gain of the most"], rows))
    if not pictures:
        return []
    return [Heading("Blocks taken over"), Pictures(pictures, _numbers_beside("transfer", drawn)), *tables]


def _layers(point: LayerPoint) -> TableRow:
    behind, learned = point.get("behind_most"), point.get("train")
    on_learned = TableCell("–" if learned is None else score(learned["median"]))
    cells = [TableCell(score(point["median"]), note=spread(point)), on_learned, TableCell("–")]
    if behind is not None:
        interval = f"{signed_score(behind['low'])} to {signed_score(behind['high'])}"
        cells[2] = TableCell(signed_score(behind["difference"]), note=interval)
    return TableRow(f"{point['layers']}" if point["layers"] else "0 (embeddings alone)", cells)


def _labels(content: LabelsSection) -> list[Block]:
    blocks: list[Block] = []
    for task, facts in content["tasks"].items():
        arms = {arm: points for arm, points in facts["arms"].items() if points}
        if not arms:
            continue
        value = metric_name(facts["metric"])
        lines = {arm_name(arm): _points((point["labels"], point) for point in points) for arm, points in arms.items()}
        counts = sorted({point["labels"] for points in arms.values() for point in points})
        found = {arm: {point["labels"]: point for point in points} for arm, points in arms.items()}
        best = {count: max(points[count]["median"] for points in found.values() if count in points) for count in counts}
        rows = [
            TableRow(arm_name(arm), [_ablated(points.get(count), None, best[count]) for count in counts])
            for arm, points in found.items()
        ]
        figures = [point for points in arms.values() for point in points]
        spreads = ", and between which values they lie" if any(map(spread, figures)) else ""
        caption = f"{value} on {_judged_on(figures[0])}: {_over(figures, 'draw')}{spreads}."
        blocks += [
            Heading(f"{task}: few labels"),
            Pictures([_picture(task, lines, "labels", value, log=True)], _numbers_beside("labels", lines.values())),
            Table(caption, ["", *(f"{count:,} labels" for count in counts)], rows),
        ]
        if facts["differences"]:
            pairs = [(f"{one['labels']:,} labels, {one['split']}", one) for one in facts["differences"]]
            blocks.append(Folded("Differences in pairs", [_pairs_table("", pairs)]))
    return blocks


def _augmentation(content: AugmentationSection) -> list[Block]:
    tasks = {task: facts for task, facts in content["tasks"].items() if facts["arms"]}
    if not tasks:
        return []
    points = {
        (task, point["labels"], arm): point
        for task, facts in tasks.items()
        for arm, own in facts["arms"].items()
        for point in own
    }
    columns = list(dict.fromkeys((task, count) for task, count, _ in points))
    best = {
        (task, count): _best_of(point["median"] for (*place, _), point in points.items() if place == [task, count])
        for task, count in columns
    }
    rows = [
        TableRow(
            arm_name(arm),
            [_ablated(points.get((*column, arm)), None, best[column]) for column in columns],
            about,
        )
        for arm, about in content["arms"].items()
    ]
    pairs = [
        (f"{task}, {one['labels']:,} labels, {one['split']}", one)
        for task in tasks
        for one in tasks[task]["differences"]
    ]
    where = "; ".join(f"{task} on {_judged_on(next(iter(facts['arms'].values()))[0])}" for task, facts in tasks.items())
    spreads = ", and between which values they lie" if any(map(spread, points.values())) else ""
    caption = f"{_over(points.values(), 'draw').capitalize()}{spreads}; {where}."
    header = ["", *(f"{task}, {count:,} labels" for task, count in columns)]
    blocks: list[Block] = [Heading("Augmentation"), Lines(_who_hurts(pairs)), Table(caption, header, rows)]
    return [*blocks, Folded("Differences in pairs", [_pairs_table("", pairs)])] if pairs else blocks


def _who_hurts(pairs: Sequence[tuple[str, AugmentationDifference]]) -> list[str]:
    """Return a sentence for each way to augment: where it hurts, where it helps, and how that is to be taken."""
    lines = []
    for arm in dict.fromkeys(one["arm"] for _, one in pairs):
        own = [(place, one) for place, one in pairs if one["arm"] == arm]
        hurts = [place for place, one in own if one["high"] < 0]
        helps = [place for place, one in own if one["low"] > 0]
        said = [f"hurts, beyond chance, on {'; '.join(hurts)}"] if hurts else []
        said += [f"helps, beyond chance, on {'; '.join(helps)}"] if helps else []
        rest = len(own) - len(hurts) - len(helps)
        said += [f"could be chance in {rest} of {len(own)}"] if rest else []
        better, worse = (sum(one[way] for _, one in own) for way in ("better", "worse"))
        mean = signed_score(sum(one["difference"] for _, one in own) / len(own))
        lines.append(
            f"{arm_name(arm)}: {', '.join(said)}; {mean} on average, better in {better:,} and worse in {worse:,} draws."
        )
    if len(pairs) > 1:
        lines.append(
            f"Of {len(pairs):,} comparisons one in twenty is beyond chance by chance alone; of {len(lines)} ways the "
            "best one flatters."
        )
    return lines


def _domain(content: DomainSection) -> list[Block]:
    arms = content["arms"]
    if not arms:
        return []
    value, (any_arm, *_) = metric_name(content["metric"]), arms.values()
    best = _best_of(facts["task"]["median"] for facts in arms.values())
    least = {
        "new": min(facts["new"]["bits_per_byte"] for facts in arms.values()),
        "old": min(facts["old"]["bits_per_byte"] for facts in arms.values()),
    }
    rows = []
    for arm, facts in arms.items():
        cells = [_text_cell(facts["new"], least["new"]), _text_cell(facts["old"], least["old"])]
        rows.append(TableRow(arm_name(arm), [*cells, _ablated(facts["task"], None, best)]))
    caption = (
        f"Bits per byte of text that was not read ({any_arm['new']['windows']:,} windows of the new domain, "
        f"{any_arm['old']['windows']:,} of the old one; fewer are better), with the 95 % interval over windows and the "
        f"perplexity; and {content['task']}, {value} on {_judged_on(any_arm['task'])}: "
        f"{_over(facts['task'] for facts in arms.values())}. An arm is called by its share of old text."
    )
    blocks: list[Block] = [
        Heading("A new domain"),
        Table(caption, ["", "new text", "old text", content["task"]], rows),
    ]
    if content["texts"]:
        told = [_text_row(one) for one in content["texts"]]
        scores = [(f"{one['task']} {one['split']}", one) for one in content["scores"]]
        caption = "In pairs: windows are drawn with replacement, the same for both; above 0 is worse."
        tables: list[Block] = [Table(caption, ["bits per byte", "by", "verdict"], told), _pairs_table("", scores)]
        blocks.append(Folded("Differences in pairs", tables))
    return blocks


def _text_cell(text: DomainText, least: float) -> TableCell:
    note = f"{text['low']:.3f} to {text['high']:.3f}; perplexity {text['perplexity']:,.1f}"
    return TableCell(f"{text['bits_per_byte']:.3f}", note=note, is_best=text["bits_per_byte"] == least)


def _text_row(one: TextDifference) -> TableRow:
    said = verdict(one["low"], one["high"], is_better=one["difference"] < 0)
    value, low, high = (f"{bits:+.3f}".replace("-", MINUS) for bits in (one["difference"], one["low"], one["high"]))
    cells = [TableCell(value, note=f"{low} to {high}"), TableCell(said, is_number=False)]
    note = f"{one['text']} text, {many(one['windows'], 'window')}"
    return TableRow(f"{arm_name(one['arm'])} over {arm_name(one['over'])}", cells, note)


# ---- scores: x 100 as the paper has them, lines with their spread, differences in pairs ----


def spread(figure: SeedFigures) -> str:
    """Return between which values several seeds lie."""
    return between((figure["worst"], figure["best"])) if len(figure["seeds"]) > 1 else ""


def _over(figures: Iterable[SeedFigures], what: str = "seed") -> str:
    """Return what a figure is of its seeds: their median, or the only one."""
    return f"median over {what}s" if any(len(figure["seeds"]) > 1 for figure in figures) else f"one {what}"


def _judged_on(figure: ArmFigures) -> str:
    """Return on what a figure stands: dev, 277 examples."""
    return f"{' and '.join(figure['splits'])}, {many(figure['examples'], 'example')}"


def verdict(low: float, high: float, *, is_better: bool) -> str:
    """Return what the interval of a difference says."""
    if low == high == 0:
        return "the same"
    if low <= 0 <= high:
        return "could be chance"
    return ("better" if is_better else "worse") + ", beyond chance"


def _points(found: Iterable[tuple[int, Summary]]) -> list[Point]:
    """Return medians with worst and best as points of a line, each at its place."""
    return [Point(float(x), *(x100(value) for value in (one["median"], one["worst"], one["best"]))) for x, one in found]


def _picture(
    title: str, lines: dict[str, list[Point]], x: str, value: str, *, log: bool = False, levels: Sequence[float] = ()
) -> Picture:
    """Return a picture of lines, with all of them in words."""
    plot = LinePlot(lines, x, value, log, levels, least_span=0 if levels else SCORE_SPAN)
    digits = 2 if levels else 1  # of normalised scores, and of those x 100
    spoken = "; ".join(f"{name}: {_told(points, digits)}" for name, points in lines.items())
    return Picture(plot, f"{title}, {value} by {x}: {spoken}", title)


def _told(points: Sequence[Point], digits: int) -> str:
    shown = points if len(points) <= SPOKEN else [points[0], points[-1]]
    return ", ".join(f"{point.value:z.{digits}f} at {point.x:,.0f}" for point in shown)


def _pairs_table(caption: str, pairs: Iterable[tuple[str, ArmDifference]]) -> Table:
    """Return differences with their intervals, and on what each was found."""
    rows = []
    for place, one in pairs:
        note = f"{place} {metric_name(one['metric'])}, {many(one['examples'], 'example')}"
        name = f"{arm_name(one['arm'])} over {arm_name(one['over'])}"
        rows.append(judged_row(name, note, one["difference"], one["low"], one["high"]))
    return judged_table(caption, rows)


def judged_row(name: str, note: str, value: float, low: float, high: float) -> TableRow:
    """Return a difference with its interval, and what that says."""
    said = verdict(low, high, is_better=value > 0)
    interval = f"{signed_score(low)} to {signed_score(high)}"
    cells = [TableCell(signed_score(value), note=interval), TableCell(said, is_number=False)]
    return TableRow(name, cells, note)


def judged_table(caption: str, rows: list[TableRow]) -> Table:
    """Return differences, and how they were judged."""
    return Table(f"{caption} {IN_PAIRS}".strip(), ["difference", "by", "verdict"], rows)


def _numbers_beside(name: str, lines: Iterable[Sequence[Point]]) -> str:
    """Return where the numbers of pictures are, and what the band around a line is, where there is one."""
    banded = any(point.low < point.high for points in lines for point in points)
    band = "The band around a line goes from the worst seed to the best. " if banded else ""
    return f"{band}The numbers are in {name}.csv of the study."


def _best_of(values: Iterable[float]) -> float | None:
    """Return the best of several values, None where there is nothing to choose."""
    found = set(values)
    return max(found) if len(found) > 1 else None
