"""Lessons: facts, students, narrations, and the questions people answer about them."""
