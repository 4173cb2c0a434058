"""Records of threads."""
