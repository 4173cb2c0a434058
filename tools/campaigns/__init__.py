"""Tools that search an ad library."""
