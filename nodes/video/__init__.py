"""Nodes of the workflow that edits videos."""
