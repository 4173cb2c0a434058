"""Nodes of ads."""
