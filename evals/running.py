"""Runs tasks against a model, several at once, and scores them."""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from callsheet.state.owners import LOCAL
from callsheet.storage import Storage, connect, spending, use
from callsheet.storage.embedded import server as embedded
from callsheet.storage.spending import Account
from callsheet.tools import REGISTRY
from callsheet.tools.guard.tool_environment import ToolEnvironment, use_tool_environment
from callsheet.tools.policy import ToolOptions, ToolPolicy
from evals.session import Models
from evals.tasks import Task
from evals.turns import EvalTurn, score_turn
from evals.workflows import KITS

MAX_LINE: Final = 1_000
"""Characters of a line of a transcript."""


@dataclass(frozen=True)
class Score:
    """The result of one task."""

    workflow: str
    id: str
    repeat: int = 1
    failures: Mapping[str, str] = field(default_factory=dict)
    """The failed checks, by turn and check."""
    rubrics: Mapping[str, str] = field(default_factory=dict)
    """Statements that only a judge can decide and none has, by turn and check."""
    calls: int = 0
    """Model calls, those of tools included."""
    input: int = 0
    cached: int = 0
    output: int = 0
    cost: float | None = None
    """US dollars; None if the price is unknown."""
    seconds: float = 0.0
    request: str = ""
    """The person's last message."""
    product: str = ""
    """The text for the judge."""
    quality: int | None = None
    """The judge's points, 1 to 5."""
    transcript: Sequence[str] = ()
    """The messages and calls, where a check failed or a judge is needed."""

    @property
    def ok(self) -> bool:
        """True if every check holds; False too while a judge is needed."""
        return not self.failures and not self.rubrics

    @property
    def is_open(self) -> bool:
        """True if no check failed, and a judge is needed for the rest."""
        return not self.failures and bool(self.rubrics)


@dataclass(frozen=True)
class EvalPlan:
    """Tasks to run, and how."""

    tasks: Sequence[Task]
    model_of: Callable[[Task], str]
    """The model's name as the product takes it, `provider/model`."""
    history_of: Callable[[Task], str] = lambda _: ""
    """The name of the model whose endpoint has the given answers of a task's earlier turns."""
    at_once: int = 4
    after: Callable[[Task], Awaitable[Mapping[str, str]]] | None = None
    """Called after each task; returns further failures."""
    report: Callable[[Score], None] = lambda _: None
    """Called with each score."""


async def run(plan: EvalPlan, opened: Storage, repeat: int = 1) -> list[Score]:
    """Return the scores of a plan's tasks, in their order."""
    slots = asyncio.Semaphore(plan.at_once)

    async def one(task: Task) -> Score:
        async with slots:
            score = await score_task(task, opened, Models(plan.model_of(task), plan.history_of(task)))
            if plan.after:
                score = replace(score, failures={**score.failures, **await plan.after(task)})
            score = replace(score, repeat=repeat)
            plan.report(score)
            return score

    return await asyncio.gather(*(one(task) for task in plan.tasks))


async def score_task(task: Task, opened: Storage, models: Models) -> Score:
    """Play a task to its end and return its score; an error that ends it is a failure.

    What history costs is not counted.
    """
    # The same id in every run: it is part of the requests, by which cached answers are found.
    kit, thread = KITS[task.workflow], f"eval-{task.workflow}-{task.id}"
    session = kit.session(opened, task, thread, models)
    failed: dict[str, str] = {}
    rubrics: dict[str, str] = {}
    product = ""
    start_s = time.monotonic()
    transcript: list[str] = []
    try:
        conversation = await session.conversation()
        for number, request in enumerate(task.requests, 1):
            turn = await conversation.play(request)
            transcript += transcript_of(turn)
            place = f"turn {number}: " if len(task.requests) > 1 else ""
            outcome = score_turn(kit.checks, turn)
            failed |= {f"{place}{name}": text for name, text in outcome.failures.items()}
            rubrics |= {f"{place}{name}": text for name, text in outcome.rubrics.items()}
            product = kit.product(turn)
    except Exception as error:
        failed["error"] = f"{type(error).__name__}: {error}"[:500]
    return Score(
        workflow=task.workflow,
        id=task.id,
        failures=failed,
        rubrics=rubrics,
        **await _usage(opened, thread, models),
        seconds=round(time.monotonic() - start_s, 2),
        request=task.requests[-1].say or str(task.setup)[:2000],
        product=product,
        transcript=transcript if failed or rubrics else (),
    )


async def _usage(opened: Storage, thread: str, models: Models) -> dict[str, Any]:
    """Return the fields of a thread's use, without that of the endpoint that gave its history."""
    by_model = await spending.read_usage(opened, Account(LOCAL, thread, ""), "thread")
    given = models.history.partition("/")[2]
    used = spending.total({name: one for name, one in by_model.items() if name != given})
    return {
        "calls": used.calls,
        "input": used.input,
        "cached": used.cached,
        "output": used.output,
        "cost": None if used.unpriced else round(used.cost, 6),
    }


def transcript_of(turn: EvalTurn[Any]) -> Iterator[str]:
    """Yield the messages and calls of a turn, each shortened."""
    yield f"person: {turn.messages[-1] if turn.messages else '(the brief)'}"[:MAX_LINE]
    for call in turn.calls:
        yield f"model calls {call.name}: {dict(call.args)}"[:MAX_LINE]
        if "error" in call.result:
            yield f"refused: {call.result['error']}"[:MAX_LINE]
    yield f"model: {turn.reply}"[:MAX_LINE]


@asynccontextmanager
async def stage(url: str = "") -> AsyncIterator[Storage]:
    """Yield the current storage: at a URL, else on an embedded server with a new data directory."""
    with _uncounted_tools(), _server(url) as address:
        async with connect(address) as opened:
            use(opened)
            try:
                yield opened
            finally:
                use(None)


@contextmanager
def _server(url: str) -> Iterator[str]:
    if url:
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="callsheet-evals-", ignore_cleanup_errors=True) as folder:
        lease = embedded.ensure_running(Path(folder))
        try:
            yield f"{lease.url}?db=0"
        finally:
            lease.close()


@contextmanager
def _uncounted_tools() -> Iterator[None]:
    """Count no calls, since all tasks have one owner; time-outs and breakers are the product's own."""
    options = ToolOptions(calls=0)
    with use_tool_environment(ToolEnvironment(policy=ToolPolicy(dict.fromkeys(REGISTRY, options)))):
        yield


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a time; the product reads its providers' settings from there."""
    before: dict[str, Any] = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
