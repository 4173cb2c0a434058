"""A checkout's modules are the files of its tree, with symbolic links and without them."""

import subprocess
import sys
import zipfile

import httpx
import pytest

from tests.doubles.command import BRIEF, environment
from tests.doubles.redis_server import free_port
from tests.doubles.waiting import until
from tests.meta.syntax import ROOT

LAYERS = ("graphs", "nodes", "providers", "server", "state", "storage", "tools")
PROJECT = ("pyproject.toml", "build_wheel.py", "README.md", "LICENSE", "langgraph.json")
COPIED = (*PROJECT, "callsheet", *LAYERS)
IMPORT_ALL = """
import importlib, pkgutil, sys
from pathlib import Path
root = Path.cwd()
for layer in sys.argv[1:]:
    package = importlib.import_module(f"callsheet.{layer}")
    for module in pkgutil.walk_packages(package.__path__, f"callsheet.{layer}."):
        if not module.name.endswith(".__main__"):
            importlib.import_module(module.name)
for name, module in list(sys.modules.items()):
    if name.startswith("callsheet."):
        file = Path(module.__file__).relative_to(root)
        assert file.with_suffix("").parts[0] == name.split(".")[1], (name, file)
print(sum(name.startswith("callsheet.") for name in sys.modules))
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of the checkout as Git creates it on a system without symbolic links: each is a text file."""
    folder = tmp_path_factory.mktemp("clone")
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *COPIED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    links = 0
    for name in filter(None, listing.stdout.split("\0")):
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.write_text(str(source.readlink()))
            links += 1
        elif source.exists():
            target.write_bytes(source.read_bytes())
    assert links == len(LAYERS) + 1
    return folder


def environ(clone):
    """Return the environment of a process in the clone; its bytecode is kept for the next process."""
    return environment(PYTHONPATH=str(clone), PYTHONDONTWRITEBYTECODE="")


def test_a_breakpoint_in_a_file_of_the_checkout_stops(tmp_path):
    file = ROOT / "state/languages.py"
    lines = file.read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if line.startswith("def "))
    program = tmp_path / "program.py"
    program.write_text("import callsheet.state.languages\n")
    commands = [f"break {file}:{number}", "continue", "p 'stopped in ' + __name__", "quit"]
    debugger = [
        sys.executable,
        "-m",
        "pdb",
        *(word for command in commands for word in ("-c", command)),
        str(program),
    ]
    process = subprocess.run(
        debugger, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False, timeout=50
    )
    assert "stopped in callsheet.state.languages" in process.stdout, process.stdout + process.stderr


def test_an_installed_package_ignores_a_state_folder_of_the_project_around_it(tmp_path):
    for folder in ("callsheet/state", "state"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "callsheet/__init__.py").write_bytes((ROOT / "callsheet/__init__.py").read_bytes())
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "shop"\n')
    program = "import callsheet.state; print(callsheet.state.__file__)"
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=50
    )
    assert process.stdout.strip() == str(tmp_path / "callsheet/state/__init__.py")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_clone_without_links_imports_every_module_of_every_layer(clone):
    process = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *LAYERS],
        cwd=clone,
        env=environ(clone),
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert process.returncode == 0, process.stderr
    assert int(process.stdout) > 300


@pytest.mark.slow
def test_a_clone_without_links_builds_a_wheel_with_every_module(clone, tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=clone, capture_output=True, check=True, timeout=50)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        packaged = {name.removeprefix("callsheet/") for name in wheel.namelist() if ".dist-info" not in name}
    modules = {str(file.relative_to(clone)) for name in LAYERS for file in (clone / name).rglob("*.py")}
    data = {"state/prices.json", "tools/ads/catalogue/voices.json", "langgraph.json", "py.typed"}
    assert modules | data | {"__init__.py", "__main__.py"} <= packaged


@pytest.mark.slow
def test_a_clone_without_links_writes_an_ad_and_serves(clone, tmp_path):
    variables = environ(clone) | {"CALLSHEET_DATA_DIR": str(tmp_path / "data")}
    command = [sys.executable, "-m", "callsheet"]
    port = free_port()
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            [*command, "serve", "--port", str(port)], cwd=clone, env=variables, stdout=log, stderr=log
        ) as server,
    ):
        try:
            until(
                lambda: answers(f"http://127.0.0.1:{port}/ok") or server.poll() is not None,
                "the server answers",
                patience_s=40,
            )
            assert server.poll() is None, (tmp_path / "log").read_text()
            ad = subprocess.run(
                [*command, "ad", BRIEF],
                cwd=clone,
                env=variables,
                capture_output=True,
                text=True,
                check=False,
                timeout=50,
            )
            assert "Ready to review: voices v1" in ad.stdout, ad.stdout + ad.stderr
        finally:
            server.terminate()
            server.wait(20)


def answers(url):
    try:
        return httpx.get(url).status_code == 200
    except httpx.TransportError:
        return False
