"""Requests answered past FastAPI's machinery are answered as if it had been there."""

from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response
from starlette.types import Message

from callsheet.server.http import direct, requests
from callsheet.server.http.requests import StrictRoute

ASKED = [
    *(b"", b"null", b"{}", b"[]", b"{", b'{"count": 1, "count": 2}', b'{"count": "many"}', b"\xff"),
    *(b'{"count": 2}', b'{"count": 101}', b'{"count": 2, "more": [1, {}]}', b'{"count": NaN}'),
]


class Body(BaseModel):
    """What is sent."""

    count: int = Field(le=100)


async def _short(number: int, body: Body, request: Request) -> Response:
    return JSONResponse([number, body.count, request.url.path])


async def _long(number: int, body: Body, request: Request, more: int = Query(0)) -> Response:
    del more
    return await _short(number, body, request)


async def _maybe_short(request: Request, body: Body | None = None) -> Response:
    return JSONResponse([body and body.count, request.method])


async def _maybe_long(request: Request, body: Body | None = None, more: int = Query(0)) -> Response:
    del more
    return await _maybe_short(request, body)


async def _no_reply(body: Body, request: Request) -> dict[str, Any]:
    return {"count": body.count, "path": request.url.path}


def _app(path: str, endpoint: Any) -> FastAPI:
    app = FastAPI()
    app.router.routes.append(StrictRoute(path, endpoint, methods=["POST"]))
    return app


def _is_direct(app: FastAPI) -> bool:
    return isinstance(getattr(app.router.routes[-1], "app", None), direct.DirectEndpoint)


async def _told(app: FastAPI, path: str, body: bytes) -> tuple[int, Any]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
        reply = await client.post(path, content=body)
    return reply.status_code, reply.json()


@pytest.mark.parametrize("body", ASKED, ids=repr)
@pytest.mark.parametrize("number", ["7", "seven", "7%2F8"])
async def test_a_request_is_answered_as_one_that_fastapi_takes_apart(number: str, body: bytes) -> None:
    short, long = _app("/{number}", _short), _app("/{number}", _long)
    assert (_is_direct(short), _is_direct(long)) == (True, False)
    assert await _told(short, f"/{number}", body) == await _told(long, f"/{number}", body)


@pytest.mark.parametrize("body", ASKED, ids=repr)
async def test_a_body_may_be_left_out_where_it_may(body: bytes) -> None:
    short, long = _app("/", _maybe_short), _app("/", _maybe_long)
    assert (_is_direct(short), _is_direct(long)) == (True, False)
    assert await _told(short, "/", body) == await _told(long, "/", body)


@pytest.mark.parametrize("body", [b"{", b'{"count": 101}', b'{"count": 2}', b"\xff"], ids=repr)
async def test_a_body_is_read_once(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    read: list[bytes] = []
    once = requests.parse_json

    def counted(body: bytes) -> Any:
        read.append(body)
        return once(body)

    monkeypatch.setattr(requests, "parse_json", counted)
    await _told(_app("/{number}", _short), "/7", body)
    assert read == [body]


async def test_what_makes_no_reply_of_its_own_is_left_to_fastapi() -> None:
    app = _app("/", _no_reply)
    assert not _is_direct(app)
    assert await _told(app, "/", b'{"count": 3}') == (200, {"count": 3, "path": "/"})


async def test_a_caller_who_goes_away_in_the_middle_of_a_body_had_a_bad_request() -> None:
    parts: list[Message] = [{"type": "http.request", "body": b'{"cou', "more_body": True}]
    sent: list[Message] = []

    async def receive() -> Message:
        return parts.pop() if parts else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/7", "headers": [], "query_string": b""}
    await _app("/{number}", _short)(scope, receive, send)
    assert sent[0]["status"] == 400
