"""The REST interface LangGraph's own clients call: `langgraph_sdk`, `useStream`, Agent Chat UI, Studio."""
