"""Tests: doubles."""
