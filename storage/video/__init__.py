"""Storage of videos: executions of plans, gathered context and settings."""
