"""The Redis client: connection, batching, scripts, keys and health."""
