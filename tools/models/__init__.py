"""Calls of models by tools and nodes: limits, prices, and forms that a model fills in."""
