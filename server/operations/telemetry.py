"""Telemetry of requests, runs and tool calls: metrics, traces and log fields."""

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callsheet.server.http import errors
from callsheet.server.http.auth import get_caller
from callsheet.server.http.policy import OnOutage, get_policy
from callsheet.server.operations import logs
from callsheet.server.operations.tracing import TraceSpan, Tracing
from callsheet.state.errors import Broken, Unavailable

if TYPE_CHECKING:
    from callsheet.server.operations.metrics import Metrics
    from callsheet.storage.spending import ModelUsage
    from callsheet.tools.call import Scope as CallScope

ReportOutcome = Callable[[str], None]
"""Receives an outcome."""
REQUEST_ID: Final = "X-Request-Id"
UNMATCHED: Final = "unmatched"
"""Route label of every unknown path, so that callers cannot invent labels."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_ID: Final = re.compile(r"[\w.-]{1,64}")
_ROUTE_KEY: Final = "callsheet.place"
_SERVER_FAULT: Final = 500
_CALLER_GONE: Final = 499
"""Status counted for a caller who closed the connection; nobody receives it."""
_log = logging.getLogger(logs.REQUEST_LOGGER)


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


class RouteCaptureMiddleware:
    """Stores the matched route for `TelemetryMiddleware`, which is further out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        try:
            with logs.log_context(owner=_owner(scope)):
                await self._app(scope, receive, send)
        finally:
            place = scope.get(_ROUTE_KEY)
            if place is not None:
                place["route"] = getattr(scope.get("route"), "path", UNMATCHED)
                place["params"] = scope.get("path_params", {})


class TelemetryMiddleware:
    """Counts, traces and logs every request, also rejected ones."""

    def __init__(self, app: ASGIApp, observer: Telemetry) -> None:
        self._app = app
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        sent_id = headers.get(REQUEST_ID, "")
        request_id = sent_id if _ID.fullmatch(sent_id) else uuid.uuid4().hex[:16]
        observed = _ObservedRequest(scope, send, request_id, self._observer)
        with (
            logs.log_context(request_id=request_id),
            self._span(scope, headers) as span,
        ):
            try:
                scope[_ROUTE_KEY] = observed.place
                await self._app(scope, receive, observed.send)
            except asyncio.CancelledError:
                observed.status = observed.status or _CALLER_GONE
                raise
            except Exception as error:
                # Handled here, so that the log has the error under the request's id.
                if not observed.status:
                    await errors.error_response(error)(scope, receive, observed.send)
                raise
            finally:
                observed.finish(span)

    def _span(self, scope: Scope, headers: Headers) -> AbstractContextManager[TraceSpan | None]:
        tracing = self._observer.tracing
        if not tracing:
            return nullcontext()
        method = _method(scope)
        return tracing.span(
            method,
            "SERVER",
            parent=headers.get("traceparent", ""),
            http__request__method=method,
            url__path=scope["path"][:200],
        )


class _ObservedRequest:
    """Observations of one request."""

    def __init__(self, scope: Scope, send: Send, request_id: str, observer: Telemetry) -> None:
        self._scope = scope
        self._send = send
        self._request_id = request_id
        self._metrics = observer.metrics
        self._observer = observer
        self._began_s = time.monotonic()
        self._took_s: float | None = None
        self._streaming = False
        self.place: MutableMapping[str, Any] = {"route": UNMATCHED, "params": {}}
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers[REQUEST_ID] = self._request_id
            if headers.get("content-type", "").startswith("text/event-stream"):
                self._stream()
        await self._send(message)

    def _stream(self) -> None:
        self._streaming = True
        self._took_s = time.monotonic() - self._began_s
        self._metrics = self._observer.metrics
        if self._metrics:
            self._metrics.streams.inc()

    def finish(self, span: TraceSpan | None) -> None:
        total_s = time.monotonic() - self._began_s
        # Nothing was sent: the framework will answer 500.
        self.status = self.status or _SERVER_FAULT
        if self._streaming and self._metrics:
            self._metrics.streams.dec()
        method, route = _method(self._scope), self.place["route"]
        metrics = self._observer.metrics
        if metrics:
            metrics.count_request(method, route, self.status, self._took_s or total_s)
        if span:
            span.rename(f"{method} {route}")
            span.set_attributes(http__route=route, http__response__status_code=self.status)
            if self.status >= _SERVER_FAULT:
                span.set_error(str(self.status))
        self._log(method, route, total_s)

    def _log(self, method: str, route: str, total_s: float) -> None:
        is_monitoring = get_policy(self._scope).on_outage is OnOutage.REPORT
        quiet = logging.DEBUG if is_monitoring else logging.INFO
        level = logging.WARNING if self.status >= _SERVER_FAULT else quiet
        if not _log.isEnabledFor(level):
            return
        known = {
            "thread_id": self.place["params"].get("thread_id"),
            "run_id": self.place["params"].get("run_id"),
        }
        fields = {name: str(value) for name, value in known.items() if value}
        fields["owner"] = _owner(self._scope)
        took = {"status": self.status, "took_ms": round(total_s * 1000, 1)}
        _log.log(level, "%s %s %d", method, route, self.status, extra={**fields, **took, "route": route})


def _owner(scope: Scope) -> str:
    """Return the request's owner; empty before authentication."""
    try:
        return get_caller(scope).owner
    except Broken:
        return ""


def _method(scope: Scope) -> str:
    method = str(scope["method"])
    return method if method in _METHODS else "other"
