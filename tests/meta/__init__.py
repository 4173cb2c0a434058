"""Tests: meta."""
