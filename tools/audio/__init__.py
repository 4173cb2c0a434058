"""Sound of ads and lessons: casting, speech, music beds, sketches of effects, and the mix."""
