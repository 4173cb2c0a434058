"""The REST API that LangGraph's clients call."""
