"""Server information, errors, CORS and null values in LangGraph's API."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.doubles.wire_server import running_server


@pytest.fixture(scope="module")
def url(valkey_url: str) -> Iterator[str]:
    with running_server(valkey_url) as server_url:
        yield server_url


@pytest.fixture
async def http(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url) as client:
        yield client


async def test_info_has_the_fields_that_clients_read(http: httpx.AsyncClient) -> None:
    info: Any = (await http.get("/info")).json()
    assert info["flags"]["assistants"] is True
    assert [int(part) for part in info["version"].split(".")] >= [0, 4, 35], "Studio requires that version"
    assert info["host"]["kind"] == "self-hosted"
    assert info["server"]["name"] == "callsheet"


async def test_ok_is_true(http: httpx.AsyncClient) -> None:
    assert (await http.get("/ok")).json()["ok"] is True


async def test_json_with_content_type_text_is_accepted(http: httpx.AsyncClient, url: str) -> None:
    """Studio sends JSON so, which saves the browser a preflight."""
    body = json.dumps({"limit": 10, "offset": 0, "metadata": {"created_by": "system"}})
    reply = await http.post("/assistants/search", content=body, headers={"Content-Type": "text/plain"})
    assert reply.status_code == 200
    assert "agent" in {assistant["graph_id"] for assistant in reply.json()}


async def test_every_error_reply_has_a_detail(http: httpx.AsyncClient) -> None:
    for method, path, body, status in (
        ("GET", "/threads/none", None, 404),
        ("GET", "/threads/none/runs/none/nothing", None, 404),
        ("PUT", "/assistants/search", None, 405),
        ("POST", "/threads/search", "{bad", 422),
        ("POST", "/threads/search", '{"limit": -1}', 422),
        ("POST", "/threads", '{"thread_id": "a\\u0000b"}', 422),
    ):
        reply = await http.request(method, path, content=body)
        assert reply.status_code == status, (path, reply.text)
        assert set(reply.json()) == {"detail"}
        assert reply.json()["detail"]


async def test_errors_of_our_own_api_have_a_type(http: httpx.AsyncClient) -> None:
    reply = await http.get("/api/nothing")
    assert reply.status_code == 404
    assert reply.json()["type"] == "missing"


async def test_cors_exposes_the_headers_of_runs_and_lists(http: httpx.AsyncClient) -> None:
    headers = {"Origin": "http://localhost:3000"}
    reply = await http.post("/threads/search", json={}, headers=headers)
    exposed = {name.strip().lower() for name in reply.headers["access-control-expose-headers"].split(",")}
    assert {"x-pagination-total", "x-pagination-next", "content-location", "location"} <= exposed


async def test_a_private_network_preflight_of_studio_is_accepted(http: httpx.AsyncClient) -> None:
    headers = {
        "Origin": "https://smith.langchain.com",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-auth-scheme",
        "Access-Control-Request-Private-Network": "true",
    }
    reply = await http.options("/threads/search", headers=headers)
    assert reply.status_code == 200
    assert reply.headers["access-control-allow-private-network"] == "true"


async def test_null_in_a_body_means_the_default(http: httpx.AsyncClient) -> None:
    """JavaScript clients send null for parameters that were not set."""
    for path, names in (
        (
            "/assistants/search",
            ("metadata", "graph_id", "limit", "offset", "sort_by", "sort_order", "select"),
        ),
        ("/threads/search", ("metadata", "values", "status", "limit", "sort_by", "sort_order", "extract")),
        ("/threads", ("thread_id", "metadata", "if_exists", "ttl", "supersteps")),
        ("/threads/count", ("metadata", "status")),
        ("/store/items/search", ("namespace_prefix", "filter", "limit", "query", "refresh_ttl")),
        ("/store/namespaces", ("prefix", "suffix", "max_depth", "limit")),
    ):
        reply = await http.post(path, json=dict.fromkeys(names))
        assert reply.status_code == 200, (path, reply.text)
        assert (await http.post(path, json={"no_such_field": 1})).status_code == 200
        assert (await http.post(path)).status_code == 200, path
