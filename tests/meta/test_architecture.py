"""ARCHITECTURE.md names paths and functions that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
PATH = re.compile(r"(?<![\w/.])([\w.-]+(?:/[\w.-]+)*\.(?:py|toml|json|md|example))(?::(\w+(?:\.\w+)*))?")
FOLDER = re.compile(r"`([\w/]+/)`")
LINK = re.compile(r"\]\(([^)#]+)")


def mentions() -> list[tuple[str, str]]:
    """Return the paths that the page names, each with a name in that file or an empty text."""
    return sorted(set(PATH.findall(LINK.sub("](", TEXT))))


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the functions, classes, methods (`Class.method`) and constants of a module."""
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(_defined_names(tree.body, ""))


def _defined_names(body: list[ast.stmt], prefix: str) -> list[str]:
    names = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(prefix + node.name)
        if isinstance(node, ast.ClassDef):
            names += _defined_names(node.body, f"{prefix}{node.name}.")
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        names += [prefix + target.id for target in targets if isinstance(target, ast.Name)]
    return names


@pytest.mark.parametrize(("path", "name"), mentions())
def test_every_path_and_function_that_the_architecture_names_exists(path: str, name: str) -> None:
    assert (ROOT / path).is_file()
    assert not name or name in names_in(path)


def test_every_folder_that_the_architecture_names_exists() -> None:
    folders = FOLDER.findall(TEXT)
    assert folders
    assert all((ROOT / folder).is_dir() for folder in folders)


def test_every_link_of_the_architecture_resolves() -> None:
    assert all((ROOT / target).exists() for target in LINK.findall(TEXT) if "://" not in target)


def test_the_architecture_names_the_functions_that_newcomers_look_for() -> None:
    named = {f"{path}:{name}" for path, name in mentions()}
    assert named >= {
        "server/ads/routes.py:chat_about_ad",
        "storage/runs/runs.py:Runs.claim",
        "tools/policy.py:ToolPolicy.effective",
        "server/http/replies.py:EventFormat.encode",
        "storage/checkpoints/writing.py:put",
        "state/live_plan.py:startable",
        "state/campaigns/answers.py:problems",
        "providers/routing.py:route",
        "storage/artefacts/plans.py:Executions.settle",
        "storage/redis/key_table.py:KEYS",
    }
