"""Tables of scores, for the terminal and for files, and the difference between two results."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from evals import statistics
from evals.running import Score
from evals.tasks import EVALS_FOLDER
from evals.workflows import KITS

RESULTS: Final = EVALS_FOLDER / "results"
COLUMNS: Final = (
    ("workflow", "left"),
    ("tasks", "right"),
    ("success", "right"),
    ("95 %", "right"),
    ("pass^k", "right"),
    ("for a judge", "right"),
    ("quality", "right"),
    ("rounds", "right"),
    ("input", "right"),
    ("cached", "right"),
    ("output", "right"),
    ("cost $", "right"),
    ("seconds", "right"),
)
"""`success` is of the runs that code or a judge has decided; the interval is Wilson's over their tasks.

`pass^k` is the share of tasks of which all k repetitions pass, `for a judge` the runs that wait for one.
`rounds`, tokens and seconds are of one run on average; `cost` is of all."""


@dataclass(frozen=True)
class Report:
    """The scores of a run, with the model and settings that they depend on."""

    model: str
    settings: Mapping[str, Any]
    scores: Sequence[Score]
    agreement: str = ""
    """Agreement of the judge with the hand-graded cases."""

    def data(self) -> dict[str, Any]:
        """Return it as JSON."""
        prompts = {name: kit.session.workflow.prompt_version for name, kit in KITS.items()}
        return {
            "model": self.model,
            "date": datetime.now(UTC).date().isoformat(),
            "settings": {**self.settings},
            "prompts": prompts,
            "agreement": self.agreement,
            "summary": {name: dict(zip(_names(), row, strict=True)) for name, row in self.rows()},
            "tasks": [{**asdict(one), "ok": one.ok} for one in self.scores],
        }

    def rows(self) -> list[tuple[str, list[str]]]:
        """Return the cells of each workflow."""
        by_name = {name: [one for one in self.scores if one.workflow == name] for name in KITS}
        return [(name, _cells(name, scores)) for name, scores in by_name.items() if scores]

    def failures(self) -> list[str]:
        """Return one line for each failing check."""
        return [
            f"{one.workflow} {one.id}{f' #{one.repeat}' if one.repeat > 1 else ''}  {name}: {problem}"
            for one in self.scores
            for name, problem in one.failures.items()
        ]


def _names() -> list[str]:
    return [name for name, _ in COLUMNS]


def mark(score: Score) -> str:
    """Return the sign of a score: passed, failed, or waiting for a judge."""
    if score.failures:
        return "✘"
    return "?" if score.rubrics else "✔"


def _cells(name: str, scores: Sequence[Score]) -> list[str]:
    graded = [one.quality for one in scores if one.quality is not None]
    read = sum(one.input for one in scores)
    costs = [one.cost for one in scores if one.cost is not None]
    return [
        name,
        str(len({one.id for one in scores})),
        *_success(scores),
        f"{fmean(graded):.1f} ({len(graded)})" if graded else "-",
        f"{fmean(one.calls for one in scores):.1f}" if read else "-",
        f"{read / len(scores):,.0f}" if read else "-",
        f"{sum(one.cached for one in scores) / read:.0%}" if read else "-",
        f"{fmean(one.output for one in scores):,.0f}" if read else "-",
        f"{sum(costs):.4f}" if len(costs) == len(scores) else "-",
        f"{median(one.seconds for one in scores):.1f}",
    ]


def _success(scores: Sequence[Score]) -> list[str]:
    """Return the cells of success, its interval, pass^k, and the runs that wait for a judge."""
    runs: dict[str, list[bool]] = {}
    for one in scores:
        if not one.is_open:
            runs.setdefault(one.id, []).append(one.ok)
    waiting = str(sum(one.is_open for one in scores))
    decided = [ok for outcomes in runs.values() for ok in outcomes]
    if not decided:
        return ["-", "-", "-", waiting]
    low, high = statistics.wilson(fmean(decided), len(runs))
    k = min(map(len, runs.values()))
    hat = f"{statistics.pass_hat_k([*runs.values()], k):.0%} (k={k})" if k > 1 else "-"
    return [f"{sum(decided)}/{len(decided)} {fmean(decided):.0%}", f"{low:.0%}-{high:.0%}", hat, waiting]


def show(report: Report, console: Console) -> None:
    """Print the table, and every failing check."""
    table = Table(title=report.model, title_justify="left", box=None, pad_edge=False)
    for name, side in COLUMNS:
        table.add_column(name, justify="right" if side == "right" else "left", no_wrap=True)
    for _, cells in report.rows():
        table.add_row(*cells)
    console.print(table)
    if report.agreement:
        console.print(f"Judge: {report.agreement}")
    for line in report.failures():
        console.print(f"✘ {line}", style="red", markup=False, highlight=False, soft_wrap=True)


def write(report: Report) -> Path:
    """Write the result as JSON, and the table of all results; return the JSON's path."""
    RESULTS.mkdir(exist_ok=True)
    profile = f"-{report.settings['profile']}" if "profile" in report.settings else ""
    path = RESULTS / f"{report.model.replace('/', '-').replace(':', '-')}{profile}.json"
    path.write_text(json.dumps(report.data(), ensure_ascii=False, indent=1) + "\n", "utf-8")
    every = [json.loads(one.read_text("utf-8")) for one in sorted(RESULTS.glob("*.json"))]
    (RESULTS / "README.md").write_text("\n".join(markdown(every)) + "\n", "utf-8")
    return path


