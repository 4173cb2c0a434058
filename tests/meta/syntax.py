"""The project's own Python files, each read and parsed once for all tests that look at their form."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")


@cache
def files() -> tuple[Path, ...]:
    """Every Python file that is, or will be, under version control."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = tuple(ROOT / name for name in listed.stdout.split() if (ROOT / name).exists())
    assert len(found) > 20
    return found


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_bytes())


@cache
def statements(file: Path) -> tuple[ast.AST, ...]:
    """Every statement of a file, with the handlers and cases between them; no expression is entered."""
    return tuple(within(parsed(file)))


def within(node: ast.AST) -> Iterator[ast.AST]:
    """As `statements`, for what is inside one of them."""
    for field in _BLOCKS:
        # A lambda's body, say, is an expression.
        children = getattr(node, field, None)
        for child in children if isinstance(children, list) else ():
            yield child
            yield from within(child)
