"""Health, metrics, logs, traces and diagnosis."""
