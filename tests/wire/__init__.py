"""Tests: wire."""
