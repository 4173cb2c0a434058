"""Files of threads: their lines, export and import."""
