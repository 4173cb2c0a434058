"""Tools of audio ads."""
