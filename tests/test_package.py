"""What is installed: our packages alone, under names nobody else uses."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from importlib.metadata import distribution, distributions, packages_distributions

import pytest

from tests.syntax import ROOT, statements


def ours():
    return set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
            "packages"
        ]
    )


@pytest.mark.slow
def test_no_installed_dependency_owns_one_of_our_top_level_names():
    taken = {}
    for found in distributions():
        if found.name.casefold() == "callsheet":
            continue
        tops = {str(file).split("/", maxsplit=1)[0] for file in found.files or []}
        names = tops | {top.removesuffix(".py") for top in tops}
        if clash := names & ours():
            taken[found.name] = clash
    assert taken == {}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return zipfile.ZipFile(next(folder.glob("*.whl")))


@pytest.mark.slow
def test_the_wheel_carries_our_packages_and_no_tests(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist() if ".dist-info" not in name}
    assert tops == ours()


@pytest.mark.slow
def test_the_wheel_carries_the_data_files_and_the_licence(wheel):
    names = wheel.namelist()
    assert any(name.startswith("tools/catalogue/voices") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.parametrize(
    "lock",
    [
        "requirements.txt",
        "requirements-dev.txt",
        "requirements-peers.txt",
        "requirements-fuzz.txt",
        "requirements-install.txt",
    ],
)
def test_a_lock_pins_by_hash_and_names_no_host(lock):
    text = (ROOT / lock).read_text()
    assert "://" not in text
    assert "index-url" not in text
    pinned = [line for line in text.splitlines() if "==" in line and not line.startswith(("#", " "))]
    assert pinned
    assert all(line.rstrip().endswith("\\") for line in pinned), "a pin without a hash"


def test_every_locked_dependency_of_ours_is_in_the_lock():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = {
        line.split("==")[0].split("[")[0].casefold()
        for line in (ROOT / "requirements.txt").read_text().splitlines()
        if "==" in line
    }
    for wanted in project["dependencies"]:
        name = wanted.split(">")[0].split("[")[0].casefold()
        assert name in locked, f"{name} is not locked; run: make lock"


ELSEWHERE = {
    "schemathesis": "schemathesis",
    "langgraph_checkpoint_plainredis": "langgraph-checkpoint-plainredis",
    "langgraph.checkpoint.hotkv": "langgraph-checkpoint-hotkv",
    "langgraph.checkpoint.sqlite": "langgraph-checkpoint-sqlite",
}
"""What is imported where it is installed, and the distribution it comes from."""


def normal(name):
    return re.sub(r"[-_.]+", "-", name).casefold()


def wanted(*names):
    """The distributions that pyproject.toml asks for: always, by extras, by groups."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lists = {**about["project"]["optional-dependencies"], **about["dependency-groups"]}
    asked = about["project"]["dependencies"] + [line for name in names for line in lists[name]]
    return {normal(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in asked}


def imported(package):
    """Every module of others that a package imports, and a file that does."""
    known = sys.stdlib_module_names | ours() | {"tests", "bench"}
    for file in (ROOT / package).rglob("*.py"):
        for node in statements(file):
            yield from ((name, file) for name in named(node) if name.split(".")[0] not in known)


def named(node):
    if isinstance(node, ast.Import):
        return [one.name for one in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 else []


@cache
def owners():
    """By top-level name, the distributions that have a part of it."""
    return packages_distributions()


@cache
def places(name):
    """The folders of a distribution, and its files without their ending."""
    files = [str(file) for file in distribution(name).files or ()]
    return {place for file in files for place in (file.rpartition("/")[0], file.rpartition(".")[0])}


@cache
def origin(module):
    """The distribution a module comes from."""
    for name, found in ELSEWHERE.items():
        if module == name or module.startswith(f"{name}."):
            return found
    known = set(owners()[module.split(".")[0]])
    if len(known) > 1:
        known = {name for name in known if module.replace(".", "/") in places(name)}
    assert len(known) == 1, (module, known)
    return normal(known.pop())


@pytest.mark.parametrize("package", sorted(ours()))
def test_whatever_we_import_is_a_dependency_of_ours(package):
    declared = wanted("telemetry", "jwks")
    undeclared = {(name, file.name) for name, file in imported(package) if origin(name) not in declared}
    assert undeclared == set(), "name what it comes from in pyproject.toml, and say why in DESIGN.md"


@pytest.mark.slow
@pytest.mark.parametrize("package", ["tests", "bench"])
def test_whatever_tests_and_benches_import_is_a_dependency_of_theirs(package):
    declared = wanted("dev", "peers", "fuzz")
    undeclared = {(name, file.name) for name, file in imported(package) if origin(name) not in declared}
    assert undeclared == set(), "name what it comes from in pyproject.toml"
