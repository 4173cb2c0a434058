"""docs/extending.md, followed literally in a copy of the project."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doubles.chat_double import ChatDouble, Say

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/extending.md").read_text()
BLOCK = re.compile(
    r"^(?P<edit>In )?`(?P<path>[^`]+)`:\n\n```(?P<kind>python|diff|markdown)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def sections():
    """Return the blocks of each section by its heading: (path, kind, text)."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]
    return {
        heading: [(block["path"], block["kind"], block["text"]) for block in BLOCK.finditer(text)]
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    }


def apply(folder, path, kind, text):
    """Write a file of the page, or edit one as its diff says."""
    file = folder / path
    if kind != "diff":
        assert not file.exists(), f"{path} is there already"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return
    lines = text.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] in " -")
    after = "".join(line[1:] for line in lines if line[0] in " +")
    content = file.read_text()
    assert content.count(before) == 1, f"{path} does not hold {before!r} once"
    file.write_text(content.replace(before, after))


@pytest.fixture
def copy(tmp_path):
    """A copy of the project with everything that the page adds."""
    for name in ("callsheet", "graphs", "nodes", "tools", "state", "providers", "storage", "server"):
        shutil.copytree(
            ROOT / name, tmp_path / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "langgraph.json", tmp_path)
    for blocks in sections().values():
        for block in blocks:
            apply(tmp_path, *block)
    return tmp_path


def command(folder, vendor, *args):
    """Return what `callsheet` prints in the copy."""
    environ = os.environ | {"ACME_API_KEY": vendor.key, "ACME_BASE_URL": vendor.url, "ACME_MAX_RETRIES": "0"}
    environ |= {"CALLSHEET_DATA_DIR": str(folder / "data"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "callsheet", *args],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_each_thing_is_added_in_as_many_places_as_the_page_says():
    places = {heading: len(blocks) for heading, blocks in sections().items()}
    assert places == {
        "A tool": 1,
        "A tool domain": 3,
        "A workflow with an interrupt": 3,
        "A provider": 2,
        "A REST endpoint": 1,
        "Using it": 0,
    }


@pytest.mark.slow
def test_the_page_followed_literally_gives_a_workflow_that_runs_and_asks(copy):
    with ChatDouble(
        Say(calls=[("call-1", "add_dish", json.dumps({"name": "Onion soup", "price_cents": 650}))]),
        Say("Onion soup is on the menu."),
        Say(calls=[("call-2", "clear_menu", "{}")]),
        Say("The menu is empty."),
    ) as vendor:
        shown = command(copy, vendor, "run", "menu_writer", "Add onion soup for 6.50", "--provider", "acme")
        assert "Onion soup is on the menu." in shown
        thread = shown.partition("--thread ")[2].split()[0]
        turn = ("run", "menu_writer", "--thread", thread, "--provider", "acme")
        assert "Removing all dishes" in command(copy, vendor, *turn, "Start again")
        answered = command(copy, vendor, *turn, "--answer", "yes", "--json")
        values = json.loads(answered[answered.index("{") :])["values"]
        assert values["drafts"] == {"menu": "v2"}
        assert vendor.unused == 0


CHECKS = """
import json
from callsheet.providers import load
from callsheet.tools import REGISTRY
from callsheet.nodes.workflow import workflow_of
from callsheet.graphs.menu_writer import graph
from callsheet.server.assembly import routes
from callsheet.server.http.policy import policy_of
print(json.dumps({
    "ad": sorted(REGISTRY.of("ad")),
    "menu": sorted(REGISTRY.of("menu")),
    "kind": workflow_of(graph).artefact.kind,
    "permissions": [policy_of(route).permission for route in routes({}) if route.path == "/api/tools/names"],
    "model": load("acme", environ={"ACME_API_KEY": "k"}).model_name,
}))
"""


@pytest.mark.slow
def test_what_the_page_adds_is_known_to_the_registry_the_specification_and_the_providers(copy):
    done = subprocess.run(
        [sys.executable, "-c", CHECKS], cwd=copy, capture_output=True, text=True, check=True, timeout=50
    )
    found = json.loads(done.stdout)
    assert "count_words" in found["ad"]
    assert found["menu"] == ["add_dish", "clear_menu"]
    assert (found["kind"], found["model"]) == ("menu", "acme-large")
    assert found["permissions"] == ["read"]
