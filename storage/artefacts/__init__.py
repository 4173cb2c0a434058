"""Artefacts: version streams, receipts, locks and files."""
