"""Counts, traces and logs of requests."""

import asyncio
import logging
import re
import time
import uuid
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callsheet.server.http import errors
from callsheet.server.http.auth import get_caller
from callsheet.server.http.policy import OnOutage, get_policy
from callsheet.server.telemetry import logs
from callsheet.server.telemetry.telemetry import Telemetry
from callsheet.server.telemetry.tracing import TraceSpan
from callsheet.state.errors import Broken

REQUEST_ID: Final = "X-Request-Id"
UNMATCHED: Final = "unmatched"
"""Route label of every unknown path, so that callers cannot invent labels."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_ID: Final = re.compile(r"[\w.-]{1,64}")
_SERVER_FAULT: Final = 500
_CALLER_GONE: Final = 499
"""Status counted for a caller who closed the connection before the reply; nobody receives it."""
_log = logging.getLogger(logs.REQUEST_LOGGER)


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
        observed = _ObservedRequest(scope, (receive, send), request_id, self._observer)
        with (
            logs.log_context(request_id=request_id),
            self._span(scope, headers) as span,
        ):
            try:
                await self._app(scope, observed.receive, observed.send)
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

    def __init__(
        self, scope: Scope, channel: tuple[Receive, Send], request_id: str, observer: Telemetry
    ) -> None:
        self._scope = scope
        self._receive, self._send = channel
        self._request_id = request_id
        self._metrics = observer.metrics
        self._observer = observer
        self._began_s = time.monotonic()
        self._took_s: float | None = None
        self._streaming = False
        self._is_caller_gone = False
        self.status = 0

    async def receive(self) -> Message:
        message = await self._receive()
        # Also while the body arrives, whose half is then refused as one that does not fit.
        self._is_caller_gone |= message["type"] == "http.disconnect"
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = _CALLER_GONE if self._is_caller_gone else message["status"]
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
        # The router stores the route in the scope of the request.
        method, route = _method(self._scope), getattr(self._scope.get("route"), "path", UNMATCHED)
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
        params = self._scope.get("path_params", {})
        fields = {name: str(params[name]) for name in ("thread_id", "run_id") if params.get(name)}
        fields |= _caller_fields(self._scope)
        took = {"status": self.status, "took_ms": round(total_s * 1000, 1)}
        _log.log(level, "%s %s %d", method, route, self.status, extra={**fields, **took, "route": route})


def _caller_fields(scope: Scope) -> dict[str, str]:
    """Return the request's owner, empty before authentication, and the id of its API key."""
    try:
        caller = get_caller(scope)
    except Broken:
        return {"owner": ""}
    return {"owner": caller.owner} | ({"key_id": caller.key_id} if caller.key_id else {})


def _method(scope: Scope) -> str:
    method = str(scope["method"])
    return method if method in _METHODS else "other"
