"""Nodes of the workflow that answers questions about campaigns."""
