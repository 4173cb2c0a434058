"""README, langgraph.json, Makefile and code agree."""

import importlib
import json
import re
import tomllib
from pathlib import Path

import pytest

from callsheet.nodes.workflow import workflow_of
from callsheet.server.engine.workflows import packaged_graphs

ROOT = Path(__file__).parents[2]
README_FILE = ROOT / "README.md"
README = README_FILE.read_text()


def test_every_make_target_of_the_readme_exists():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"make (\w+)`|\$ make (\w+)", README))
    assert {inline or in_block for inline, in_block in named} <= targets
    assert "$ make run" in README
    assert "$ make test" in README


def test_the_ci_script_ends_with_make_test():
    script = (ROOT / ".ci" / "run").read_text()
    assert script.rstrip().endswith("make test")


def test_langgraph_json_names_the_packaged_workflows():
    """X6."""
    declared = json.loads((ROOT / "langgraph.json").read_text())
    assert packaged_graphs().path.read_text() == (ROOT / "langgraph.json").read_text()
    for name, place in declared["graphs"].items():
        module, _, variable = place.partition(":")
        graph = getattr(importlib.import_module(module), variable)
        spec = workflow_of(graph)
        assert spec is not None
        assert (graph.name, spec.name) == (name, name)


def test_the_checkpointer_of_langgraph_json_can_be_imported():
    path = json.loads((ROOT / "langgraph.json").read_text())["checkpointer"]["path"]
    module, _, variable = path.rpartition(".")
    assert callable(getattr(importlib.import_module(module), variable))


@pytest.mark.parametrize(
    "document",
    sorted(
        str(file.relative_to(ROOT))
        for place in (".", "docs", "evals", "deploy", "examples")
        for file in (ROOT / place).glob("*.md" if place == "." else "**/*.md")
    ),
)
def test_every_link_of_a_document_resolves(document):
    file = ROOT / document
    prose = re.sub(r"`[^`\n]*`", "", file.read_text())
    for target in re.findall(r"\]\(([^)#\s]+)", prose):
        if "://" not in target:
            assert (file.parent / target).exists(), target


def test_every_extra_that_a_document_or_an_error_names_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    files = [README_FILE, *(ROOT / "docs").glob("**/*.md")]
    files += [file for folder in ("server", "storage", "tools") for file in (ROOT / folder).rglob("*.py")]
    text = "\n".join(file.read_text() for file in files)
    named = {
        part for group in re.findall(r"(?:callsheet|'\.)\[([a-z,]+)\]", text) for part in group.split(",")
    }
    named |= set(re.findall(r"the extra `(\w+)`", text))
    assert {"telemetry", "jwks"} <= named <= extras.keys()
    assert "pip install 'callsheet" not in text, "the package is on no index"


def test_a_file_that_a_documents_command_reads_exists_or_is_written_by_one_before():
    for file in (README_FILE, *(ROOT / "docs").glob("*.md")):
        written: set[str] = set()
        for line in "\n".join(
            re.findall(r"```(?:sh|console)\n(.*?)```", file.read_text(), re.DOTALL)
        ).splitlines():
            names = set(re.findall(r"(?<![\w/.:-])[\w-][\w./-]*\.(?:csv|pdf|txt|jsonl|png|xlsx|py)\b", line))
            if re.search(r" (?:export|preview) | > ", line):
                written |= names
            assert all(name in written or (ROOT / name).exists() for name in names), (file.name, line)


def test_every_link_to_a_heading_resolves():
    for file in [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").glob("**/*.md")]:
        for target, heading in re.findall(r"\]\(([^)#\s]*)#([\w-]+)\)", file.read_text()):
            if "://" not in target:
                page = (file.parent / target if target else file).read_text()
                assert heading in {anchor(title) for title in re.findall(r"^#+ (.+)$", page, re.MULTILINE)}, (
                    target
                )


def anchor(heading: str) -> str:
    """Return the name that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_readme_has_at_most_200_lines():
    assert len(README.splitlines()) <= 200


def test_the_readme_names_every_folder_with_code_and_only_existing_folders():
    named = set(re.findall(r"`(\w+)/`", README))
    code = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert code <= named
    assert all((ROOT / name).is_dir() for name in named)


def test_the_readme_shows_a_session_with_two_refinements():
    session = README.partition("<!-- session -->")[2].partition("<!-- /session -->")[0]
    assert "callsheet ad" in session
    assert '"music": "v2"' in session
    assert '"sfx": "v2"' in session
    assert '"voices"' not in session.partition('"drafts"')[2].partition("}")[0], "voices stay as they were"


def test_every_decision_is_in_the_index_and_short():
    folder = ROOT / "docs/decisions"
    files = sorted(file.name for file in folder.glob("[0-9]*.md"))
    index = (folder / "README.md").read_text()
    assert sorted(re.findall(r"\]\((\d+-[\w-]+\.md)\)", index)) == files
    for name in files:
        assert len((folder / name).read_text().split()) <= 150, name
