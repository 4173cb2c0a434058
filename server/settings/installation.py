"""The installed program: its version, and the command that starts it."""

import shlex
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def installed_version() -> str:
    """Return the version of the installed package."""
    try:
        return version("callsheet")
    except PackageNotFoundError:
        return "not installed"


def program() -> str:
    """Return the command of this program in the user's shell, with its path where PATH lacks it."""
    installed = Path(sys.executable).with_name("callsheet")
    on_path = shutil.which("callsheet")
    if on_path and Path(on_path).resolve() == installed.resolve():
        return "callsheet"
    if not installed.exists():
        return f"{shlex.quote(sys.executable)} -m callsheet"
    local = installed.relative_to(Path.cwd()) if installed.is_relative_to(Path.cwd()) else installed
    return shlex.quote(str(local))
