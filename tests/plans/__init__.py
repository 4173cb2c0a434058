"""Executions of the plans of every workflow."""
