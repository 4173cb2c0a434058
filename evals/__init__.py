"""Tasks for real models, and their scores."""
