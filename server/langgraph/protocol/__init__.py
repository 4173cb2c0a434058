"""The Agent Streaming Protocol, LangGraph's second wire."""
