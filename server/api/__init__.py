"""The domain endpoints under /api."""
