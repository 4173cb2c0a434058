"""The campaign library: its records and its index."""
