"""Audio ads over REST and in the terminal."""
