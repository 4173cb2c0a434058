"""`python -m bench`: every figure, each compared with a peer or floor in the same run.

`python -m bench start drafts` runs only these two benches.
"""

import importlib
import pkgutil
import sys
import time

import bench


def main() -> int:
    """Run the named benches, or all of them; return 1 if one failed."""
    names = sorted(one.name for one in pkgutil.iter_modules(bench.__path__) if not one.name.startswith("_"))
    selected = sys.argv[1:] or names
    for name in selected:
        if name not in names:
            print(f"no bench {name!r}; there are: {', '.join(names)}")
            return 2
    failed = []
    for name in selected:
        start_s = time.monotonic()
        print(f"\n== {name} ==", flush=True)
        module = importlib.import_module(f"bench.{name}")
        if module.main():
            failed.append(name)
        print(f"({time.monotonic() - start_s:.0f} s)", flush=True)
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
