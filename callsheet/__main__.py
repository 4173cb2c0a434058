"""The `callsheet` command; also `python -m callsheet`."""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command line; say what to install where it is not."""
    if os.getpid() == 1:
        # A container's first process gets no signal without a handler, so a stop during the start would be lost.
        signal.signal(signal.SIGTERM, _end)
    try:
        from callsheet.server.cli.main import main as run  # noqa: PLC0415 -- it may not be installed
    except ModuleNotFoundError as missing:
        sys.exit(
            f"callsheet: the command needs {missing.name!r}, which is not installed\n"
            "    install the server: pip install 'callsheet[server]'"
        )
    run()


def _end(number: int, frame: FrameType | None) -> None:
    del frame
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
