"""Threads: records, export and import."""
