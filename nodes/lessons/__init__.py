"""Nodes that ask a person about a lesson."""
