"""Tests: http."""
