"""A graph of your own, with a question to a person: START → draft → approve → book → END.

It knows nothing of Callsheet. The server that serves it gives it storage, so that the question waits in Redis
for as long as the person needs, and any process on the same storage can go on with the answer.
"""

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict


class Trip(TypedDict, total=False):
    """State of a thread."""

    city: str
    offer: str
    approved: bool
    booking: str


def draft(state: Trip) -> Trip:
    """Write an offer."""
    return {"offer": f"Two nights in {state['city']}, 240 EUR"}


def approve(state: Trip) -> Trip:
    """Ask a person. The run ends at `interrupt`; when it is resumed, `interrupt` returns the answer."""
    # A node with a question runs again from its first line when it is resumed, so it does nothing else.
    return {"approved": interrupt({"question": "Book this?", "offer": state["offer"]}) == "yes"}


def book(state: Trip) -> Trip:
    """Book, or do not."""
    return {"booking": f"Booked: {state['offer']}" if state["approved"] else "Nothing was booked."}


builder = StateGraph(Trip)
builder.add_node("draft", draft)
builder.add_node("approve", approve)
builder.add_node("book", book)
builder.add_edge(START, "draft")
builder.add_edge("draft", "approve")
builder.add_edge("approve", "book")
builder.add_edge("book", END)
# Without a checkpointer: the server attaches its own.
graph = builder.compile(name="trip")
