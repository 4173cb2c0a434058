"""The real application on a real Valkey, called through ASGI, and helpers that call it."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI

from callsheet.server.app import create_app
from callsheet.server.http.auth import required_permission
from callsheet.server.http.policy import resolve_policy
from callsheet.server.settings.settings import Settings
from tests.doubles.documented import assert_documented, loaded_app

BRIEF: Mapping[str, Any] = {
    "clientDescription": "Miel, a bakery in Lyon that bakes sourdough bread at four every morning",
    "targetAudience": "families in the neighbourhood",
    "duration": 30,
    "market": "US",
    "language": "english",
}
GENERATE: Mapping[str, Any] = {"adId": "ad-1", "brief": BRIEF, "provider": "offline"}
VOICE = "openai/alloy@english"


@asynccontextmanager
async def started_app(url: str, **chosen: Any) -> AsyncIterator[FastAPI]:
    """The application, started; `url` is its Redis."""
    app = create_app(Settings(redis_url=url, **chosen))
    async with app.router.lifespan_context(app):
        yield app


def scope_with_policy(scope: dict[str, Any]) -> dict[str, Any]:
    """This scope, without a query unless it has one, with the policy of the route that it reaches."""
    scope = {"query_string": b"", "headers": [], **scope}
    resolve_policy(scope, loaded_app().router.routes)
    return scope


def route_permission(method: str, path: str, query: str = "") -> str:
    """The permission that a request needs."""
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode()}
    return required_permission(scope_with_policy(scope))


@asynccontextmanager
async def app_client(app: FastAPI, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a started application."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    settings = {"base_url": "http://127.0.0.1:2024", "timeout": 30.0, **options}
    async with httpx.AsyncClient(transport=transport, **settings) as client:
        yield client


@asynccontextmanager
async def served_app(url: str, **chosen: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application of its own; every reply must be as the documentation says."""
    async with (
        started_app(url, **chosen) as app,
        app_client(app, event_hooks={"response": [assert_documented]}) as client,
    ):
        yield client


async def generate_ad(client: httpx.AsyncClient, **changed: Any) -> dict[str, Any]:
    """The reply to a brief that must succeed."""
    reply = await client.post("/api/ai/generate", json={**GENERATE, **changed})
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


async def chat_about_ad(
    client: httpx.AsyncClient, message: str, ad_id: str = "ad-1", **more: Any
) -> dict[str, Any]:
    """The reply to a chat message that must succeed."""
    reply = await client.post(
        f"/api/ads/{ad_id}/chat", json={"message": message, "provider": "offline", **more}
    )
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


def parse_events(text: str) -> list[tuple[str, Any]]:
    """The events of a stream, by name, in order; comments are left out."""
    events = []
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            fields = dict(line.split(": ", 1) for line in lines)
            events.append((fields["event"], json.loads(fields["data"])))
    return events
