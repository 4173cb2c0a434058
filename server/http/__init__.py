"""HTTP: middleware, authentication, limits, errors and streaming replies."""
