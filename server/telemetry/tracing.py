"""OpenTelemetry traces: a span for each request, run and tool call, if the environment enables them.

`OTEL_EXPORTER_OTLP_ENDPOINT` (or its `_TRACES_` form) or `OTEL_TRACES_EXPORTER` enables traces; all of
OpenTelemetry's variables apply. Otherwise nothing of it is imported.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from callsheet.state.errors import Invalid

EXPORTER_VARIABLES: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
)
"""Any of these enables traces."""
_EXPORTERS: Final[Mapping[str, tuple[str, str]]] = {
    "otlp": ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "OTLPSpanExporter"),
    "console": ("opentelemetry.sdk.trace.export", "ConsoleSpanExporter"),
}
_SERVICE: Final = "callsheet"


def exporter_name(environment: Mapping[str, str]) -> str | None:
    """Return the exporter in the environment, `otlp` or `console`; None for no tracing.

    Raises `Invalid` for an unknown exporter.
    """
    if environment.get("OTEL_SDK_DISABLED", "").casefold() == "true":
        return None
    if not any(environment.get(name) for name in EXPORTER_VARIABLES):
        return None
    chosen = environment.get("OTEL_TRACES_EXPORTER") or "otlp"
    if chosen == "none":
        return None
    if chosen not in _EXPORTERS:
        known = ", ".join([*_EXPORTERS, "none"])
        raise Invalid(f"OTEL_TRACES_EXPORTER is {chosen!r}, which is unknown", remedy=f"use one of: {known}")
    return chosen


def create_tracing(version: str) -> "Tracing | None":
    """Return the tracing that the environment enables, or None; raises `Invalid` if it is not available.

    The provider is set globally, so that libraries with traces of their own use it too.
    """
    loaded = load_exporter(os.environ)
    if loaded is None:
        return None
    sdk, export, exporter = loaded
    resources = import_module("opentelemetry.sdk.resources")
    about = {"service.name": os.environ.get("OTEL_SERVICE_NAME") or _SERVICE, "service.version": version}
    provider = sdk.TracerProvider(resource=resources.Resource.create(about))
    provider.add_span_processor(export.BatchSpanProcessor(exporter()))
    import_module("opentelemetry.trace").set_tracer_provider(provider)
    return Tracing(provider)


def load_exporter(environment: Mapping[str, str]) -> tuple[Any, Any, Any] | None:
    """Return OpenTelemetry's modules and the exporter's class; None for no tracing.

    Raises `Invalid` for an exporter that is unknown or not installed.
    """
    chosen = exporter_name(environment)
    if chosen is None:
        return None
    module, name = _EXPORTERS[chosen]
    try:
        return (
            import_module("opentelemetry.sdk.trace"),
            import_module("opentelemetry.sdk.trace.export"),
            getattr(import_module(module), name),
        )
    except ImportError as error:
        raise Invalid(
            f"tracing is enabled, but {error.name or str(error)!r} is not installed",
            remedy="install callsheet[telemetry] (docs/operations.md), or unset OTEL_EXPORTER_OTLP_ENDPOINT",
        ) from error


class Tracing:
    """Creates spans, each a child of the open one."""

    def __init__(self, provider: Any) -> None:
        """`provider` is an OpenTelemetry SDK `TracerProvider`."""
        self._provider = provider
        self._tracer = provider.get_tracer(_SERVICE)
        self._trace = import_module("opentelemetry.trace")
        context = import_module("opentelemetry.trace.propagation.tracecontext")
        self._propagator = context.TraceContextTextMapPropagator()

    @contextmanager
    def span(
        self, name: str, kind: str = "INTERNAL", *, parent: str = "", **about: str
    ) -> Iterator["TraceSpan"]:
        """Open a span for the length of the `with`; `parent` is a `traceparent`, empty for the open span.

        `kind` is one of OpenTelemetry's. An exception marks the span as failed and goes on.
        """
        context = self._propagator.extract({"traceparent": parent}) if parent else None
        with self._tracer.start_as_current_span(
            name,
            context,
            kind=self._trace.SpanKind[kind],
            attributes={key.replace("__", "."): value for key, value in about.items() if value},
            record_exception=False,
            set_status_on_exception=False,
        ) as opened:
            span = TraceSpan(opened, self._trace)
            try:
                yield span
            except BaseException as error:
                span.set_error(type(error).__name__)
                raise

    def parent(self) -> str:
        """Return the `traceparent` of the open span for another process; empty without one."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier.get("traceparent", "")

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()


class TraceSpan:
    """An open span."""

    def __init__(self, opened: Any, trace: Any) -> None:
        self._opened = opened
        self._trace = trace

    def rename(self, name: str) -> None:
        """Change its name."""
        self._opened.update_name(name)

    def set_attributes(self, **about: str | int) -> None:
        """Set attributes; a double underscore in a name becomes a dot."""
        for key, value in about.items():
            self._opened.set_attribute(key.replace("__", "."), value)

    def set_error(self, kind: str) -> None:
        """Mark it as failed by an error type alone: messages may contain private data."""
        self._opened.set_attribute("error.type", kind)
        self._opened.set_status(self._trace.StatusCode.ERROR)
