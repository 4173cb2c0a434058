"""Callsheet: a LangGraph state-machine orchestrator for creative work."""

from pathlib import Path

_ROOT = Path(__file__).parent.parent
_PROJECT = _ROOT / "pyproject.toml"

# Installed, the layers lie in this folder. In a checkout they lie beside it and are imported from there: a module's
# file is the one that an editor opens, so breakpoints stop, and no symbolic link is needed. The name is compared
# because a project that vendors this package may have a `state/` of its own beside it.
if _PROJECT.is_file() and '\nname = "callsheet"\n' in _PROJECT.read_text(encoding="utf-8"):
    __path__.insert(0, str(_ROOT))
