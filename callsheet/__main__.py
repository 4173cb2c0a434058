"""The `callsheet` command; also `python -m callsheet`."""

import sys


def main() -> None:
    """Run the command line; say what to install where it is not."""
    try:
        from callsheet.server.cli.main import main as run  # noqa: PLC0415 -- it may not be installed
    except ModuleNotFoundError as missing:
        sys.exit(
            f"callsheet: the command needs {missing.name!r}, which is not installed\n"
            "    install the server: pip install 'callsheet[server]'"
        )
    run()


if __name__ == "__main__":
    main()
