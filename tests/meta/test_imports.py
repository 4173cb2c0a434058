"""The modules that are imported after each step of a start: heavy ones only on first use."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PROGRAM = """
import contextlib, io, json, os, sys

loaded = {}

def record(step):
    loaded[step] = sorted(sys.modules)

from callsheet.server.cli.main import main
with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.suppress(SystemExit):
    main(["--help"])
assert "serve" in output.getvalue()
record("help")

from callsheet.server.telemetry import logs
logs.configure("info", "json")
record("logs")

from callsheet.providers import with_key; from callsheet.providers import routing
routing.route(routing.Request(language="thai"), with_key({}))
record("route")

import callsheet.server.app, callsheet.server.processes.serving
record("server")

async def start():
    app = callsheet.server.app.create_app(callsheet.server.settings.settings.Settings(redis_url=sys.argv[1]))
    async with app.router.lifespan_context(app):
        record("ready")
        with open(sys.argv[2], "w") as file:
            json.dump(loaded, file)
        # Do not wait for the imports in the background.
        os._exit(0)

import asyncio
asyncio.run(start())
"""


@pytest.fixture(scope="module")
def loaded_modules(valkey_url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The modules that are loaded after each step."""
    file = tmp_path_factory.mktemp("imports") / "loaded.json"
    process = subprocess.run(
        [sys.executable, "-c", _PROGRAM, valkey_url, str(file)],
        cwd=ROOT,
        env={**os.environ, "OPENAI_API_KEY": "sk-none"},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert file.exists(), process.stderr
    return {step: set(modules) for step, modules in json.loads(file.read_text()).items()}


VENDORS = {"langchain_openai", "openai", "callsheet.providers.openai"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "heavy"),
    [
        ("help", {"rich", "pydantic", "langgraph", "fastapi", "redis", "asyncio"}),
        ("logs", {"structlog"}),
        ("route", VENDORS),
        ("server", {"structlog", "prometheus_client", "docket"}),
        ("server", {"jwt", "cryptography.hazmat"}),
        ("ready", VENDORS | {"langgraph.pregel"}),
    ],
    ids=["help", "rendered logs", "vendors", "services", "tokens", "slow imports"],
)
def test_heavy_modules_are_not_imported_before_they_are_used(
    loaded_modules: dict[str, set[str]], step: str, heavy: set[str]
) -> None:
    """X5: help is shown at once, and the server answers before a vendor or LangGraph is imported."""
    assert not heavy & loaded_modules[step]
