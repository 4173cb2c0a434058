"""Tests: campaigns."""
