"""Traces: a span per request, run and tool call, if the environment enables them (C55)."""

import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from callsheet.server.app import create_app
from callsheet.server.settings.settings import Settings
from callsheet.server.telemetry import tracing as telemetry
from callsheet.server.telemetry.telemetry import Telemetry
from callsheet.server.telemetry.tracing import Tracing
from callsheet.state.errors import Invalid
from tests.doubles.command import environment
from tests.doubles.served import app_client, generate_ad

ROOT = Path(__file__).parents[2]
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(exporter: InMemorySpanExporter) -> Tracing:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Tracing(provider)


@pytest.fixture
def observer(tracing: Tracing) -> Telemetry:
    return Telemetry(tracing)


def span_named(exporter: InMemorySpanExporter, name: str) -> ReadableSpan:
    (span,) = [each for each in exporter.get_finished_spans() if each.name == name]
    return span


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_request_its_run_and_its_tool_calls_are_one_trace(
    valkey_url: str, observer: Telemetry, exporter: InMemorySpanExporter
) -> None:
    """C55."""
    app = create_app(Settings(redis_url=valkey_url))
    app.state.observer.tracing = observer.tracing
    async with app.router.lifespan_context(app), app_client(app) as client:
        await generate_ad(client)
        await client.get("/api/ads/none", headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    request, call = (
        span_named(exporter, "POST /api/ai/generate"),
        span_named(exporter, "execute_tool search_voices"),
    )
    assert attributes(request)["http.response.status_code"] == 200
    assert attributes(request)["http.route"] == "/api/ai/generate"
    assert request.kind.name == "SERVER"
    run = span_named(exporter, "run ad_creation")
    assert attributes(run)["callsheet.run_status"] == "success"
    assert run.context is not None
    assert request.context is not None
    assert call.context is not None
    assert {span.context.trace_id for span in (request, run, call)} == {request.context.trace_id}
    assert attributes(call)["gen_ai.tool.name"] == "search_voices"
    assert attributes(call)["callsheet.outcome"] == "ok"
    traced = span_named(exporter, "GET /api/ads/{ad_id}")
    assert traced.context is not None
    assert traced.parent is not None
    assert (f"{traced.context.trace_id:032x}", f"{traced.parent.span_id:016x}") == (TRACE, PARENT)


def test_the_span_of_a_run_in_another_process_has_the_request_as_parent(
    observer: Telemetry, exporter: InMemorySpanExporter, tracing: Tracing
) -> None:
    with tracing.span("POST /threads/{thread_id}/runs", "SERVER"):
        traceparent = observer.traceparent()
    assert traceparent
    assert observer.traceparent() == ""
    with observer.observe_run(
        "agent", run_id="r-1", thread_id="t-1", owner="anna", parent=traceparent
    ) as set_status:
        set_status("interrupted")
    request, run = span_named(exporter, "POST /threads/{thread_id}/runs"), span_named(exporter, "run agent")
    assert run.parent is not None
    assert request.context is not None
    assert run.parent.span_id == request.context.span_id
    assert attributes(run) == {
        "callsheet.run_id": "r-1",
        "callsheet.thread_id": "t-1",
        "callsheet.graph": "agent",
        "callsheet.run_status": "interrupted",
    }


def test_the_span_of_a_failed_run_has_the_type_of_the_error_without_its_message(
    observer: Telemetry, exporter: InMemorySpanExporter
) -> None:
    with pytest.raises(ValueError), observer.observe_run("agent", run_id="r", thread_id="t", owner="o"):
        raise ValueError("the client's secret plan")
    run = span_named(exporter, "run agent")
    assert not run.status.is_ok
    assert attributes(run)["error.type"] == "ValueError"
    assert "secret" not in run.to_json()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, None),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, None),
    ],
)
def test_the_environment_chooses_the_exporter(variables: dict[str, str], expected: str | None) -> None:
    assert telemetry.exporter_name(variables) == expected


def test_an_unknown_exporter_is_refused_by_name() -> None:
    with pytest.raises(Invalid, match="OTEL_TRACES_EXPORTER is 'zipkin'") as caught:
        telemetry.exporter_name({"OTEL_TRACES_EXPORTER": "zipkin"})
    assert "otlp" in caught.value.remedy


def test_opentelemetry_is_not_imported_unless_it_is_enabled() -> None:
    code = (
        "import sys, callsheet.server.telemetry.tracing as t; assert t.create_tracing('1') is None;"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    assert _run_code(code) == "[]"


def test_a_missing_opentelemetry_is_refused_with_the_extra_to_install() -> None:
    code = (
        "import sys; sys.modules['opentelemetry.sdk.trace'] = None\n"
        "import callsheet.server.telemetry.tracing as t\n"
        "try: t.create_tracing('1')\n"
        "except Exception as error: print(type(error).__name__, error.remedy)"
    )
    output = _run_code(code, OTEL_TRACES_EXPORTER="console")
    assert output.startswith("Invalid")
    assert "callsheet[telemetry]" in output


@pytest.fixture
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """An OTLP endpoint: its URL, and the paths and bodies that it received."""
    received: list[tuple[str, bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_spans_are_sent_to_the_endpoint_of_the_environment(
    collector: tuple[str, list[tuple[str, bytes]]],
) -> None:
    url, received = collector
    code = (
        "import callsheet.server.telemetry.tracing as t\n"
        "tracing = t.create_tracing('1')\n"
        "with tracing.span('run harbour'): pass\n"
        "tracing.close()"
    )
    _run_code(code, OTEL_EXPORTER_OTLP_ENDPOINT=url)
    ((path, body),) = received
    assert path == "/v1/traces"
    assert b"run harbour" in body
    assert b"callsheet" in body


def _run_code(code: str, **variables: str) -> str:
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()
