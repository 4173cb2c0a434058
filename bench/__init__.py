"""Benches: each figure is a ratio to a peer or a floor in the same run."""
