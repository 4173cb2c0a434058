"""No module keeps mutable state, except in the names that are listed with a reason."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.meta.syntax import ROOT, parse, statements

PACKAGES = ("graphs", "nodes", "tools", "providers", "storage", "state", "server")
ALLOWED = {
    "storage/__init__.py: _shared": "the storage of each event loop, for graphs that run without a server",
    "storage/checkpoints/context.py: STEP_STORE": "of one run: its events are stored with its steps",
    "storage/redis/batching.py: _WAITS": "of one run: its writes wait while storage is full",
    "storage/runs/leases.py: LEASE": "of one run: a tool asks for it before an effect",
    "tools/guard/deadline.py: _CURRENT": "of one call of a tool: its time limit",
    "tools/guard/tool_environment.py: _CURRENT": "of one run: the tool environment it is executed in",
    "tools/models/calls.py: _account": "of one task: the account that pays for its models",
    "tools/models/calls.py: _collected": "of one attempt at a run: usage of its models, for its log line",
    "server/http/configurable_headers.py: _passed": "of one request: the headers that its runs get",
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


def assignments(file: Path) -> dict[str, ast.expr]:
    """Return the names that a module assigns at its top level, with their values."""
    values: dict[str, ast.expr] = {}
    for node in parse(file).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                values[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                values[name] = value
    return values


def called_name(value: ast.expr) -> str:
    match value:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name
        case _:
            return ""


def local_names(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the names that a function with these nodes binds itself."""
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in nodes if isinstance(node, ast.arg)}


def changed_names(file: Path) -> set[str]:
    """Return the module's own names, and `module.name` of others, that its functions change."""
    names = set()
    for function in ast.walk(parse(file)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes = [*ast.walk(function)]
            own = local_names(nodes)
            names |= {name for name in map(change_target, nodes) if name and name.split(".")[0] not in own}
    return names


def change_target(node: ast.AST) -> str:
    """Return the name whose content a node changes, or `name.attribute` that it assigns; empty for none."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in CHANGES:
            return leftmost_name(inner)
        case ast.Subscript(value=inner, ctx=ast.Store() | ast.Del()):
            return leftmost_name(inner)
        case ast.Attribute(value=ast.Name(id=name), attr=attr, ctx=ast.Store() | ast.Del()):
            return f"{name}.{attr}"
        case _:
            return ""


def leftmost_name(node: ast.expr) -> str:
    """Return the leftmost name of an attribute access."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def mutable_classes() -> set[str]:
    """Return the classes with a method that changes its object, and the functions that return one."""
    names, trees = set(), [parse(file) for file in modules()]
    for node in (child for tree in trees for child in ast.walk(tree) if isinstance(child, ast.ClassDef)):
        methods = [child for child in node.body if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)]
        changes = {
            change_target(child)
            for method in methods
            if method.name != "__init__"
            for child in ast.walk(method)
        }
        if any(change.split(".")[0] == "self" for change in changes):
            names.add(node.name)
    for tree in trees:
        functions = (child for child in tree.body if isinstance(child, ast.FunctionDef) and child.returns)
        names |= {child.name for child in functions if ast.unparse(child.returns or child) in names}
    return names


def state_of(file: Path, mutable: set[str]) -> set[str]:
    """Return the module's names that hold state."""
    names, changes = assignments(file), changed_names(file)
    state = {
        name for name in names if name in changes or any(change.startswith(f"{name}.") for change in changes)
    }
    state |= {name for name, value in names.items() if called_name(value) in {*mutable, *WEAK, "ContextVar"}}
    imported = {
        alias.asname or alias.name.split(".")[0]
        for node in statements(file)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    # An attribute of another module or of a class is shared.
    return state | {change for change in changes if "." in change and change.split(".")[0] in imported}


def test_only_the_listed_names_hold_module_state() -> None:
    """A module that is changed from outside counts, too."""
    mutable = mutable_classes()
    names = {f"{file.relative_to(ROOT)}: {name}" for file in modules() for name in state_of(file, mutable)}
    assert names == {*ALLOWED}


def test_no_function_has_a_global_statement() -> None:
    for file in modules():
        rebinding = [node for node in ast.walk(parse(file)) if isinstance(node, ast.Global)]
        assert not rebinding, file


def test_the_search_detects_lists_dicts_and_attributes_of_modules(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("""
from callsheet.tools.guard import guard
KNOWN = {"a": 1}
records = []
cache: dict[str, int] = {}
def change(argument, policy):
    argument.append(1)
    records.append(KNOWN["a"])
    cache["a"] = 1
    guard.policy = policy
""")
    assert state_of(file, set()) == {"records", "cache", "guard.policy"}
