"""No module keeps state: what changes is passed, or lies in a place that is listed here with its reason."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.meta.syntax import ROOT, parsed, statements

PACKAGES = ("graphs", "nodes", "tools", "providers", "storage", "state", "server")
ALLOWED = {
    "storage/__init__.py: _shared": "the storage of each event loop, for graphs that run without a server",
    "storage/checkpoints/context.py: STEP_STORE": "of one run: its events are stored with its steps",
    "storage/runs/leases.py: LEASE": "of one run: a tool asks for it before an effect",
    "tools/guard/application.py: _CURRENT": "of one run: the application it is executed in",
    "tools/models/calls.py: _account": "of one task: the account that pays for its models",
    "tools/models/calls.py: _collected": "of one attempt at a run: usage of its models, for its log line",
    "server/telemetry/logs.py: _bound": "of one request or run: fields of its log lines",
    "tools/__init__.py: REGISTRY": "imports a domain's tools on first use",
    "tools/guard/sandbox.py: _queues": "of each event loop: sandbox processes that may be started",
    "tools/guard/sandbox.py: _turns": "of each event loop: whose turn it is to start one",
    "server/cli/main.py: sys.excepthook": "the terminal's own process: what it shows of an error",
    "tools/guard/arguments.py: _SCHEMAS": "a cache: JSON schemas by model class",
}
WEAK = {"WeakKeyDictionary", "WeakValueDictionary", "WeakSet"}
CHANGES = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert"),
    *("pop", "popitem", "remove", "setdefault", "update"),
}


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def assigned(file: Path) -> dict[str, ast.expr]:
    """The names that a module assigns at its top, with their values."""
    found: dict[str, ast.expr] = {}
    for node in parsed(file).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
    return found


def called(value: ast.expr) -> str:
    match value:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name
        case _:
            return ""


def local_names(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that a function of these nodes binds itself."""
    stored = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return stored | {one.arg for one in nodes if isinstance(one, ast.arg)}


def changed(file: Path) -> set[str]:
    """The module's own names, and `module.name` of others, that its functions change."""
    found = set()
    for function in ast.walk(parsed(file)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes = [*ast.walk(function)]
            own = local_names(nodes)
            found |= {name for name in map(target, nodes) if name and name.split(".")[0] not in own}
    return found


def target(node: ast.AST) -> str:
    """The name whose content a node changes, or `name.attribute` that it assigns; empty for none."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in CHANGES:
            return root(inner)
        case ast.Subscript(value=inner, ctx=ast.Store() | ast.Del()):
            return root(inner)
        case ast.Attribute(value=ast.Name(id=name), attr=attr, ctx=ast.Store() | ast.Del()):
            return f"{name}.{attr}"
        case _:
            return ""


def root(node: ast.expr) -> str:
    """The name that an attribute, or an attribute of one, is of."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def changing_classes() -> set[str]:
    """The classes with a method that changes its object, and the functions that return such an object."""
    found, trees = set(), [parsed(file) for file in modules()]
    for node in (one for tree in trees for one in ast.walk(tree) if isinstance(one, ast.ClassDef)):
        methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        changes = {target(one) for method in methods if method.name != "__init__" for one in ast.walk(method)}
        if any(change.split(".")[0] == "self" for change in changes):
            found.add(node.name)
    for tree in trees:
        made = (one for one in tree.body if isinstance(one, ast.FunctionDef) and one.returns)
        found |= {one.name for one in made if ast.unparse(one.returns or one) in found}
    return found


def state_of(file: Path, mutable: set[str]) -> set[str]:
    """The module's names that hold state."""
    names, changes = assigned(file), changed(file)
    found = {name for name in names if name in changes or any(one.startswith(f"{name}.") for one in changes)}
    found |= {name for name, value in names.items() if called(value) in {*mutable, *WEAK, "ContextVar"}}
    imported = {
        alias.asname or alias.name.split(".")[0]
        for node in statements(file)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    # Another module's attribute, or a class's: both are shared.
    return found | {one for one in changes if "." in one and one.split(".")[0] in imported}


def test_no_module_keeps_state_but_where_it_is_allowed() -> None:
    """The reasons are part of the list; a module that is changed from outside counts, too."""
    mutable = changing_classes()
    found = {f"{file.relative_to(ROOT)}: {name}" for file in modules() for name in state_of(file, mutable)}
    assert found == {*ALLOWED}


def test_no_function_rebinds_a_module_s_name() -> None:
    for file in modules():
        rebinding = [node for node in ast.walk(parsed(file)) if isinstance(node, ast.Global)]
        assert not rebinding, file


def test_the_search_finds_state(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("""
from callsheet.tools.guard import guard
KNOWN = {"a": 1}
seen = []
cache: dict[str, int] = {}
def change(seen_too, policy):
    seen_too.append(1)
    seen.append(KNOWN["a"])
    cache["a"] = 1
    guard.policy = policy
""")
    assert state_of(file, set()) == {"seen", "cache", "guard.policy"}
