"""Callsheet: a LangGraph state-machine orchestrator for creative work."""
