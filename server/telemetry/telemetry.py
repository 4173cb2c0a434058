"""Telemetry of requests, runs and tool calls: metrics, traces and log fields.

Each process counts its metrics for itself; shared values are read from storage on request. Names contain
units, and no label has a value that a caller invents.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from callsheet.server.telemetry import logs
from callsheet.server.telemetry.tracing import TraceSpan, Tracing
from callsheet.state.errors import CallsheetError, Unavailable
from callsheet.storage.redis.health import ServerHealth
from callsheet.storage.spending import ModelUsage
from callsheet.storage.tool_admission import Breaker, State

if TYPE_CHECKING:
    from callsheet.tools.call import Scope as CallScope

MEDIA_TYPE: Final = CONTENT_TYPE_LATEST
_STATES: Final[Mapping[State, int]] = {"closed": 0, "half-open": 1, "open": 2}
_REQUEST_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_LAG_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_RUN_S: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600)


class Metrics:
    """The metrics of one process."""

    def __init__(self, version: str) -> None:
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._requests = self._counter("http_requests", "Requests", "method", "route", "status")
        self._request_s = self._seconds(
            "http_request",
            "Time to the end of the reply, of a stream to its start",
            _REQUEST_S,
            "method",
            "route",
        )
        self.streams = self._gauge("http_streams_open", "Open streams")
        self._runs = self._counter("runs_ended", "Attempts at runs that ended here", "graph", "status")
        self._run_s = self._seconds("run", "From a run's start here to its end", _RUN_S, "graph")
        self.running = self._gauge("runs_here", "Runs executing in this process")
        self._open = self._gauge("runs_open", "Pending and running runs, over all processes", "status")
        self._waiting = self._gauge("runs_waiting", "Runs that wait for a process, over all processes")
        self._oldest = self._gauge("runs_oldest_wait_seconds", "Waiting time of the oldest of them")
        self._wait_s = self._seconds(
            "run_wait", "From the request, or its due time, to the start", _RUN_S, "graph"
        )
        self._refused = self._counter("runs_refused", "Runs refused because too many wait", "bound")
        self._retries = self._counter("run_retries", "Attempts at runs after the first", "graph")
        self._failures = self._counter("run_failures", "Runs that failed, by kind of error", "graph", "kind")
        self._calls = self._counter("tool_calls", "Tool calls", "tool", "outcome")
        self._call_s = self._seconds("tool_call", "A tool call, its waiting included", _RUN_S, "tool")
        self._look_ups = self._counter("tool_look_ups", "Cacheable look-ups", "tool", "cache")
        self._add_model_metrics()
        self._add_loop_metrics()
        self._breakers = self._gauge("tool_breaker", "0 closed, 1 half-open, 2 open for some owner", "tool")
        self._storage_up = self._gauge("storage_up", "1 if Redis answers and accepts writes")
        self._storage_s = self._gauge("storage_answer_seconds", "Latency of Redis")
        self._storage_bytes = self._gauge("storage_memory_bytes", "Memory used by Redis")
        self._storage_limit = self._gauge("storage_memory_limit_bytes", "Memory limit of Redis, 0 for none")
        self._gauge("build", "Version", "version").labels(version).set(1)

    def _add_model_metrics(self) -> None:
        self._model_calls = self._counter("model_calls", "Calls of models", "model", "outcome")
        self._model_s = self._seconds("model_call", "A model's answer", _RUN_S, "model")
        self._tokens = self._counter("model_tokens", "Tokens of models", "model", "kind")
        self._dollars = self._counter("model_cost_usd", "Cost of models with a known price", "model")
        self._over_budget = self._counter(
            "budget_refusals", "Model calls that were not sent because of a budget", "budget"
        )
        self._first_words_s = self._seconds(
            "run_first_token", "From an attempt's start to the first words of a model", _RUN_S, "graph"
        )

    def _add_loop_metrics(self) -> None:
        self._loop_lag_s = self._seconds("event_loop_lag", "Time by which the event loop is late", _LAG_S)
        self._blocked = self._counter(
            "event_loop_blocked_seconds",
            "Time for which calls of a graph, or of other code, blocked it",
            "graph",
        )

    def count_request(self, method: str, route: str, status: int, took_s: float) -> None:
        """Count an answered request; `route` is the template of its path."""
        self._requests.labels(method, route, str(status)).inc()
        self._request_s.labels(method, route).observe(took_s)

    def count_run(self, graph: str, status: str, took_s: float) -> None:
        """Count an attempt that ended here with its run's status, or `handed_over`."""
        self._runs.labels(graph, status).inc()
        self._run_s.labels(graph).observe(took_s)

    def count_attempt(self, graph: str, number: int, waited_s: float) -> None:
        """Count the start of an attempt; `waited_s` is the time since the request."""
        if number == 1:
            self._wait_s.labels(graph).observe(waited_s)
        else:
            self._retries.labels(graph).inc()

    def count_failure(self, graph: str, error: Exception) -> None:
        """Count a failed run by the kind of its error, `other` for one that is not ours."""
        kind = type(error).__name__ if isinstance(error, CallsheetError | TimeoutError) else "other"
        self._failures.labels(graph, kind).inc()

    def count_refusal(self, bound: str) -> None:
        """Count a run that was refused because too many wait: of its `owner`, or of `all`."""
        self._refused.labels(bound).inc()

    def count_call(self, tool: str, outcome: str, took_s: float) -> None:
        """Count a tool call; its outcome is `ok`, one of the six errors, or `aborted`."""
        self._calls.labels(tool, outcome).inc()
        self._call_s.labels(tool).observe(took_s)

    def count_cache_lookup(self, tool: str, *, hit: bool) -> None:
        """Count a cacheable look-up."""
        self._look_ups.labels(tool, "hit" if hit else "miss").inc()

    def count_model_call(self, model: str, outcome: str, took_s: float, usage: ModelUsage) -> None:
        """Count a call of a model; a model without a known price is `other`."""
        self._model_calls.labels(model, outcome).inc()
        self._model_s.labels(model).observe(took_s)
        for kind in ("input", "cached", "output"):
            self._tokens.labels(model, kind).inc(getattr(usage, kind))
        self._dollars.labels(model).inc(usage.cost)

    def count_budget_refusal(self, budget: str) -> None:
        """Count a model call that was not sent because of the budget of a `turn`, `thread` or `day`."""
        self._over_budget.labels(budget).inc()

    def observe_loop_lag(self, lag_s: float) -> None:
        """Observe the time by which the event loop ran too late."""
        self._loop_lag_s.observe(lag_s)

    def count_blocked_loop(self, graph: str, took_s: float) -> None:
        """Count a call that blocked the event loop, of a graph or of other code."""
        self._blocked.labels(graph or "none").inc(took_s)

    def observe_first_words(self, graph: str, took_s: float) -> None:
        """Observe the time to the first words of a model in an attempt."""
        self._first_words_s.labels(graph).observe(took_s)

    def exposition(
        self,
        server_health: ServerHealth | None,
        tools: Mapping[str, Breaker],
        *,
        up: bool,
        runs: Mapping[str, int],
        waiting: tuple[int, float] | None,
    ) -> bytes:
        """Return all metrics as text; `server_health` is None if storage does not answer.

        `tools` has the breakers by tool, `runs` the open runs by status over all processes; empty if unknown.
        `waiting` is the number of waiting runs and the seconds that the oldest waits. The figure of what is
        unknown is NaN, with which no alert is true.
        """
        self._open.clear()
        many_wait, oldest_s = waiting or (math.nan, math.nan)
        self._waiting.set(many_wait)
        self._oldest.set(oldest_s)
        for status, many in runs.items():
            self._open.labels(status).set(many)
        self._breakers.clear()
        for name, breaker in tools.items():
            self._breakers.labels(name).set(_STATES[breaker.state])
        self._storage_up.set(up)
        self._storage_s.set(server_health.latency_s if server_health else math.nan)
        self._storage_bytes.set(server_health.used_bytes if server_health else math.nan)
        self._storage_limit.set(server_health.limit_bytes if server_health else math.nan)
        return generate_latest(self.registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"callsheet_{name}_total", about, labels, registry=self.registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Any:
        return Gauge(f"callsheet_{name}", about, labels, registry=self.registry)

    def _seconds(self, name: str, about: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"callsheet_{name}_seconds", about, labels, buckets=buckets, registry=self.registry)


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

    def count_attempt(self, graph: str, number: int, waited_s: float) -> None:
        """Count the start of an attempt at a run."""
        if self.metrics:
            self.metrics.count_attempt(graph, number, waited_s)

    def count_failure(self, graph: str, error: Exception | None) -> None:
        """Count a run that an error ended; None for one that has none."""
        if self.metrics and error is not None:
            self.metrics.count_failure(graph, error)

    def count_refusal(self, bound: str) -> None:
        """Count a run that was refused because too many wait."""
        if self.metrics:
            self.metrics.count_refusal(bound)

    def count_model_call(self, model: str, outcome: str, took_s: float, usage: "ModelUsage") -> None:
        """Count a call of a model."""
        if self.metrics:
            self.metrics.count_model_call(model, outcome, took_s, usage)

    def count_budget_refusal(self, budget: str) -> None:
        """Count a model call that was not sent because of a budget."""
        if self.metrics:
            self.metrics.count_budget_refusal(budget)

    def observe_loop_lag(self, lag_s: float) -> None:
        """Observe the time by which the event loop ran too late."""
        if self.metrics:
            self.metrics.observe_loop_lag(lag_s)

    def count_blocked_loop(self, graph: str, took_s: float) -> None:
        """Count a call that blocked the event loop."""
        if self.metrics:
            self.metrics.count_blocked_loop(graph, took_s)

    def observe_first_words(self, graph: str, took_s: float) -> None:
        """Observe the time to the first words of a model."""
        if self.metrics:
            self.metrics.observe_first_words(graph, took_s)

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


@asynccontextmanager
async def collect_metrics(observer: Telemetry, version: str) -> AsyncIterator[None]:
    """Collect metrics for the length of the `with`; then send the traces."""
    observer.metrics = Metrics(version)
    try:
        yield
    finally:
        if observer.tracing:
            await asyncio.to_thread(observer.tracing.close)
