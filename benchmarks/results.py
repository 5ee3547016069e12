"""What benchmarks find, as values: one row for each contender, in one JSON file; the table of README and a picture.

    python -m benchmarks.results                     # write README's table of speeds anew from benchmarks/results.json
    python -m benchmarks.results bench/results.json --picture bench/results.png

`benchmarks/results.json` holds what README shows: rows of different days and machines, each with its own date and
command. A row that is measured anew takes the place of the old one.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results.json"
OURS = "gpt1"  # how the names of all contenders of ours begin
BEGIN, END = "<!-- speeds: python -m benchmarks.results -->\n", "<!-- end of speeds -->\n"
LIBRARIES = ("torch", "transformers", "numpy")
RATES = ("tokens/s", "MB/s", "requests/s")  # of which more is better; of seconds less is


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What one contender needed for one piece of work."""

    work: str
    machine: str
    contender: str
    unit: str
    median: float
    least: float | None  # of all rounds; None where it was not kept
    most: float | None
    rounds: int | None
    peak_gib: float | None = None  # of a GPU's memory
    date: str
    command: str
    versions: dict[str, str]

    @property
    def is_ours(self) -> bool:
        """Whether it is this package that was measured."""
        return self.contender.startswith(OURS)

    def times_as_fast_as(self, other: Measurement) -> float:
        """Return how many times as fast this one is."""
        ratio = self.median / other.median
        return ratio if self.unit in RATES else 1 / ratio


def interleave(contenders: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Let contenders take turns, forwards and backwards, and return what each gave in each round."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(rounds):
        for name in contenders if round_ % 2 == 0 else reversed(contenders):
            found[name].append(contenders[name]())
            print(f"round {round_ + 1}, {name}: {found[name][-1]:,.4g}", flush=True)
    return found


def measured(
    work: str, unit: str, machine: str, found: Mapping[str, Sequence[float]], peaks: Mapping[str, float] | None = None
) -> list[Measurement]:
    """Return what contenders gave in their rounds, with the date, the versions and the command of this very process."""
    versions = {"python": platform.python_version()} | {name: _version(name) for name in LIBRARIES}
    return [
        Measurement(
            work=work,
            machine=machine,
            contender=name,
            unit=unit,
            median=statistics.median(values),
            least=min(values),
            most=max(values),
            rounds=len(values),
            peak_gib=(peaks or {}).get(name),
            date=time.strftime("%Y-%m-%d"),
            command=command(sys.argv),
            versions=versions,
        )
        for name, values in found.items()
    ]


def command(given: Sequence[str]) -> str:
    """Return how a benchmark was called, but for where its figures went."""
    program, *options = given
    if "--json" in options:
        place = options.index("--json")
        options = options[:place] + options[place + 2 :]
    return " ".join([f"python -m benchmarks.{Path(program).stem}", *map(shlex.quote, options)])


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"


# ---- the file ----


def read(file: Path) -> list[Measurement]:
    """Return the rows of a file."""
    return [Measurement(**row) for row in json.loads(file.read_text())["measurements"]]


def write(file: Path, rows: Iterable[Measurement]) -> None:
    """Write rows to a file; what it has of the same contenders at the same work on the same machine is replaced."""
    before = read(file) if file.exists() else []
    found = {(row.work, row.machine, row.contender): row for row in [*before, *rows]}
    file.write_text(json.dumps({"measurements": [asdict(row) for row in found.values()]}, indent=1) + "\n")


def tell(rows: Sequence[Measurement], file: Path | None) -> None:
    """Print rows, each with how much faster ours is in the same run, and keep them where a file is named."""
    for row in rows:
        own = next((one for one in rows if one.is_ours and one.work == row.work), row)
        spread = f"{number(row.least)} to {number(row.most)}"
        peak = "" if row.peak_gib is None else f", {row.peak_gib:.1f} GiB"
        print(
            f"{row.work}, {row.contender}: {number(row.median)} {row.unit} ({spread}){peak}, "
            f"ours is {own.times_as_fast_as(row):.2f}x as fast",
            flush=True,
        )
    if file is not None:
        write(file, rows)


# ---- what people see ----


def number(value: float | None) -> str:
    """Return a figure as it stands in a table: three digits, or whole where there are more before the point."""
    if value is None:
        return "?"
    digits = f"{value:.3g}"
    return f"{value:,.0f}" if "e" in digits or value >= 100 else digits


def by_work(rows: Iterable[Measurement]) -> dict[tuple[str, str, str], list[Measurement]]:
    """Return rows by what was done and where, and in what it was measured."""
    found: dict[tuple[str, str, str], list[Measurement]] = {}
    for row in rows:
        found.setdefault((row.work, row.machine, row.unit), []).append(row)
    return found


def speeds_table(rows: Iterable[Measurement]) -> str:
    """Return README's table: a line for each peer at each piece of work, all that is ours beside it."""
    lines = ["| speed | peer | `gpt1` | | measured |", "|---|---|---|---|---|"]
    for (work, machine, _), alike in by_work(rows).items():
        ours = [row for row in alike if row.is_ours]
        for place, peer in enumerate(row for row in alike if not row.is_ours):
            named = f"{work}; {machine}" if place == 0 else ""
            own = ", ".join(f"{row.contender.removeprefix(OURS).strip(' ,')} {_figure(row)}".strip() for row in ours)
            ratios = ", ".join(f"{_ratio(row.times_as_fast_as(peer))}x" for row in ours)
            same = all((row.date, row.command) == (peer.date, peer.command) for row in ours)
            when = peer.date if same else f"{peer.date}, another run"
            lines.append(f"| {named} | {peer.contender}: {_figure(peer)} | {own} | {ratios} | {when} |")
    return "\n".join(lines) + "\n"


def _figure(row: Measurement) -> str:
    peak = "" if row.peak_gib is None else f" ({row.peak_gib:.1f} GiB)"
    return f"{number(row.median)} {row.unit}{peak}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 1.2 else f"{ratio:.2f}"


def with_table(readme: str, rows: Iterable[Measurement]) -> str:
    """Return README with its table of speeds made of rows."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + speeds_table(rows) + END + after


def draw(rows: Iterable[Measurement], file: Path) -> None:
    """Draw how many times as fast ours is as each peer."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    bars: dict[str, float] = {}
    for (work, machine, _), alike in by_work(rows).items():
        own = next((row for row in alike if row.is_ours), None)
        for peer in () if own is None else alike:
            if not peer.is_ours:
                bars[f"{work} ({machine})\nagainst {peer.contender}"] = own.times_as_fast_as(peer)
    figure, axes = pyplot.subplots(figsize=(10, 1 + 0.6 * len(bars)), layout="constrained")
    drawn = axes.barh(list(bars), list(bars.values()))
    axes.bar_label(drawn, [f"{_ratio(ratio)}x" for ratio in bars.values()], padding=3)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.invert_yaxis()
    axes.set_xlabel("times as fast as the peer, medians of one run")
    figure.savefig(file)
    pyplot.close(figure)


def main() -> None:
    """Write README's table from the committed rows, or draw those of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", default=RESULTS)
    parser.add_argument("--picture", type=Path, default=None, help="draw the file here, and leave README alone")
    given = parser.parse_args()
    if given.picture is not None:
        draw(read(given.file), given.picture)
        return
    readme = ROOT / "README.md"
    readme.write_text(with_table(readme.read_text(), read(given.file)))


if __name__ == "__main__":
    main()
