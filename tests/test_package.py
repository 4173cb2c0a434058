"""What is installed: our packages alone, under names nobody else uses."""

import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def ours():
    return set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"][
            "packages"
        ]
    )


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


def test_the_wheel_carries_our_packages_and_no_tests(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist() if ".dist-info" not in name}
    assert tops == ours()


def test_the_wheel_carries_the_data_files_and_the_licence(wheel):
    names = wheel.namelist()
    assert any(name.startswith("tools/catalogue/voices") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.parametrize(
    "lock", ["requirements.txt", "requirements-dev.txt", "requirements-peers.txt", "requirements-fuzz.txt"]
)
def test_a_lock_pins_by_hash_and_names_no_host(lock):
    text = (ROOT / lock).read_text()
    assert "://" not in text
    assert "index-url" not in text
    pinned = [line for line in text.splitlines() if "==" in line and not line.startswith(("#", " "))]
    assert len(pinned) > 5
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
