"""Names and docstrings use the field's words: STYLE's naming rules, held by a test."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("graphs", "nodes", "tools", "state", "providers", "storage", "server")
PRIVATE = frozenset(
    {"told", "said", "asked", "found", "here", "heard", "meant", "begun", "spoken", "whole", "beside"}
)
"""Words that name nothing: `told(settings)`, `here`, `asked`."""
PARTICIPLE = re.compile(r"_?[a-z]+ed")
QUESTION = re.compile(r"(What|How|Whether|Where|Who|Which|When)\b")


def modules():
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield str(file.relative_to(ROOT)), ast.parse(file.read_text())


def names(tree):
    """Yield every identifier that a module defines, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name, node.lineno


def docstrings(tree):
    """Yield every docstring, those under fields too, with its line."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    lines = [line for node in ast.walk(tree) if isinstance(node, kinds) for line in node.body]
    for line in lines:
        if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant):
            yield str(line.value.value), line.lineno


def private_words(tree):
    return [
        (line, name) for name, line in names(tree) if PRIVATE & set(name.strip("_").casefold().split("_"))
    ]


def participles(tree):
    return [
        (node.lineno, node.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and PARTICIPLE.fullmatch(node.name)
        and not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]


def questions(tree):
    return [(line, text.splitlines()[0]) for text, line in docstrings(tree) if QUESTION.match(text)]


@pytest.mark.parametrize("rule", [private_words, participles, questions])
def test_no_module_breaks_the_rule(rule):
    broken = [f"{file}:{line}: {text}" for file, tree in modules() for line, text in rule(tree)]
    assert broken == []


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (private_words, "def f(asked): pass"),
        (private_words, "words_told = 1"),
        (participles, "async def recorded(): pass"),
        (questions, "class A:\n    n = 1\n    'How many.'"),
    ],
)
def test_the_rules_refuse_what_they_are_for(rule, source):
    assert rule(ast.parse(source))
