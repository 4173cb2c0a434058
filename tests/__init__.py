"""Tests. Importing this starts coverage in a process of pytest-xdist, before anything else is imported."""

import os

# Not in the environment of processes that a test starts: those are not measured.
if "PYTEST_XDIST_WORKER" in os.environ and os.environ.get("COVERAGE_PROCESS_START"):
    import coverage

    coverage.process_startup()
    del os.environ["COVERAGE_PROCESS_START"]
