"""LangGraph's own client on a server that asks (X16)."""

import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph.runtime import get_runtime
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import (
    AuthenticationError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
)
from typing_extensions import TypedDict
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from callsheet.storage import Storage
from tests.auth_cases import bearer, key, nothing_told  # noqa: F401 -- used by every test
from tests.signing import SECRET, shared
from tests.wire_server import serving

MOST = 20
CHOSEN: dict[str, Any] = {
    "auth": ("keys", "jwt"),
    "jwt_secret": SECRET,
    "jwt_audience": "callsheet",
    "requests_per_minute": MOST,
}
STARTED = {"id": 1, "method": "run.start", "params": {"assistant_id": "counter", "input": {"x": 1}}}
Clients = Callable[..., LangGraphClient]


@pytest.fixture
def url(valkey_url: str) -> Iterator[str]:
    with serving(valkey_url, **CHOSEN) as found:
        yield found


@pytest.fixture
async def client(url: str) -> AsyncIterator[Clients]:
    """Makes clients, which are closed in the end."""
    async with AsyncExitStack() as stack:

        def made(**options: Any) -> LangGraphClient:
            found = get_client(url=url, **options)
            stack.push_async_callback(found.aclose)
            return found

        yield made


async def test_the_client_gets_in_with_a_key_or_a_token_and_sees_its_own(
    client: Clients, storage: Storage
) -> None:
    alices = client(api_key=await key(storage, "alice"))
    made = await alices.threads.create(metadata={"of": "alice"})
    again = client(api_key=None, headers=bearer(shared(sub="alice")))
    assert [one["thread_id"] for one in await again.threads.search()] == [made["thread_id"]]
    await alices.store.put_item(["notes"], "a", {"text": "hers"})
    bobs = client(api_key=await key(storage, "bob"))
    assert await bobs.threads.search() == []
    assert (await bobs.store.search_items(["notes"]))["items"] == []
    with pytest.raises(NotFoundError):
        await bobs.threads.get(made["thread_id"])


async def test_the_client_understands_every_refusal(client: Clients, storage: Storage) -> None:
    for wrong in (client(api_key="lsv2_pt_x"), client(headers=bearer(shared(exp=1)))):
        with pytest.raises(AuthenticationError):
            await wrong.threads.search()
    reading = client(api_key=await key(storage, "alice", "read"))
    with pytest.raises(PermissionDeniedError, match="'write'"):
        await reading.threads.create()
    for _ in range(MOST):
        await reading.threads.search()
    with pytest.raises(RateLimitError, match=f"more than {MOST} requests"):
        await reading.threads.search()


async def test_a_page_says_who_asks_as_a_subprotocol_of_its_web_socket(
    url: str, client: Clients, storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    """X16: browsers give web sockets no headers."""
    for library in ("uvicorn.error", "websockets.client"):
        # They log what is sent, as it is; our own lines are made without it (test_logs.py).
        caplog.set_level(logging.INFO, library)
    alice = await key(storage, "alice")
    thread = (await client(api_key=alice).threads.create())["thread_id"]
    place = f"{url.replace('http', 'ws', 1)}/threads/{thread}/stream/events"
    tokens = [shared(sub=name) for name in ("alice", "bob")]
    for offered, whose in ((alice, "alice"), (tokens[0], "alice"), (tokens[1], "bob")):
        async with connect(place, subprotocols=[Subprotocol("bearer"), Subprotocol(offered)]) as socket:
            assert socket.subprotocol == "bearer"
            await socket.send(json.dumps(STARTED))
            told = json.loads(await socket.recv())
            assert (whose, told["type"]) in {("alice", "success"), ("bob", "error")}
    refused = [["bearer", "cs_wrong"], ["bearer"], [alice], [alice, "bearer"], ["chat", alice]]
    for wrong in refused:
        with pytest.raises(InvalidStatus):
            async with connect(place, subprotocols=[Subprotocol(one) for one in wrong]):
                pass


class Seen(TypedDict):
    seen: list[Any]


def look(state: Seen, config: RunnableConfig) -> Seen:
    """Say who asks, in every way that a graph can know it."""
    info = get_runtime().server_info
    assert info is not None
    chosen, user = config["configurable"], info.user
    named = [chosen[f"langgraph_auth_{name}"] for name in ("user", "user_id", "permissions")]
    return {"seen": [*named, user and [user.identity, user.display_name, user.is_authenticated]]}


def looking() -> Any:
    return StateGraph(Seen).add_node("look", look).add_edge(START, "look").compile(name="looking")


async def test_a_graph_knows_who_asks(valkey_url: str, storage: Storage) -> None:
    """X16."""
    alice = {
        "identity": "alice",
        "display_name": "alice",
        "is_authenticated": True,
        "permissions": ["read", "write"],
    }
    with serving(valkey_url, {"looking": looking()}, auth=("keys",)) as url:
        async with get_client(url=url, api_key=await key(storage, "alice")) as client:
            said: Any = {"configurable": {"langgraph_auth_user": {"identity": "bob"}}}
            told: Any = await client.runs.wait(None, "looking", input={"seen": []}, config=said)
    assert told["seen"] == [alice, "alice", ["read", "write"], ["alice", "alice", True]]


async def test_without_authentication_a_graph_knows_that_nobody_was_asked(valkey_url: str) -> None:
    with serving(valkey_url, {"looking": looking()}) as url:
        async with get_client(url=url) as client:
            told: Any = await client.runs.wait(None, "looking", input={"seen": []})
    assert told["seen"] == [None, "", [], None]