def markdown(results: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Yield the lines of the tables of results."""
    yield "# Results"
    yield ""
    yield (
        "Written by `make eval MODEL=…`. `success` is the share of runs that pass, of those that code or a "
        "judge has decided, with Wilson's interval over their tasks; `pass^k` the share of tasks of which "
        "all k repetitions pass; `for a judge` counts runs that nobody has decided. `rounds` are model calls "
        "of a run, those of its tools included; they, the tokens and the seconds (median) are of one run, "
        "the cost is of all."
    )
    for one in results:
        settings = ", ".join(f"{name} {value}" for name, value in one["settings"].items())
        yield from ("", f"## {one['model']}", "", f"{one['date']}; {settings}.", "")
        yield f"| {' | '.join(_names())} |"
        yield f"|{'|'.join('---' if side == 'left' else '---:' for _, side in COLUMNS)}|"
        for cells in one["summary"].values():
            yield f"| {' | '.join(cells[name] for name in _names())} |"
        yield ""
        yield f"Prompts: {', '.join(one['prompts'].values())}."
        if one["agreement"]:
            yield f"Judge: {one['agreement']}."


def compare(first: Path, second: Path) -> list[str]:
    """Return the differences between two results, by case, and whether they are more than noise."""
    sides = [_by_case(path) for path in (first, second)]
    lines = [
        f"{case}  {_mark(sides[0].get(case))} → {_mark(sides[1].get(case))}"
        for case in dict.fromkeys([*sides[0], *sides[1]])
        if _mark(sides[0].get(case)) != _mark(sides[1].get(case))
    ]
    counts = [f"{sum(bool(ok) and all(ok) for ok, _ in side.values())}/{len(side)}" for side in sides]
    return [*lines, f"passed: {counts[0]} → {counts[1]}; {len(lines)} cases differ", _significance(*sides)]


_Cases = Mapping[str, tuple[Sequence[bool], Sequence[str]]]


def _significance(first: _Cases, second: _Cases) -> str:
    """Return the mean paired difference with the p-value of a permutation test."""
    passed = [{case: ok for case, (ok, _) in side.items() if ok} for side in (first, second)]
    differences = statistics.paired_differences(*passed)
    if not differences:
        return "no task is decided in both results, so nothing can be compared"
    p = statistics.sign_flip(differences)
    verdict = "more than noise" if p < statistics.SIGNIFICANT else "within noise"
    return (
        f"difference: {fmean(differences):+.1%} over {len(differences)} tasks in both, p = {p:.3f} "
        f"(paired permutation test): {verdict}"
    )


def _by_case(path: Path) -> dict[str, tuple[list[bool], list[str]]]:
    """Return the decided outcomes and the failed checks by case."""
    cases: dict[str, tuple[list[bool], list[str]]] = {}
    for one in json.loads(path.read_text("utf-8"))["tasks"]:
        passed, wrong = cases.setdefault(f"{one['workflow']} {one['id']}", ([], []))
        wrong += one["failures"]
        if one["failures"] or not one.get("rubrics"):
            passed.append(one["ok"])
    return cases


def _mark(side: tuple[Sequence[bool], Sequence[str]] | None) -> str:
    if side is None:
        return "not run"
    passed, wrong = side
    if not passed:
        return "?"
    failed = f" ({', '.join(dict.fromkeys(wrong))})" if wrong else ""
    return (
        f"{sum(passed)} of {len(passed)}{failed}"
        if len(passed) > 1
        else f"{'✔' if passed[0] else '✘'}{failed}"
    )
