"""Telemetry of requests, runs and tool calls: metrics, traces and log fields."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from callsheet.server.telemetry import logs
from callsheet.server.telemetry.tracing import TraceSpan, Tracing
from callsheet.state.errors import Unavailable

if TYPE_CHECKING:
    from callsheet.server.telemetry.metrics import Metrics
    from callsheet.storage.spending import ModelUsage
    from callsheet.tools.call import Scope as CallScope

ReportOutcome = Callable[[str], None]
"""Receives an outcome."""


class Telemetry:
    """Metrics and traces of this process."""

    def __init__(self, tracing: Tracing | None = None) -> None:
        self.tracing = tracing
        self.metrics: Metrics | None = None
        """Set once the library is imported; nothing is counted before."""

    @contextmanager
    def observe_run(
        self, graph: str, *, run_id: str, thread_id: str, owner: str, parent: str = "", key_id: str = ""
    ) -> Iterator[ReportOutcome]:
        """Measure an attempt at a run; the context reports its outcome, or is handed over if it raises.

        `parent` is the `traceparent` of the request for the run, `key_id` the id of its API key.
        """
        about = {"callsheet__run_id": run_id, "callsheet__thread_id": thread_id, "callsheet__graph": graph}
        with (
            logs.log_context(run_id=run_id, thread_id=thread_id, graph=graph, owner=owner, key_id=key_id),
            self._span(f"run {graph}", "CONSUMER", parent=parent, **about) as span,
            self._running(),
            _Timer("success", partial(self._count_run, graph)) as tell,
        ):
            yield _report_to_span(tell, span, "callsheet__run_status")

    def call(self, tool: str, scope: "CallScope") -> AbstractContextManager[ReportOutcome]:
        """Measure a tool call; the context reports its outcome, `aborted` if it raises."""
        timed = _Timer("ok", partial(self._count_call, tool))
        return self._trace_call(timed, tool, scope) if self.tracing else timed

    @contextmanager
    def _trace_call(
        self, timed: AbstractContextManager[ReportOutcome], tool: str, scope: "CallScope"
    ) -> Iterator[ReportOutcome]:
        about = {
            "gen_ai__operation__name": "execute_tool",
            "gen_ai__tool__name": tool,
            "callsheet__thread_id": scope.thread,
        }
        with self._span(f"execute_tool {tool}", **about) as span, timed as tell:
            yield _report_to_span(tell, span, "callsheet__outcome")

    def count_lookup(self, tool: str, *, hit: bool) -> None:
        """Count a cacheable look-up."""
        if self.metrics:
            self.metrics.count_cache_lookup(tool, hit=hit)

    def count_model_call(self, model: str, outcome: str, took_s: float, usage: "ModelUsage") -> None:
        """Count a call of a model."""
        if self.metrics:
            self.metrics.count_model_call(model, outcome, took_s, usage)

    def require_metrics(self) -> "Metrics":
        """Return the metrics; raises `Unavailable` before they are loaded."""
        if self.metrics is None:
            raise Unavailable("the metrics are not loaded yet", remedy="try again in a second")
        return self.metrics

    def traceparent(self) -> str:
        """Return the `traceparent` that links a run's span to its request."""
        return self.tracing.parent() if self.tracing else ""

    def _count_run(self, graph: str, status: str, took_s: float) -> None:
        if self.metrics:
            self.metrics.count_run(graph, "handed_over" if status == "aborted" else status, took_s)

    def _count_call(self, tool: str, outcome: str, took_s: float) -> None:
        if self.metrics:
            self.metrics.count_call(tool, outcome, took_s)

    def _running(self) -> AbstractContextManager[Any]:
        return self.metrics.running.track_inprogress() if self.metrics else nullcontext()

    def _span(self, *args: Any, **about: Any) -> AbstractContextManager[TraceSpan | None]:
        return self.tracing.span(*args, **about) if self.tracing else nullcontext()


class _Timer(AbstractContextManager[ReportOutcome]):
    """Times a context and reports its outcome: the last one given, or `ending`; `aborted` if it raises."""

    def __init__(self, ending: str, on_end: Callable[[str, float], None]) -> None:
        self._ending = ending
        self._ended = on_end
        self._outcomes: list[str] = []
        self._began_s = 0.0

    def __enter__(self) -> ReportOutcome:
        self._began_s = time.monotonic()
        return self._outcomes.append

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        how = self._outcomes[-1] if self._outcomes else "aborted" if kind else self._ending
        self._ended(how, time.monotonic() - self._began_s)


def _report_to_span(tell: ReportOutcome, span: TraceSpan | None, name: str) -> ReportOutcome:
    def both(how: str) -> None:
        tell(how)
        if span:
            span.set_attributes(**{name: how})

    return both
