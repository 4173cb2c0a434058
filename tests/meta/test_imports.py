"""Modules that are imported after the help of the terminal, and after the start of a server."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_MODULES = "json.dump(sorted(sys.modules), sys.stdout)"
_HELP = f"""
import contextlib, io, json, sys
from callsheet.server.cli.main import main
with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
    main(["--help"])
assert "serve" in text.getvalue()
{_MODULES}
"""
_SERVER = f"""
import asyncio, json, sys
from callsheet.server.app import create_app
from callsheet.server.settings.settings import Settings

async def start():
    app = create_app(Settings(redis_url=sys.argv[1]))
    async with app.router.lifespan_context(app):
        {_MODULES}

asyncio.run(start())
"""
FRAMEWORKS = {"langgraph", "langchain_core", "fastapi", "redis"}
ON_FIRST_USE = {"openai", "langchain_openai", "numpy", "wordllama"}
"""Clients of vendors, and search engines."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "absent"), [(_HELP, FRAMEWORKS), (_SERVER, ON_FIRST_USE)], ids=["help", "a started server"]
)
def test_heavy_modules_are_imported_on_first_use(program: str, absent: set[str], valkey_url: str) -> None:
    """X5: help is shown at once, and a start imports no vendor and no search engine."""
    command = [sys.executable, "-c", program, valkey_url]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=50)
    assert process.returncode == 0, process.stderr
    assert not absent & set(json.loads(process.stdout))
