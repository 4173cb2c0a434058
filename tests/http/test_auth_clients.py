"""LangGraph's own client on a server that asks (X16)."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, suppress
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
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from callsheet.server.http.tokens import LEEWAY_S
from callsheet.storage import Storage, api_keys
from tests.doubles.auth_cases import bearer, create_key, no_secret_in_log  # noqa: F401 -- used by every test
from tests.doubles.signing import SECRET, shared_secret_token
from tests.doubles.wire_server import running_server

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
    with running_server(valkey_url, **CHOSEN) as found:
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
    alices = client(api_key=await create_key(storage, "alice"))
    made = await alices.threads.create(metadata={"of": "alice"})
    again = client(api_key=None, headers=bearer(shared_secret_token(sub="alice")))
    assert [one["thread_id"] for one in await again.threads.search()] == [made["thread_id"]]
    await alices.store.put_item(["notes"], "a", {"text": "hers"})
    bobs = client(api_key=await create_key(storage, "bob"))
    assert await bobs.threads.search() == []
    assert (await bobs.store.search_items(["notes"]))["items"] == []
    with pytest.raises(NotFoundError):
        await bobs.threads.get(made["thread_id"])


async def test_the_client_understands_every_refusal(client: Clients, storage: Storage) -> None:
    for wrong in (client(api_key="lsv2_pt_x"), client(headers=bearer(shared_secret_token(exp=1)))):
        with pytest.raises(AuthenticationError):
            await wrong.threads.search()
    reading = client(api_key=await create_key(storage, "alice", "read"))
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
    alice = await create_key(storage, "alice")
    thread = (await client(api_key=alice).threads.create())["thread_id"]
    place = f"{url.replace('http', 'ws', 1)}/threads/{thread}/stream/events"
    tokens = [shared_secret_token(sub=name) for name in ("alice", "bob")]
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


COMMANDS = {
    "/ws": (
        {"type": "userMessage", "conversationId": "page-1", "content": "x", "provider": "offline"},
        "error",
    ),
    "/threads/page-1/stream/events": (STARTED, "message"),
}
"""Web socket to a command on it, and to the field of a refusal that says why."""


@pytest.fixture
def workflows(valkey_url: str, caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    """The URL of a server with all workflows, whose libraries do not log headers."""
    for library in ("uvicorn.error", "websockets.client"):
        caplog.set_level(logging.INFO, library)
    with running_server(valkey_url, None, **CHOSEN) as found:
        yield found


@pytest.mark.parametrize("path", COMMANDS)
async def test_an_open_web_socket_is_closed_once_its_key_is_revoked(
    workflows: str, storage: Storage, path: str
) -> None:
    alice = await create_key(storage, "alice")
    async with connect(workflows.replace("http", "ws", 1) + path, additional_headers=bearer(alice)) as socket:
        command, field = COMMANDS[path]
        await socket.send("{}")
        assert "is revoked" not in str(await socket.recv())
        await api_keys.revoke(storage, alice.split("_")[1])
        await socket.send(json.dumps(command))
        assert "is revoked" in json.loads(await socket.recv())[field]
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_code == 1008
        assert "is revoked" in str(socket.close_reason)
    assert not [create_key async for create_key in storage.redis.scan_iter("thread:*")], "nothing was done"


@pytest.mark.parametrize("path", COMMANDS)
async def test_an_open_web_socket_is_closed_once_its_token_has_expired(workflows: str, path: str) -> None:
    token = shared_secret_token(exp=int(time.time()) - LEEWAY_S + 2)
    place = workflows.replace("http", "ws", 1) + path
    async with connect(place, additional_headers=bearer(token), max_queue=None) as socket:
        for _ in range(30):
            with suppress(ConnectionClosed):
                await socket.send(json.dumps(COMMANDS[path][0]))
            await asyncio.sleep(0.5 if socket.close_code is None else 0)
        assert socket.close_code == 1008
        assert socket.close_reason == "the token has expired"


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
    with running_server(valkey_url, {"looking": looking()}, auth=("keys",)) as url:
        async with get_client(url=url, api_key=await create_key(storage, "alice")) as client:
            said: Any = {"configurable": {"langgraph_auth_user": {"identity": "bob"}}}
            told: Any = await client.runs.wait(None, "looking", input={"seen": []}, config=said)
    assert told["seen"] == [alice, "alice", ["read", "write"], ["alice", "alice", True]]


async def test_without_authentication_a_graph_knows_that_nobody_was_asked(valkey_url: str) -> None:
    with running_server(valkey_url, {"looking": looking()}) as url:
        async with get_client(url=url) as client:
            told: Any = await client.runs.wait(None, "looking", input={"seen": []})
    assert told["seen"] == [None, "", [], None]
