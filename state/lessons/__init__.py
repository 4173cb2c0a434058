"""Lessons: facts, students, narrations and the questions asked about them."""
