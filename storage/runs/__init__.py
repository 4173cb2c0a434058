"""Runs of threads: records, leases, events and notifications."""
