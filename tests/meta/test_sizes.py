"""Files and functions stay small; a limit is met by splitting the thing, not by moving the limit."""

import ast
from functools import cache

from tests.meta.syntax import ROOT, files, nested_statements, statements

FILE_LINES = 600
FUNCTION_LINES = 40
PARAMETERS = 6
NESTING = 3
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)
BROAD = {
    "server/engine/execution.py",
    "server/engine/worker.py",
    "tools/guard/guard.py",
}
"""The files that may catch every exception: the worker (an attempt, its loops), the guard."""


@cache
def functions():
    return [
        (file.relative_to(ROOT), node)
        for file in files()
        for node in statements(file)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def depth(node: ast.AST) -> int:
    """Levels of blocks; an elif is no deeper than its if."""
    below = 0
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        children = getattr(node, field, None)
        if not isinstance(children, list):
            continue
        chained = field == "orelse" and len(children) == 1 and isinstance(children[0], ast.If)
        for child in children:
            if isinstance(child, ast.AST) and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                below = max(below, depth(child) - (1 if chained else 0))
    return below + isinstance(node, BLOCKS)


def test_no_file_is_longer_than_its_limit():
    lengths = {file: len(file.read_text().splitlines()) for file in files()}
    assert {str(file): n for file, n in lengths.items() if n > FILE_LINES} == {}


def test_no_function_is_longer_than_its_limit():
    too_long = {}
    for file, node in functions():
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES:
            too_long[f"{file}:{node.name}"] = lines
    assert too_long == {}


def test_no_function_takes_more_parameters_than_its_limit():
    too_many = {}
    for file, node in functions():
        if file.parts[0] == "tests":
            continue  # fixtures
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        counted = [name for name in names if name not in {"self", "cls"}]
        if len(counted) > PARAMETERS:
            too_many[f"{file}:{node.name}"] = len(counted)
    assert too_many == {}


def test_no_function_is_nested_deeper_than_its_limit():
    levels = {f"{file}:{node.name}": depth(node) for file, node in functions()}
    too_deep = {name: level for name, level in levels.items() if level > NESTING}
    assert too_deep == {}


def catches_everything(node: ast.AST) -> bool:
    """Return whether a node catches every exception, or passes `Exception` to a helper that does."""
    if isinstance(node, ast.keyword):
        return node.arg == "despite" and ast.unparse(node.value) in {"Exception", "BaseException"}
    if not isinstance(node, ast.ExceptHandler):
        return False
    caught = ast.unparse(node.type) if node.type else "everything"
    raises = any(isinstance(inner, ast.Raise) for inner in nested_statements(node))
    return caught in {"everything", "Exception", "BaseException"} and not raises


def test_only_the_listed_files_catch_every_exception():
    product = [file for file in files() if file.relative_to(ROOT).parts[0] not in {"tests", "bench", "evals"}]
    broad = {
        str(file.relative_to(ROOT))
        for file in product
        if any(catches_everything(node) for node in statements(file))
    }
    assert broad <= BROAD
