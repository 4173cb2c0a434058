"""LangGraph's SDK and web sockets against a server with authentication (X16)."""

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

REQUESTS_PER_MINUTE = 20
SETTINGS: dict[str, Any] = {
    "auth": ("keys", "jwt"),
    "jwt_secret": SECRET,
    "jwt_audience": "callsheet",
    "requests_per_minute": REQUESTS_PER_MINUTE,
}
START_COMMAND = {"id": 1, "method": "run.start", "params": {"assistant_id": "counter", "input": {"x": 1}}}
ClientFactory = Callable[..., LangGraphClient]


@pytest.fixture
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url, **SETTINGS) as url:
        yield url


@pytest.fixture
async def client(url: str) -> AsyncIterator[ClientFactory]:
    """A factory of clients, which are closed after the test."""
    async with AsyncExitStack() as stack:

        def create(**options: Any) -> LangGraphClient:
            client = get_client(url=url, **options)
            stack.push_async_callback(client.aclose)
            return client

        yield create


async def test_a_client_with_a_key_or_a_token_sees_only_its_owners_data(
    client: ClientFactory, storage: Storage
) -> None:
    alices = client(api_key=await create_key(storage, "alice"))
    thread = await alices.threads.create(metadata={"of": "alice"})
    same_owner = client(api_key=None, headers=bearer(shared_secret_token(sub="alice")))
    assert [item["thread_id"] for item in await same_owner.threads.search()] == [thread["thread_id"]]
    await alices.store.put_item(["notes"], "a", {"text": "hers"})
    bobs = client(api_key=await create_key(storage, "bob"))
    assert await bobs.threads.search() == []
    assert (await bobs.store.search_items(["notes"]))["items"] == []
    with pytest.raises(NotFoundError):
        await bobs.threads.get(thread["thread_id"])


async def test_the_sdk_raises_its_own_error_for_401_403_and_429(
    client: ClientFactory, storage: Storage
) -> None:
    for client_without_access in (
        client(api_key="lsv2_pt_x"),
        client(headers=bearer(shared_secret_token(exp=1))),
    ):
        with pytest.raises(AuthenticationError):
            await client_without_access.threads.search()
    read_only = client(api_key=await create_key(storage, "alice", "read"))
    with pytest.raises(PermissionDeniedError, match="'write'"):
        await read_only.threads.create()
    for _ in range(REQUESTS_PER_MINUTE):
        await read_only.threads.search()
    with pytest.raises(RateLimitError, match=f"more than {REQUESTS_PER_MINUTE} requests"):
        await read_only.threads.search()


