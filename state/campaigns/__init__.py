"""Campaigns of an ad library, and questions about them."""
