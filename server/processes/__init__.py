"""Processes of the server: `callsheet serve` and `callsheet worker`."""
