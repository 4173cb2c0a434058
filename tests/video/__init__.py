"""Tests: video."""
