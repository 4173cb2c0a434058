"""Workflow state: pure data and pure functions, no I/O."""
