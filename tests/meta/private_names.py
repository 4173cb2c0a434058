"""Search for private names of other libraries in source text, without running it.

A name is private if it begins with an underscore or is in `UNDOCUMENTED`.
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
    # https://docs.langchain.com/oss/python/langchain/models: the methods of a custom chat model
    "_agenerate", "_astream", "_generate", "_identifying_params", "_llm_type", "_stream",
})  # fmt: skip
UNDOCUMENTED: Final = frozenset({
    "can_read_destructive", "connect_check_health", "parse_error", "timeout_keep_alive_task",
})  # fmt: skip
_KINDS: Final = (ast.Attribute, ast.Call, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Module)
_BY_NAME: Final = frozenset({"delattr", "getattr", "hasattr", "setattr"})


class SourceFile:
    """One file, with its imports and definitions."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        nodes = [node for node in ast.walk(tree) if isinstance(node, _KINDS)]
        self.path: Final = path
        self.nodes: Final = nodes
        self.modules: Final = {name: module for node in nodes for name, module in _imported_names(node)}
        """The full path of each imported name, such as `redis.asyncio.Redis`."""
        self.own: Final = {name for node in nodes for name in _defined_attributes(node)}
        """Names that the file defines on its classes and itself."""

    @classmethod
    def parse(cls, path: str, text: str) -> "SourceFile":
        return cls(path, ast.parse(text))


def find(sources: Iterable[SourceFile]) -> Iterator[tuple[str, str]]:
    """Yield file and name for every private name of a foreign library."""
    by_module = {_module_of(source.path): source for source in sources}
    everywhere = {name for source in by_module.values() for name in source.own}
    for source in by_module.values():
        used = {module for path in source.modules.values() for module in (path, path.rpartition(".")[0])}
        near = source.own.union(*(by_module[module].own for module in used & by_module.keys()))
        for node in source.nodes:
            own = everywhere if _is_of_self(node) else near
            for name in (
                *_private_imports(node),
                *_private_accesses(node, own),
                *_private_overrides(node, source, by_module),
            ):
                yield source.path, name


def _is_private(name: str) -> bool:
    dunder = name.startswith("__") and name.endswith("__") and not name.startswith("__pydantic")
    return (name.startswith("_") and not dunder and name not in DOCUMENTED) or name in UNDOCUMENTED


def _private_imports(node: ast.AST) -> Iterator[str]:
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
            yield from filter(_is_private, rest)


def _is_of_self(node: ast.AST) -> bool:
    """Return whether an attribute is one of the class around it, whose bases may be in other files."""
    match node:
        case ast.Attribute(value=ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super"))):
            return True
    return False


def _private_accesses(node: ast.AST, own: set[str]) -> Iterator[str]:
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
    if _is_private(name) and (name not in own or name in UNDOCUMENTED):
        yield name


def _private_overrides(
    node: ast.AST, source: SourceFile, by_module: Mapping[str, SourceFile]
) -> Iterator[str]:
    """Yield the private names that a class defines and a foreign base class has too."""
    if isinstance(node, ast.ClassDef) and (names := [*filter(_is_private, _names_defined_in(node))]):
        bases = [*_foreign_bases(node, source, by_module)]
        yield from (name for name in names if any(hasattr(base, name) for base in bases))


def _foreign_bases(
    node: ast.ClassDef, source: SourceFile, by_module: Mapping[str, SourceFile]
) -> Iterator[Any]:
    for base in node.bases:
        expression = base.value if isinstance(base, ast.Subscript) else base
        first, _, rest = ast.unparse(expression).partition(".")
        path = ".".join(filter(None, (source.modules.get(first, f"{_module_of(source.path)}.{first}"), rest)))
        module, _, name = path.rpartition(".")
        if module in by_module:
            owner = by_module[module]
            classes = (each for each in owner.nodes if isinstance(each, ast.ClassDef) and each.name == name)
            for own in classes:
                yield from _foreign_bases(own, owner, by_module)
        elif first in source.modules and path.split(".")[0] not in OWN:
            yield getattr(importlib.import_module(module), name)


def _imported_names(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Import(names=aliases):
            for alias in aliases:
                package = alias.name.split(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (package, package)
        case ast.ImportFrom(module=str(module), level=0, names=aliases):
            for alias in aliases:
                yield alias.asname or alias.name, f"{module}.{alias.name}"


def _defined_attributes(node: ast.AST) -> Iterator[str]:
    """Yield the names of attributes that a node defines on the project's own classes or modules."""
    match node:
        case ast.ClassDef() | ast.Module():
            yield from _names_defined_in(node)
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
            yield name


def _names_defined_in(node: ast.ClassDef | ast.Module) -> Iterator[str]:
    for statement in node.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def _module_of(path: str) -> str:
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return name if name.split(".")[0] in OWN else f"callsheet.{name}"
