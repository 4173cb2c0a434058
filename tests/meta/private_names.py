"""Private names of other libraries, found in source text without running it.

Private is a name with a leading underscore, or one of `UNDOCUMENTED`, which its library does not describe.
"""

import ast
import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

OWN: Final = frozenset({"callsheet", "tests", "bench", "evals", "__future__"})
DOCUMENTED: Final = frozenset({
    # https://docs.python.org/3/library/collections.html#collections.namedtuple
    "_asdict", "_fields", "_field_defaults", "_make", "_replace",
    # https://docs.python.org/3/library/os.html#os._exit
    "_exit",
    # https://docs.python.org/3/howto/enum.html#supported-sunder-names
    "_missing_",
    # https://docs.langchain.com/oss/python/langchain/models: what a chat model of one's own implements
    "_agenerate", "_astream", "_generate", "_identifying_params", "_llm_type", "_stream",
})  # fmt: skip
UNDOCUMENTED: Final = frozenset({
    "can_read_destructive", "connect_check_health", "parse_error", "timeout_keep_alive_task",
})  # fmt: skip
_KINDS: Final = (ast.Attribute, ast.Call, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Module)
_BY_NAME: Final = frozenset({"delattr", "getattr", "hasattr", "setattr"})


class Source:
    """One file and what it defines."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        nodes = [node for node in ast.walk(tree) if isinstance(node, _KINDS)]
        self.path: Final = path
        self.nodes: Final = nodes
        self.modules: Final = {name: found for node in nodes for name, found in _imported(node)}
        """What each imported name stands for, such as `redis.asyncio.Redis`."""
        self.own: Final = {name for node in nodes for name in _defined(node)}
        """Names that the file defines on its classes and itself."""

    @classmethod
    def parse(cls, path: str, text: str) -> "Source":
        return cls(path, ast.parse(text))


def find(sources: Iterable[Source]) -> Iterator[tuple[str, str]]:
    """Yield file and name for every private name of a foreign library."""
    known = {_module(source.path): source for source in sources}
    everywhere = {name for source in known.values() for name in source.own}
    for source in known.values():
        used = {module for path in source.modules.values() for module in (path, path.rpartition(".")[0])}
        near = source.own.union(*(known[module].own for module in used & known.keys()))
        for node in source.nodes:
            own = everywhere if _is_of_self(node) else near
            for name in (*_imports(node), *_accesses(node, own), *_overrides(node, source, known)):
                yield source.path, name


def _private(name: str) -> bool:
    dunder = name.startswith("__") and name.endswith("__") and not name.startswith("__pydantic")
    return (name.startswith("_") and not dunder and name not in DOCUMENTED) or name in UNDOCUMENTED


def _imports(node: ast.AST) -> Iterator[str]:
    """Yield the private names that an import of a foreign package has."""
    match node:
        case ast.Import(names=aliases):
            paths = [alias.name.split(".") for alias in aliases]
        case ast.ImportFrom(module=str(module), level=0, names=aliases):
            paths = [[*module.split("."), alias.name] for alias in aliases]
        case _:
            return
    for package, *rest in paths:
        if package not in OWN:
            yield from filter(_private, rest)


def _is_of_self(node: ast.AST) -> bool:
    """Return whether an attribute is one of the class around it, whose bases may be in other files."""
    match node:
        case ast.Attribute(value=ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super"))):
            return True
    return False


def _accesses(node: ast.AST, own: set[str]) -> Iterator[str]:
    """Yield the private attribute that is read or set, unless it is the project's own."""
    match node:
        case ast.Attribute(attr=name):
            pass
        case ast.Call(func=ast.Name(id=function), args=[_, ast.Constant(value=str(name)), *_]) if (
            function in _BY_NAME
        ):
            pass
        case _:
            return
    if _private(name) and (name not in own or name in UNDOCUMENTED):
        yield name


def _overrides(node: ast.AST, source: Source, known: Mapping[str, Source]) -> Iterator[str]:
    """Yield the private names that a class defines and a foreign base class has too."""
    if isinstance(node, ast.ClassDef) and (names := [*filter(_private, _defined_in(node))]):
        bases = [*_foreign_bases(node, source, known)]
        yield from (name for name in names if any(hasattr(base, name) for base in bases))


def _foreign_bases(node: ast.ClassDef, source: Source, known: Mapping[str, Source]) -> Iterator[Any]:
    for base in node.bases:
        expression = base.value if isinstance(base, ast.Subscript) else base
        first, _, rest = ast.unparse(expression).partition(".")
        path = ".".join(filter(None, (source.modules.get(first, f"{_module(source.path)}.{first}"), rest)))
        module, _, name = path.rpartition(".")
        if module in known:
            owner = known[module]
            classes = (one for one in owner.nodes if isinstance(one, ast.ClassDef) and one.name == name)
            for own in classes:
                yield from _foreign_bases(own, owner, known)
        elif first in source.modules and path.split(".")[0] not in OWN:
            yield getattr(importlib.import_module(module), name)


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Import(names=aliases):
            for alias in aliases:
                package = alias.name.split(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (package, package)
        case ast.ImportFrom(module=str(module), level=0, names=aliases):
            for alias in aliases:
                yield alias.asname or alias.name, f"{module}.{alias.name}"


def _defined(node: ast.AST) -> Iterator[str]:
    """Yield the names of attributes that a node defines on the project's own classes or modules."""
    match node:
        case ast.ClassDef() | ast.Module():
            yield from _defined_in(node)
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
            yield name


def _defined_in(node: ast.ClassDef | ast.Module) -> Iterator[str]:
    for statement in node.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def _module(path: str) -> str:
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return name if name.split(".")[0] in OWN else f"callsheet.{name}"
