"""What is remembered: pure data and pure functions, no I/O."""
