"""Records of threads, their export and their import."""
