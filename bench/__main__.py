"""`python -m bench`: every figure, each compared with a peer or floor in the same run.

`python -m bench start drafts` runs only these two benches; `--short` runs each in its smallest size,
whose figures mean nothing. A bench that fails does not keep the others from running.
"""

import importlib
import os
import pkgutil
import sys
import time
import traceback

import bench


def main() -> int:
    """Run the named benches, or all of them; return 1 if one failed."""
    names = sorted(one.name for one in pkgutil.iter_modules(bench.__path__) if not one.name.startswith("_"))
    if "--short" in sys.argv:
        os.environ[bench.SHORT_VARIABLE] = "1"
    selected = [word for word in sys.argv[1:] if word != "--short"] or names
    for name in selected:
        if name not in names:
            print(f"no bench {name!r}; there are: {', '.join(names)}")
            return 2
    failed = []
    for name in selected:
        start_s = time.monotonic()
        print(f"\n== {name} ==", flush=True)
        if not _succeeds(name):
            failed.append(name)
        print(f"({time.monotonic() - start_s:.0f} s)", flush=True)
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    return 1 if failed else 0


def _succeeds(name: str) -> bool:
    """Run a bench; print its failure in the place of its figures."""
    try:
        return not importlib.import_module(f"bench.{name}").main()
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- the other benches still run
        print(f"{name} failed:", *traceback.format_exception(error), sep="\n", flush=True)
        return False


if __name__ == "__main__":
    sys.exit(main())
