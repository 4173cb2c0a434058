"""TypeScript types that are generated from the OpenAPI document, used by a client without a cast."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.doubles.documented import OURS, openapi_document
from tests.doubles.needs import need
from tests.doubles.wire_server import running_server
from tests.wire.javascript import installed_packages

SOURCES: Final = Path(__file__).parent / "typescript"
MAX_LINES: Final = 17_000
"""Lines of the generated types, which were 43,000 before errors were references."""

# The packages may have to be installed first.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def run(*command: str | Path, folder: Path) -> str:
    """Run a program and return its output."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder with the client, the packages, and types made of the document."""
    (tmp_path / "node_modules").symlink_to(installed_packages(SOURCES) / "node_modules")
    shutil.copy(SOURCES / "client.ts", tmp_path)
    shutil.copy(SOURCES / "package.json", tmp_path)
    (tmp_path / "openapi.json").write_text(json.dumps(openapi_document()))
    generator = tmp_path / "node_modules" / ".bin" / "openapi-typescript"
    run(generator, "openapi.json", "-o", "api.d.ts", folder=tmp_path)
    return tmp_path


def test_a_typed_client_makes_an_ad_and_reads_its_texts_without_a_cast(
    project: Path, valkey_url: str
) -> None:
    generated = (project / "api.d.ts").read_text()
    assert generated.count("\n") <= MAX_LINES
    compiler = project / "node_modules" / ".bin" / "tsc"
    options = ("--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--target", "es2022")
    modules = ("--module", "nodenext", "--lib", "es2022,dom")
    run(compiler, *options, *modules, "client.ts", folder=project)
    with running_server(valkey_url, OURS.graphs) as url:
        shown = json.loads(run(need("node"), "client.js", url, folder=project))
    assert {*shown["made"]} == {"voices", "music", "sfx"}
    assert shown["texts"]
    assert all(shown["texts"])
    assert len(shown["companies"]) == 2
