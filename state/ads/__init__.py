"""Audio ads: streams, briefs and timing."""
