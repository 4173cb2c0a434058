"""Cost of a thread and of an ad as they grow: the same server with n and with ten times as many.

*chat* is a conversation over LangGraph's SDK in the default stream mode, `values`: bytes of Redis for its
events and in all, and commands of the last turn, those inside scripts included. *ad* is a message about an ad
with so many versions in each of its streams, with the offline model. Ten times as much work that costs ten
times as many bytes, and as many commands, is the floor.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Final

import httpx
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph_sdk import get_client
from typing_extensions import TypedDict

from bench import size
from bench._servers import PATIENCE_S, ROOT, ReadinessProbe, free_port, running, serve_command
from callsheet import storage
from callsheet.state.owners import LOCAL
from callsheet.storage import Storage
from callsheet.storage.artefacts.artefacts import Artefact, NewVersion
from callsheet.storage.embedded import server as embedded
from callsheet.storage.redis import keys

TURNS: Final = size(100, short=2)
VERSIONS: Final = size(300, short=3)
_STREAMS: Final = ("voices", "music", "sfx")
_CONFIG: Final = {
    "dependencies": [str(ROOT)],
    "graphs": {
        "chat": f"{ROOT / 'bench' / 'growth.py'}:chat",
        "ad_creation": "callsheet.graphs.ad_creation:graph",
    },
}
_BRIEF: Final = {
    "clientDescription": "Miel, a bakery in Lyon that bakes sourdough bread at four every morning",
    "targetAudience": "families in the neighbourhood",
    "duration": 30,
    "market": "US",
    "language": "english",
}


class GrowingChat(TypedDict):
    """A conversation."""

    messages: Annotated[list[AnyMessage], add_messages]


async def _answer(state: GrowingChat) -> dict[str, Any]:
    return {"messages": [AIMessage(f"answer {len(state['messages'])} " + "word " * 50)]}


chat = StateGraph(GrowingChat).add_node("answer", _answer).add_edge(START, "answer").compile(name="chat")


def main() -> int:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-", ignore_cleanup_errors=True) as name:
        folder, port = Path(name), free_port()
        (folder / "langgraph.json").write_text(json.dumps(_CONFIG))
        lease = embedded.ensure_running(folder / "data")
        environment = {
            "CALLSHEET_CONFIG": "langgraph.json",
            "CALLSHEET_LOG_LEVEL": "error",
            "REDIS_URL": lease.url,
        }
        try:
            with running(serve_command(port), port, folder, environment) as server:
                server.ready_s(ReadinessProbe("/assistants/search", "POST"))
                asyncio.run(_measure(server.url, lease.url))
        finally:
            lease.close()
    return 0


async def _measure(url: str, redis_url: str) -> None:
    async with storage.connect(redis_url) as opened:
        print(f"{'':<36}{'n':>12}{'10 n':>12}{'ratio':>8}")
        await _measure_chat(url, opened)
        await _measure_ad(url, opened)


async def _measure_chat(url: str, opened: Storage) -> None:
    async with get_client(url=url) as client:
        thread = (await client.threads.create())["thread_id"]
        empty = await _used_bytes(opened)

        async def take_turn() -> None:
            given: Any = {"messages": [{"role": "user", "content": "question " * 50}]}
            await client.runs.wait(thread, "chat", input=given)

        events, total, spent = [], [], []
        for turns in (TURNS, 9 * TURNS):
            for _ in range(turns - 1):
                await take_turn()
            spent.append(await _commands(opened, take_turn))
            stream = keys.run_keys(thread).events
            events.append(int(await opened.redis.memory_usage(stream, samples=0) or 0) / 1000)
            total.append((await _used_bytes(opened) - empty) / 1000)
    _print(f"chat of {TURNS} turns: events", events, "kB")
    _print("  all of Redis", total, "kB")
    _print("  commands of a turn", spent, "")


async def _measure_ad(url: str, opened: Storage) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as http:
        body = {"adId": "growing", "brief": _BRIEF, "provider": "offline"}
        (await http.post("/api/ai/generate", json=body)).raise_for_status()
        ad, spent = Artefact(opened, "ad", "growing", LOCAL), []

        async def send_message() -> None:
            reply = await http.post("/api/ads/growing/chat", json={"message": "Make the music more upbeat"})
            reply.raise_for_status()

        for versions in (VERSIONS, 10 * VERSIONS):
            await _add_versions(ad, versions)
            spent.append(await _commands(opened, send_message))
    _print(f"ad of {VERSIONS} versions: commands", spent, "")


async def _add_versions(ad: Artefact, count: int) -> None:
    """Add versions to each stream until it has this many."""
    for name, stream in (await ad.newest_of(_STREAMS)).items():
        newest = stream.newest()
        for number in range(stream.count, count):
            data = {**newest.data, "number": number} if newest else {}
            await ad.create_version(NewVersion(name, data, "llm", f"batch-{number}"))


def _print(row: str, pair: list[float], unit: str) -> None:
    few, many = pair
    print(f"{row:<36}{few:>9.0f} {unit:<2}{many:>9.0f} {unit:<2}{many / few:>7.1f}x")


async def _commands(opened: Storage, act: Callable[[], Awaitable[None]]) -> float:
    """Return the commands that Redis executes meanwhile, those inside scripts included."""
    before = await _command_count(opened)
    await act()
    return await _command_count(opened) - before


async def _command_count(opened: Storage) -> float:
    stats: Any = await opened.redis.info("commandstats")
    return float(sum(entry["calls"] for entry in stats.values()))


async def _used_bytes(opened: Storage) -> float:
    memory: Any = await opened.redis.info("memory")
    return float(memory["used_memory_dataset"])


if __name__ == "__main__":
    sys.exit(main())
