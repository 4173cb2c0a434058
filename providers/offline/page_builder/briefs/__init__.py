"""A whole page asked for in one message: whose it is, and what it is to have."""
