"""Names and docstrings use the field's words: the rules of docs/style.md, held by a test."""

import ast
import re
from collections import defaultdict

import pytest

from tests.meta.syntax import ROOT, files, parse

FOLDERS = (
    *("graphs", "nodes", "tools", "state", "providers", "storage", "server"),
    *("tests", "bench", "evals", "examples"),
)
PRIVATE = frozenset(
    {"told", "said", "asked", "found", "here", "heard", "meant", "begun", "spoken", "whole", "beside", "made"}
)
"""Words that name nothing: `told(settings)`, `here`, `asked`."""
SENTENCE = frozenset({"made"})
"""Those that a test's name may have, since it is a sentence: `test_a_lesson_is_made_from_a_file`."""
STANDARD = re.compile(r"not_found|connection_made")
"""Terms of the field that contain such a word."""
PARTICIPLE = re.compile(r"_?(?!(?:embed|exceed|feed|need|proceed|seed|shed|speed|succeed)$)[a-z]+ed")
"""A word in -ed, except verbs and nouns that end so."""
QUESTION = re.compile(r"(What|How|Whether|Where|Who|Which|When)\b")


def modules():
    """Return path and syntax tree of every module in the folders."""
    paths = {file: file.relative_to(ROOT) for file in files()}
    return [(str(path), parse(file)) for file, path in paths.items() if path.parts[0] in FOLDERS]


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
        (line, name)
        for name, line in names(tree)
        if (PRIVATE - SENTENCE if name.startswith("test_") else PRIVATE)
        & set(STANDARD.sub("", name.casefold()).split("_"))
    ]


def participles(tree):
    """Return the functions that are called by a participle; a property or fixture is a value and may be."""
    return [
        (node.lineno, node.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and PARTICIPLE.fullmatch(node.name)
        and not any(re.search("property|fixture", ast.unparse(each)) for each in node.decorator_list)
    ]


def questions(tree):
    return [(line, text.splitlines()[0]) for text, line in docstrings(tree) if QUESTION.match(text)]


def duplicate_classes(trees):
    """Return the class names that modules define more than once at their top level, with the places."""
    places = defaultdict(list)
    for path, tree in trees:
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path}:{node.lineno}")
    return {name: lines for name, lines in places.items() if len(lines) > 1}


@pytest.mark.parametrize("rule", [private_words, participles, questions])
def test_no_module_breaks_the_rule(rule):
    broken = [f"{file}:{line}: {text}" for file, tree in modules() for line, text in rule(tree)]
    assert broken == []


def test_no_class_name_is_defined_twice():
    assert duplicate_classes((str(file.relative_to(ROOT)), parse(file)) for file in files()) == {}


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (private_words, "def f(asked): pass"),
        (private_words, "words_told = 1"),
        (private_words, "def test_a_lesson_is_found(): pass"),
        (private_words, "drafts_made = create()"),
        (participles, "async def recorded(): pass"),
        (questions, "class A:\n    n = 1\n    'How many.'"),
    ],
)
def test_the_rules_refuse_what_they_are_for(rule, source):
    assert rule(ast.parse(source))


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (private_words, "def test_an_unknown_ad_is_not_found(): pass"),
        (private_words, "def test_a_lesson_is_made_from_a_file(): pass"),
        (private_words, "def connection_made(self, transport): pass"),
        (participles, "def need(program): pass"),
        (participles, "@pytest.fixture\ndef opened(): pass"),
    ],
)
def test_the_rules_allow_standard_terms_verbs_and_fixtures(rule, source):
    assert not rule(ast.parse(source))


def test_only_classes_at_the_top_of_modules_count_as_duplicates():
    text = "class Reply: pass\nclass A:\n    class Config: pass\nclass B:\n    class Config: pass\n"
    trees = [("one.py", ast.parse(text)), ("other.py", ast.parse("class Reply: pass"))]
    assert duplicate_classes(trees) == {"Reply": ["one.py:1", "other.py:1"]}
