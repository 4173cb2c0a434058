"""`python -m evals`: run the tasks against a model, the recordings, or the offline model.

`python -m evals compare A.json B.json` prints the differences between two results.
"""

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from dotenv import load_dotenv
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from callsheet.state.errors import CallsheetError, Invalid
from evals import controls, pairs, recordings, reporting
from evals.endpoints import RECORDED, EvalModel, model_plan, proxy_for, recorded_plan, settings_of
from evals.judging import Judge
from evals.recordings import FOLDER
from evals.reporting import Report, mark
from evals.running import EvalPlan, Score, run, stage
from evals.tasks import Task
from evals.wire import CACHE, EvalProxy
from evals.workflows import KITS

WIDTH: Final = 140
REPEAT: Final = 5
"""Repetitions of each task against a model; the offline model always answers the same."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the evaluation or comparison of the arguments; 1 if a check failed, 2 for wrong arguments."""
    # Before a library logs every request.
    logging.basicConfig(level=logging.WARNING)
    console = Console()
    # The table has thirteen columns; output that is no terminal is 80 wide by default.
    console.width = max(console.width, WIDTH)
    args = [*(sys.argv[1:] if arguments is None else arguments)]
    try:
        if args[:1] == ["compare"]:
            console.print("\n".join(_compare(args[1:])), markup=False, highlight=False)
            return 0
        options = _parser().parse_args(args)
        problems, summary = asyncio.run(_controls(options))
        report = asyncio.run(_evaluate(options, console))
    except (CallsheetError, OSError, ValueError) as error:
        console.print(f"{error}", style="red", markup=False)
        return 2
    reporting.show(report, console)
    is_complete = not any((options.only, options.group, options.task, options.limit))
    if options.write or (options.model and is_complete):
        console.print(f"Written to {reporting.write(report)}", highlight=False)
    for problem in problems:
        console.print(f"✘ {problem}", style="red", markup=False, highlight=False, soft_wrap=True)
    console.print(summary, highlight=False)
    return 1 if problems or any(one.failures for one in report.scores) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m evals", description=__doc__)
    parser.add_argument("--model", default="", help="provider/model or offline; the recordings when left out")
    parser.add_argument("--judge", default="", help="provider/model that grades the written texts")
    parser.add_argument("--profile", default="", choices=["full", "lean"], help="tools that it is offered")
    parser.add_argument("--only", action="append", choices=[*KITS], help="a workflow; may be repeated")
    parser.add_argument("--group", action="append", help="first part of a case's id; may be repeated")
    parser.add_argument("--task", action="append", help="id of a case, or workflow.id; may be repeated")
    parser.add_argument("--limit", type=int, help="at most this many tasks of a workflow")
    parser.add_argument("--repeat", type=int, help="times that each task runs; 5, or 1 offline")
    parser.add_argument("--at-once", type=int, default=4, help="tasks at once")
    parser.add_argument("--controls", type=Path, default=controls.FOLDER, help="folder of controls")
    parser.add_argument("--no-cache", action="store_true", help="ask the model again")
    parser.add_argument("--record", action="store_true", help="write the answers to evals/recordings")
    parser.add_argument("--write", action="store_true", help="write to evals/results, also of a partial run")
    return parser


def chosen_tasks(options: argparse.Namespace) -> list[Task]:
    """Return the tasks that the options leave, some of each workflow; `Invalid` for an id of none."""
    kits = [KITS[name] for name in options.only or KITS]
    known = {name for kit in kits for task in kit.tasks() for name in (task.id, task.key)}
    if unknown := {*(options.task or ())} - known:
        raise Invalid(
            f"there is no task {', '.join(sorted(unknown))}", remedy="see the ids in the files of evals/"
        )
    left = [
        [
            task
            for task in kit.tasks()
            if (not options.group or task.group in options.group)
            and (not options.task or {task.id, task.key} & {*options.task})
        ]
        for kit in kits
    ]
    return [task for tasks in left for task in tasks[: options.limit]]


def _compare(args: Sequence[str]) -> list[str]:
    parser = argparse.ArgumentParser(prog="python -m evals compare")
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--judge", default="", help="provider/model that prefers one of two products")
    options = parser.parse_args(args)
    lines = reporting.compare(options.first, options.second)
    if not options.judge:
        return lines
    with proxy_for(options.judge, CACHE):
        preferred = asyncio.run(pairs.preferences(Judge(options.judge), options.first, options.second))
    return [*lines, preferred]


async def _controls(options: argparse.Namespace) -> tuple[list[str], str]:
    """Return the problems of the controls, and their summary; a judge decides those that need one."""
    if not options.judge:
        return await controls.run(None, options.controls)
    with proxy_for(options.judge, None if options.no_cache else CACHE):
        return await controls.run(Judge(options.judge, options.at_once), options.controls)


async def _evaluate(options: argparse.Namespace, console: Console) -> Report:
    cache = None if options.no_cache else CACHE
    report = await _score(options, cache, console)
    if not options.judge:
        return report
    judge = Judge(options.judge, options.at_once)
    with proxy_for(options.judge, cache), console.status("Judging"):
        return replace(
            report, scores=await judge.with_grades(report.scores), agreement=await judge.agreement()
        )


async def _score(options: argparse.Namespace, cache: Path | None, console: Console) -> Report:
    tasks = chosen_tasks(options)
    if not options.model:
        with recorded_plan(tasks, recordings.load(options.only or KITS), at_once=options.at_once) as plan:
            scores = await _play(plan, 1, console)
        return Report(RECORDED, {"tokens": "estimated"}, scores)
    model = EvalModel(options.model, cache, FOLDER if options.record else None, options.profile)
    with model_plan(tasks, model, at_once=options.at_once) as (plan, proxy):
        repeat = options.repeat or (REPEAT if proxy else 1)
        scores = await _play(plan, repeat, console, proxy)
    settings = {**settings_of(options.model), "repeat": str(repeat)}
    if options.profile:
        settings["profile"] = options.profile
    if proxy:
        settings["answers from the cache"] = f"{proxy.cached} of {proxy.cached + proxy.fetched}"
    return Report(options.model, settings, scores)


async def _play(plan: EvalPlan, repeat: int, console: Console, proxy: EvalProxy | None = None) -> list[Score]:
    """Return the scores of every repetition, with a line of progress, or one for each task."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    scores: list[Score] = []
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(plan.tasks) * repeat)

        def report(score: Score) -> None:
            line = f"{mark(score)} {score.workflow} {score.id}"
            progress.update(bar, advance=1, description=line)
            if not console.is_terminal:
                console.print(f"{line}  {score.seconds:g} s", markup=False, highlight=False)

        for number in range(1, repeat + 1):
            if proxy:
                proxy.repeat = number
            # A new server each time, so that no tool answers from a cache of the last repetition.
            async with stage() as opened:
                scores += await run(replace(plan, report=report), opened, number)
    return scores


if __name__ == "__main__":
    load_dotenv(Path(".env"))
    sys.exit(main())
