"""REST operations that all kinds of artefact share."""
