"""Tests: ads."""
