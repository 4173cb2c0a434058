"""Lessons over REST and in the terminal."""
