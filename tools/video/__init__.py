"""Tools of video projects."""
