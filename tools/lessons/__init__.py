"""Tools of lessons."""
