"""Tests: lessons."""
