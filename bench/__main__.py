"""`python -m bench`: every figure, each beside its peer or floor in the same run.

`python -m bench start drafts` prints only those named.
"""

import importlib
import pkgutil
import sys
import time

import bench


def main() -> int:
    """Run the named benches, or all of them; 1 if any could not be run."""
    known = sorted(one.name for one in pkgutil.iter_modules(bench.__path__) if not one.name.startswith("_"))
    chosen = sys.argv[1:] or known
    for name in chosen:
        if name not in known:
            print(f"no bench {name!r}; there are: {', '.join(known)}")
            return 2
    failed = []
    for name in chosen:
        began = time.monotonic()
        print(f"\n== {name} ==", flush=True)
        module = importlib.import_module(f"bench.{name}")
        if module.main():
            failed.append(name)
        print(f"({time.monotonic() - began:.0f} s)", flush=True)
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
