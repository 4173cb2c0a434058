"""Runs of a thread: records, leases, events and their scripts."""
