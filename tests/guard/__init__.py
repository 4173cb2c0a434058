"""Tests: guard."""
