"""docs/extending.md, applied literally to a copy of the project."""

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
    """Return the code blocks of each section by its heading: (path, kind, text)."""
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]
    return {
        heading: [(block["path"], block["kind"], block["text"]) for block in BLOCK.finditer(text)]
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    }


def apply(folder, path, kind, text):
    """Create the file of a block, or apply its diff."""
    file = folder / path
    if kind != "diff":
        assert not file.exists(), f"{path} exists already"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return
    lines = text.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] in " -")
    after = "".join(line[1:] for line in lines if line[0] in " +")
    content = file.read_text()
    assert content.count(before) == 1, f"{path} does not have {before!r} exactly once"
    file.write_text(content.replace(before, after))


@pytest.fixture
def project_copy(tmp_path):
    """The folder of a copy of the project with all edits of the page."""
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
    """Run `callsheet` in the copy; return its output."""
    environ = os.environ | {"ACME_API_KEY": vendor.key, "ACME_BASE_URL": vendor.url, "ACME_MAX_RETRIES": "0"}
    environ |= {"CALLSHEET_DATA_DIR": str(folder / "data"), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.run(
        [sys.executable, "-m", "callsheet", *args],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout + process.stderr


def test_every_section_of_the_page_has_the_expected_number_of_edits():
    edits = {heading: len(blocks) for heading, blocks in sections().items()}
    assert edits == {
        "A tool": 1,
        "A tool domain": 3,
        "A workflow with an interrupt": 3,
        "A provider": 2,
        "A REST endpoint": 1,
        "Using it": 0,
    }


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_the_workflow_of_the_page_runs_and_interrupts(project_copy):
    with ChatDouble(
        Say(calls=[("call-1", "add_dish", json.dumps({"name": "Onion soup", "price_cents": 650}))]),
        Say("Onion soup is on the menu."),
        Say(calls=[("call-2", "clear_menu", "{}")]),
        Say("The menu is empty."),
    ) as vendor:
        output = command(
            project_copy, vendor, "run", "menu_writer", "Add onion soup for 6.50", "--provider", "acme"
        )
        assert "Onion soup is on the menu." in output
        thread_id = output.partition("--id ")[2].split()[0]
        turn = ("run", "menu_writer", "--id", thread_id, "--provider", "acme")
        assert "Removing all dishes" in command(project_copy, vendor, *turn, "Start again")
        reply = command(project_copy, vendor, *turn, "--answer", "yes", "--json")
        values = json.JSONDecoder().raw_decode(reply, reply.index("{"))[0]["values"]
        assert values["drafts"] == {"menu": "v2"}
        assert vendor.unused == 0


PRINT_ADDITIONS = """
import json
from callsheet.providers import load
from callsheet.tools import REGISTRY
from callsheet.nodes.workflow import workflow_of
from callsheet.graphs.menu_writer import graph
from callsheet.server.app import routes
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
def test_the_additions_of_the_page_are_registered_and_have_permissions(project_copy):
    process = subprocess.run(
        [sys.executable, "-c", PRINT_ADDITIONS],
        cwd=project_copy,
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    registered = json.loads(process.stdout)
    assert "count_words" in registered["ad"]
    assert registered["menu"] == ["add_dish", "clear_menu"]
    assert (registered["kind"], registered["model"]) == ("menu", "acme-large")
    assert registered["permissions"] == ["read"]
