"""The modules between a request and its first node are those that DESIGN.md names, in that order."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from callsheet.storage.redis import keys
from callsheet.storage.runs.records import RunRequest, request_fields
from tests.doubles.served import BRIEF, calling, running
from tests.doubles.waiting import eventually
from tests.meta.syntax import ROOT

pytestmark = pytest.mark.slow

OFFLINE = {"provider": "offline"}
FIRST_NODE = ("nodes/planner.py", "planner")
TIMED = {"storage/redis/command_policy.py"}
"""Entered only where a command waits for long."""
followed: ContextVar[bool] = ContextVar("followed", default=False)


def named(title: str) -> list[str]:
    """The modules of a walk in DESIGN.md."""
    section = (ROOT / "DESIGN.md").read_text().partition("## The way of a run")[2].partition("\n## ")[0]
    line = next(one for one in section.splitlines() if one.startswith(f"- **{title}**"))
    modules = re.findall(r"`([\w/]+\.py)`", line)
    assert f"** ({len(modules)}): " in line
    return modules


@contextmanager
def traced() -> Iterator[list[str]]:
    """The modules of ours by their first entry, from now to the first node, in what this task starts."""
    entered: dict[str, None] = {}
    token, done = followed.set(True), False

    def enter(frame: FrameType, event: str, _: Any) -> None:
        nonlocal done
        path = frame.f_code.co_filename
        if done or event != "call" or not followed.get() or not path.startswith(f"{ROOT}/"):
            return
        module = path.removeprefix(f"{ROOT}/").removeprefix("callsheet/")
        done = (module, frame.f_code.co_name) == FIRST_NODE
        if not done and not module.startswith(("tests/", ".venv")):
            entered.setdefault(module)

    modules: list[str] = []
    sys.setprofile(enter)
    try:
        yield modules
    finally:
        sys.setprofile(None)
        followed.reset(token)
        assert done, "no node was executed"
        modules += entered


@pytest.fixture
async def app(valkey_url: str) -> AsyncIterator[FastAPI]:
    async with running(valkey_url) as one:
        yield one


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with calling(app) as client:
        yield client


async def walk(request: Awaitable[httpx.Response]) -> list[str]:
    with traced() as modules:
        reply = await request
    assert reply.status_code == 200, reply.text
    return modules


def compare(modules: list[str], title: str) -> None:
    """A run and the reply to its request go on side by side, so from there on the order may differ."""
    listed, recorded = named(title), modules.index("storage/runs/runs.py")
    assert modules[:recorded] == listed[:recorded]
    assert sorted({*modules} - TIMED) == sorted(listed)


async def stream(http: httpx.AsyncClient, thread: str) -> httpx.Response:
    asked = {"messages": [{"role": "user", "content": "make the headline teal"}]}
    body = {"assistant_id": "page_builder", "input": asked, "if_not_exists": "create"}
    return await http.post(f"/threads/{thread}/runs/stream", json={**body, "context": OFFLINE})


async def chat(http: httpx.AsyncClient, ad: str) -> httpx.Response:
    return await http.post(f"/api/ads/{ad}/chat", json={"message": "make the music calmer", **OFFLINE})


async def test_a_stream_walks_as_described(http: httpx.AsyncClient) -> None:
    await stream(http, "warm")
    await stream(http, "t")
    compare(await walk(stream(http, "t")), "`POST /threads/{id}/runs/stream`")


async def test_a_message_walks_as_described(http: httpx.AsyncClient) -> None:
    for ad in ("warm", "ad-1"):
        await http.post("/api/ai/generate", json={"adId": ad, "brief": BRIEF, **OFFLINE})
    await chat(http, "warm")
    compare(await walk(chat(http, "ad-1")), "`POST /api/ads/{id}/chat`")


async def test_a_run_of_a_dead_process_walks_as_described(app: FastAPI, http: httpx.AsyncClient) -> None:
    await stream(http, "t")
    ctx = app.state.context
    asked = {"messages": [{"role": "user", "content": "make the headline teal"}]}
    fields = request_fields(input=asked, context=OFFLINE)
    await ctx.worker.runs.create(RunRequest("t", "r", "page_builder", "local", fields), claim=True)
    await ctx.storage.redis.delete(keys.run_keys("t").lease)
    with traced() as modules:
        await asyncio.create_task(ctx.worker.execute("t", "r"))
    compare(modules, "A run whose process died")

    async def has_ended() -> bool:
        return bool(await ctx.worker.runs.has_ended("t", "r"))

    await eventually(has_ended, "the end of the run")
