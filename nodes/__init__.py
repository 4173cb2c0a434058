"""The steps graphs are made of."""
