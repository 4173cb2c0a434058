"""The tool guard: the one way a tool is called."""
