"""What a fresh interpreter has loaded at each step of a start (HOUSE 3): the heavy comes when it is used."""

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

def reached(step):
    loaded[step] = sorted(sys.modules)

from callsheet.server.cli.main import main
with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
    main(["--help"])
assert "serve" in said.getvalue()
reached("help")

from callsheet.server.telemetry import logs
logs.configure("info", "json")
reached("logs")

from callsheet.providers import with_key; from callsheet.providers import routing
routing.route(routing.Request(language="thai"), with_key({}))
reached("route")

import callsheet.server.app, callsheet.server.processes.serving
reached("server")

async def started():
    app = callsheet.server.app.create_app(callsheet.server.settings.settings.Settings(redis_url=sys.argv[1]))
    async with app.router.lifespan_context(app):
        reached("ready")
        with open(sys.argv[2], "w") as file:
            json.dump(loaded, file)
        # What is imported meanwhile is not waited for.
        os._exit(0)

import asyncio
asyncio.run(started())
"""


@pytest.fixture(scope="module")
def loaded(valkey_url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The modules that are there after each step."""
    file = tmp_path_factory.mktemp("imports") / "loaded.json"
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, valkey_url, str(file)],
        cwd=ROOT,
        env={**os.environ, "OPENAI_API_KEY": "sk-none"},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert file.exists(), done.stderr
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
    ids=["help", "logs that render", "vendors", "what answers nothing", "tokens", "what is slow"],
)
def test_nothing_heavy_is_loaded_before_it_is_used(
    loaded: dict[str, set[str]], step: str, heavy: set[str]
) -> None:
    """X5: help is answered at once, and the server answers before a vendor or LangGraph is imported."""
    assert not heavy & loaded[step]
