"""Traces: a span for each request, run and tool call, where the environment asks for it (C55)."""

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


def named(exporter: InMemorySpanExporter, name: str) -> ReadableSpan:
    (found,) = [span for span in exporter.get_finished_spans() if span.name == name]
    return found


def about(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_request_a_run_and_its_tool_calls_are_one_trace(
    valkey_url: str, observer: Telemetry, exporter: InMemorySpanExporter
) -> None:
    """C55."""
    app = create_app(Settings(redis_url=valkey_url))
    app.state.observer.tracing = observer.tracing
    async with app.router.lifespan_context(app), app_client(app) as client:
        await generate_ad(client)
        await client.get("/api/ads/none", headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    request, call = named(exporter, "POST /api/ai/generate"), named(exporter, "execute_tool search_voices")
    assert about(request)["http.response.status_code"] == 200
    assert about(request)["http.route"] == "/api/ai/generate"
    assert request.kind.name == "SERVER"
    run = named(exporter, "run ad_creation")
    assert about(run)["callsheet.run_status"] == "success"
    assert run.context is not None
    assert request.context is not None
    assert call.context is not None
    assert {one.context.trace_id for one in (request, run, call)} == {request.context.trace_id}
    assert about(call)["gen_ai.tool.name"] == "search_voices"
    assert about(call)["callsheet.outcome"] == "ok"
    asked = named(exporter, "GET /api/ads/{ad_id}")
    assert asked.context is not None
    assert asked.parent is not None
    assert (f"{asked.context.trace_id:032x}", f"{asked.parent.span_id:016x}") == (TRACE, PARENT)


def test_a_run_belongs_to_the_request_that_asked_for_it_wherever_it_happens(
    observer: Telemetry, exporter: InMemorySpanExporter, tracing: Tracing
) -> None:
    with tracing.span("POST /threads/{thread_id}/runs", "SERVER"):
        carried = observer.traceparent()
    assert carried
    assert observer.traceparent() == ""
    with observer.observe_run("agent", run_id="r-1", thread_id="t-1", owner="anna", parent=carried) as tell:
        tell("interrupted")
    asked, run = named(exporter, "POST /threads/{thread_id}/runs"), named(exporter, "run agent")
    assert run.parent is not None
    assert asked.context is not None
    assert run.parent.span_id == asked.context.span_id
    assert about(run) == {
        "callsheet.run_id": "r-1",
        "callsheet.thread_id": "t-1",
        "callsheet.graph": "agent",
        "callsheet.run_status": "interrupted",
    }


def test_a_failure_is_told_by_its_kind_and_never_in_its_words(
    observer: Telemetry, exporter: InMemorySpanExporter
) -> None:
    with pytest.raises(ValueError), observer.observe_run("agent", run_id="r", thread_id="t", owner="o"):
        raise ValueError("the client's secret plan")
    run = named(exporter, "run agent")
    assert not run.status.is_ok
    assert about(run)["error.type"] == "ValueError"
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
def test_the_environment_turns_it_on(variables: dict[str, str], expected: str | None) -> None:
    assert telemetry.exporter_name(variables) == expected


def test_an_exporter_there_is_not_is_refused_by_name() -> None:
    with pytest.raises(Invalid, match="OTEL_TRACES_EXPORTER is 'zipkin'") as refused:
        telemetry.exporter_name({"OTEL_TRACES_EXPORTER": "zipkin"})
    assert "otlp" in refused.value.remedy


def test_without_being_asked_for_nothing_of_it_is_imported() -> None:
    code = (
        "import sys, callsheet.server.telemetry.tracing as t; assert t.create_tracing('1') is None;"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    assert _run(code) == "[]"


def test_what_is_not_installed_is_named_with_how_to_install_it() -> None:
    code = (
        "import sys; sys.modules['opentelemetry.sdk.trace'] = None\n"
        "import callsheet.server.telemetry.tracing as t\n"
        "try: t.create_tracing('1')\n"
        "except Exception as error: print(type(error).__name__, error.remedy)"
    )
    said = _run(code, OTEL_TRACES_EXPORTER="console")
    assert said.startswith("Invalid")
    assert "callsheet[telemetry]" in said


@pytest.fixture
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """An OTLP endpoint, and what it got."""
    got: list[tuple[str, bytes]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", got
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_spans_reach_the_endpoint_the_environment_names(
    collector: tuple[str, list[tuple[str, bytes]]],
) -> None:
    url, got = collector
    code = (
        "import callsheet.server.telemetry.tracing as t\n"
        "tracing = t.create_tracing('1')\n"
        "with tracing.span('run harbour'): pass\n"
        "tracing.close()"
    )
    _run(code, OTEL_EXPORTER_OTLP_ENDPOINT=url)
    ((path, body),) = got
    assert path == "/v1/traces"
    assert b"run harbour" in body
    assert b"callsheet" in body


def _run(code: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=ROOT,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
