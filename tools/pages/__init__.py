"""Tools of landing pages."""
