"""The embedded Valkey server."""
