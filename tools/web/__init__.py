"""Access to the public web."""