async def test_a_web_socket_is_authenticated_by_its_subprotocol(
    url: str, client: ClientFactory, storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    """X16: browsers cannot set headers on web sockets."""
    for library in ("uvicorn.error", "websockets.client"):
        # These libraries log headers at DEBUG level; our own log lines hide secrets (test_logs.py).
        caplog.set_level(logging.INFO, library)
    alice = await create_key(storage, "alice")
    thread_id = (await client(api_key=alice).threads.create())["thread_id"]
    address = f"{url.replace('http', 'ws', 1)}/threads/{thread_id}/stream/events"
    tokens = [shared_secret_token(sub=name) for name in ("alice", "bob")]
    for secret, owner in ((alice, "alice"), (tokens[0], "alice"), (tokens[1], "bob")):
        async with connect(address, subprotocols=[Subprotocol("bearer"), Subprotocol(secret)]) as socket:
            assert socket.subprotocol == "bearer"
            await socket.send(json.dumps(START_COMMAND))
            reply = json.loads(await socket.recv())
            assert (owner, reply["type"]) in {("alice", "success"), ("bob", "error")}
    refused_offers = [["bearer", "cs_wrong"], ["bearer"], [alice], [alice, "bearer"], ["chat", alice]]
    for offer in refused_offers:
        with pytest.raises(InvalidStatus):
            async with connect(address, subprotocols=[Subprotocol(protocol) for protocol in offer]):
                pass


COMMANDS = {
    "/ws": (
        {"type": "userMessage", "conversationId": "page-1", "content": "x", "provider": "offline"},
        "error",
    ),
    "/threads/page-1/stream/events": (START_COMMAND, "message"),
}
"""By web socket path: a command, and the field of its refusal that holds the reason."""


@pytest.fixture
def workflows(valkey_url: str, caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    """The URL of a server with all workflows, whose libraries do not log headers."""
    for library in ("uvicorn.error", "websockets.client"):
        caplog.set_level(logging.INFO, library)
    with running_server(valkey_url, None, **SETTINGS) as url:
        yield url


@pytest.mark.parametrize("commands", [1, 0], ids=["at its next command", "in silence"])
@pytest.mark.parametrize("path", COMMANDS)
async def test_an_open_web_socket_is_closed_once_its_key_is_revoked(
    workflows: str, storage: Storage, path: str, commands: int
) -> None:
    key = await create_key(storage, "alice")
    async with connect(workflows.replace("http", "ws", 1) + path, additional_headers=bearer(key)) as socket:
        command, field = COMMANDS[path]
        await socket.send("{}")
        assert "is revoked" not in str(await socket.recv())
        await api_keys.revoke(storage, key.split("_")[1])
        with suppress(ConnectionClosed):
            for _ in range(commands):
                await socket.send(json.dumps(command))
            frame = await asyncio.wait_for(socket.recv(), timeout=10)
            assert "is revoked" in json.loads(frame)[field]
        await asyncio.wait_for(socket.wait_closed(), timeout=10)
        assert socket.close_code == 1008
        assert "is revoked" in str(socket.close_reason)
    assert not [thread async for thread in storage.redis.scan_iter("thread:*")], (
        "the refused command wrote nothing"
    )


@pytest.mark.parametrize("path", COMMANDS)
async def test_an_open_web_socket_is_closed_once_its_token_has_expired(workflows: str, path: str) -> None:
    token = shared_secret_token(exp=int(time.time()) - LEEWAY_S + 2)
    address = workflows.replace("http", "ws", 1) + path
    async with connect(address, additional_headers=bearer(token), max_queue=None) as socket:
        for _ in range(30):
            with suppress(ConnectionClosed):
                await socket.send(json.dumps(COMMANDS[path][0]))
            await asyncio.sleep(0.5 if socket.close_code is None else 0)
        assert socket.close_code == 1008
        assert socket.close_reason == "the token has expired"


class CallerState(TypedDict):
    caller: list[Any]


def read_caller(state: CallerState, config: RunnableConfig) -> CallerState:
    """Return the caller from every place where a graph can read it."""
    info = get_runtime().server_info
    assert info is not None
    configurable, user = config["configurable"], info.user
    values = [configurable[f"langgraph_auth_{name}"] for name in ("user", "user_id", "permissions")]
    return {"caller": [*values, user and [user.identity, user.display_name, user.is_authenticated]]}


def caller_graph() -> Any:
    return (
        StateGraph(CallerState).add_node("look", read_caller).add_edge(START, "look").compile(name="looking")
    )


async def test_a_graph_can_read_the_authenticated_caller(valkey_url: str, storage: Storage) -> None:
    """X16."""
    alice = {
        "identity": "alice",
        "display_name": "alice",
        "is_authenticated": True,
        "permissions": ["read", "write"],
    }
    with running_server(valkey_url, {"looking": caller_graph()}, auth=("keys",)) as url:
        async with get_client(url=url, api_key=await create_key(storage, "alice")) as client:
            config: Any = {"configurable": {"langgraph_auth_user": {"identity": "bob"}}}
            state: Any = await client.runs.wait(None, "looking", input={"caller": []}, config=config)
    assert state["caller"] == [alice, "alice", ["read", "write"], ["alice", "alice", True]]


async def test_without_authentication_a_graph_reads_no_caller(valkey_url: str) -> None:
    with running_server(valkey_url, {"looking": caller_graph()}) as url:
        async with get_client(url=url) as client:
            state: Any = await client.runs.wait(None, "looking", input={"caller": []})
    assert state["caller"] == [None, "", [], None]
