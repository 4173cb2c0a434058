"""Execution of runs: workers, task queue, events and run slots."""
