"""CONTRIBUTING.md, the hooks before a commit and the workflow of CI name commands that exist."""

import re
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # ships no types

from tests.meta.syntax import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())


def targets():
    return set(re.findall(r"^([\w./-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def hooks():
    return [hook for repository in HOOKS["repos"] for hook in repository["hooks"]]


def test_every_target_and_test_that_the_page_names_exists():
    targets_named = set(re.findall(r"\bmake ([\w./-]+)", PAGE))
    assert {".venv/dev", "check", "test", "run"} <= targets_named <= targets()
    files = set(re.findall(r"tests/\w+/test_\w+\.py", PAGE))
    assert files
    assert all((ROOT / file).is_file() for file in files)
    [(file, word)] = re.findall(r"(tests/\w+/test_\w+\.py) -k (\w+)", PAGE)
    assert len(re.findall(rf"^(?:async )?def test_\w*{word}", (ROOT / file).read_text(), re.MULTILINE)) == 1


def test_the_examples_of_commit_subjects_follow_the_rule():
    block = re.search(r"the body says why:\n\n```\n(.*?)```", PAGE, re.DOTALL)
    assert block
    for subject in block[1].splitlines():
        assert len(subject) <= 72
        assert re.fullmatch(r"[A-Z]\w*: [a-z].*[^.]", subject)


def test_the_table_of_extensions_has_the_rows_of_docs_extending():
    def rows(text):
        return {line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| a ")}

    assert rows(PAGE) == rows((ROOT / "docs/extending.md").read_text().partition("\n## ")[0])


def test_hooks_run_installed_programs_and_download_nothing():
    assert {repository["repo"] for repository in HOOKS["repos"]} == {"local"}
    assert {hook["language"] for hook in hooks()} == {"system"}
    assert "make check" in [hook["entry"] for hook in hooks()]


@pytest.mark.parametrize("hook", hooks(), ids=lambda hook: hook["id"])
def test_the_command_of_a_hook_exists(hook):
    command, argument, *_ = hook["entry"].split()
    if command == "make":
        assert argument in targets()
    else:
        folder, name = command.rsplit("/", 1)
        assert folder == ".venv/bin"
        assert (Path(sys.executable).parent / name).is_file()


def test_the_ci_workflow_only_runs_the_ci_script():
    [job] = WORKFLOW["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == ["bash .ci/run"]
    assert [step["uses"].split("@")[0] for step in job["steps"] if "uses" in step] == ["actions/checkout"]
    assert not any("if" in step or "continue-on-error" in step for step in job["steps"])
    assert 0 < job["timeout-minutes"] <= 60
    assert WORKFLOW["concurrency"]["cancel-in-progress"] is True
    # YAML reads the key `on` as true.
    assert set(WORKFLOW[True]) == {"push", "pull_request"}
