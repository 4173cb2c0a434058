"""Use a served graph as a node of a graph of your own, with LangGraph's `RemoteGraph`.

make run                                       # in another terminal
.venv/bin/python examples/remote_graph.py
"""

import asyncio
import os
from typing import Annotated, Any

from langchain_core.messages import AnyMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk import get_client
from typing_extensions import TypedDict


class CampaignBrief(TypedDict, total=False):
    """State of the graph in this process; the keys it shares with the remote graph are passed on."""

    messages: Annotated[list[AnyMessage], add_messages]
    drafts: dict[str, str]
    headline: str


def write_headline(state: CampaignBrief) -> CampaignBrief:
    """A step that runs here, after the remote one."""
    return {"headline": f"The ad is written: {', '.join(sorted(state['drafts']))}"}


async def main(url: str) -> None:
    """Write an ad with the server's graph alone, then as a step between others."""
    async with get_client(url=url) as client:
        remote = RemoteGraph("ad_creation", client=client)
        message: Any = {"role": "user", "content": "A 15 second spot for Nordic Sauna in Oslo, calm"}

        # Alone. The thread keeps the conversation on the server, so the second message refines the ad.
        thread = (await client.threads.create())["thread_id"]
        config: Any = {"configurable": {"thread_id": thread}}
        async for update in remote.astream({"messages": [message]}, config, stream_mode="updates"):
            print("node:", ", ".join(update))
        refined = await remote.ainvoke(
            {"messages": [{"role": "user", "content": "make the music slower"}]}, config
        )
        print("refined:", refined["drafts"])
        print("checkpoints:", len([one async for one in remote.aget_state_history(config)]))

        # As a node. The step after it reads what the remote graph returned.
        builder = StateGraph(CampaignBrief)
        builder.add_node("ad", remote)
        builder.add_node("headline", write_headline)
        builder.add_edge(START, "ad")
        builder.add_edge("ad", "headline")
        builder.add_edge("headline", END)
        state = await builder.compile().ainvoke({"messages": [message]})
        print(state["headline"])


if __name__ == "__main__":
    asyncio.run(main(os.environ.get("CALLSHEET_URL", "http://127.0.0.1:2024")))
