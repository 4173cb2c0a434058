"""Audio ads: from a brief to scripts, voices, music and effects, and every change a person asks for."""
