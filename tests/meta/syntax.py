"""The project's own Python files, each read and parsed once for all tests of the source."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")


@cache
def files() -> tuple[Path, ...]:
    """Return every Python file that is, or will be, under version control."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    existing = tuple(ROOT / name for name in listing.stdout.split() if (ROOT / name).exists())
    assert len(existing) > 20
    return existing


@cache
def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_bytes())


@cache
def statements(file: Path) -> tuple[ast.AST, ...]:
    """Return every statement of a file, with its handlers and cases, without expressions."""
    return tuple(nested_statements(parse(file)))


def nested_statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements inside a node, as `statements` does for a file."""
    for field in _BLOCKS:
        # A lambda's body, say, is an expression.
        children = getattr(node, field, None)
        for child in children if isinstance(children, list) else ():
            yield child
            yield from nested_statements(child)
