"""Mutated files of threads: refused with a reason, or imported so that everything can be read."""

import copy
import json
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import httpx
import pytest

from callsheet.server.app import create_app
from callsheet.server.settings.settings import Settings
from tests.doubles.documented import OURS
from tests.doubles.served import app_client, generate_ad
from tests.doubles.wire_graphs import GRAPHS
from tests.storage.test_archive import change_lines, export_thread
from tests.storage.test_lifetimes import CountingClient, make_video

MUTATIONS: Final = 300
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, -1, 0, 2**53, 2**63, 2**64, -(2**70), 10**400, 0.5, 1e308, -0.0),
    *("", "x", "\0", "é" * 300, "v1", "-inf", "2026-13-01", "__root__", "ad-1", "AAAA", "gA=="),
    *([], {}, [[]], [None], {"": {}}, {"json": 5}, {"as": "msgpack", "base64": "wQ=="}),
)
"""Values of other types, over limits, and with a meaning elsewhere."""


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in list(items):
        yield value, key
        yield from places(part)


def mutate(lines: list[dict[str, Any]], chances: random.Random) -> None:
    """Change one or two things in the lines between the first and the last."""
    for _ in range(chances.choice((1, 1, 1, 2))):
        at = chances.randrange(1, len(lines) - 1)
        kind = chances.random()
        if kind < 0.08 and len(lines) > 4:
            del lines[at]
        elif kind < 0.16:
            lines.insert(chances.randrange(1, len(lines) - 1), copy.deepcopy(lines[at]))
        elif kind < 0.24:
            other = chances.randrange(1, len(lines) - 1)
            lines[at], lines[other] = lines[other], lines[at]
        elif candidates := list(places(lines[at]["data"])):
            holder, key = chances.choice(candidates)
            if kind < 0.4:
                del holder[key]
            elif kind < 0.5:
                holder[key] = copy.deepcopy(chances.choice(chances.choice(candidates)[:1]))
            else:
                holder[key] = copy.deepcopy(chances.choice(VALUES))


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Settings(redis_url=valkey_url), {**GRAPHS, **OURS.graphs})
    async with app.router.lifespan_context(app), app_client(app) as one:
        yield one


async def list_executions(client: httpx.AsyncClient, project: str) -> list[str]:
    """Return the ids of a project's executions; none for a thread without one."""
    reply = await client.get(f"/api/projects/{project}/executions")
    return [one["id"] for one in reply.json()["executions"]] if reply.status_code == 200 else []


async def export_threads(client: httpx.AsyncClient) -> list[tuple[bytes, list[str]]]:
    """Export threads of several kinds, each with the paths that read one named `copy`."""
    thread_paths = [f"/threads/copy{part}" for part in ("", "/history?limit=100", "/runs", "/storage")]
    thread_paths += ["/api/threads/copy/export", "/api/ads", "/api/pages", "/api/agent-create/sessions"]
    await generate_ad(client)
    ad_paths = [f"/api/ads/copy{part}" for part in ("", "/voices", "/music/v1", "/timeline", "/conversation")]
    hello = {"message": "add a hero section", "provider": "offline"}
    assert (await client.post("/api/pages/page-1/chat", json=hello)).status_code == 200
    page_paths = [f"/api/pages/copy{part}" for part in ("", "/versions", "/export")]
    exports = [
        (await export_thread(client), [*thread_paths, *ad_paths]),
        (await export_thread(client, "page-1"), [*thread_paths, *page_paths]),
    ]
    await make_video(CountingClient(client), "launch")
    video_paths = [f"/api/projects/copy{part}" for part in ("", "/scenes", "/executions", "/context")]
    exports.append((await export_thread(client, "launch"), [*thread_paths, *video_paths]))
    for graph in ("agent", "parent", "counter"):
        thread = (await client.post("/threads", json={})).json()["thread_id"]
        values = {"x": 1, "messages": [{"role": "user", "content": "hi"}]}
        body = {"assistant_id": graph, "input": values}
        assert (await client.post(f"/threads/{thread}/runs/wait", json=body)).status_code == 200
        exports.append((await export_thread(client, thread), thread_paths))
    return exports


def count_lines(content: bytes) -> Counter[str]:
    """Return how many lines of each kind a file has, without elements."""
    kinds = Counter(json.loads(one)["type"] for one in content.splitlines())
    del kinds["element"]
    return kinds


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("thread", "the thread twice"),
        ("element", "element 0 twice"),
        ("value", "the value of .* twice"),
        ("checkpoint", "checkpoint .* twice"),
        ("stream", "a stream twice"),
        ("version", "a version twice"),
    ],
)
async def test_a_line_that_is_twice_in_a_file_is_refused(
    client: httpx.AsyncClient, kind: str, words: str
) -> None:
    """One of them would be lost."""
    await generate_ad(client)
    content = await export_thread(client)

    def repeat(lines: list[dict[str, Any]]) -> None:
        at = next(number for number, line in enumerate(lines) if line["type"] == kind)
        lines.insert(at + 1, copy.deepcopy(lines[at]))

    reply = await client.post(
        "/api/threads/import", params={"as": "b"}, content=change_lines(content, repeat)
    )
    assert reply.status_code == 422
    assert re.search(words, reply.json()["error"]), reply.text


async def test_a_value_that_no_checkpoint_has_or_only_some_have_is_refused(client: httpx.AsyncClient) -> None:
    await generate_ad(client)
    content = await export_thread(client)

    def orphan(lines: list[dict[str, Any]]) -> None:
        last = max(number for number, line in enumerate(lines) if line["type"] == "checkpoint")
        del lines[last]

    def take(lines: list[dict[str, Any]]) -> None:
        checkpoints = [line["data"] for line in lines if line["type"] == "checkpoint"]
        checkpoints[-1]["values"].remove("brief")

    for change, words in ((orphan, "which no checkpoint has"), (take, "with and without a value of 'brief'")):
        file = change_lines(content, change)
        reply = await client.post("/api/threads/import", params={"as": "b"}, content=file)
        assert (reply.status_code, words in reply.json()["error"]) == (422, True), reply.text


@pytest.mark.slow
async def test_a_mutated_file_is_refused_or_imported_so_that_it_can_be_read(
    client: httpx.AsyncClient,
) -> None:
    """No internal error, no partial import, no broken list, and no line lost."""
    chances, exports, accepted = random.Random(1), await export_threads(client), 0
    for number in range(MUTATIONS):
        (content, paths), name = chances.choice(exports), f"copy-{number}"
        file = change_lines(content, lambda lines: mutate(lines, chances))
        reply = await client.post("/api/threads/import", params={"as": name}, content=file)
        assert reply.status_code in {201, 400, 422}, (number, reply.text)
        if reply.status_code != 201:
            assert reply.json()["error"], number
            assert (await client.get(f"/threads/{name}")).status_code == 404, number
            continue
        accepted += 1
        for path in (path.replace("copy", name) for path in paths):
            # A version or a page may be missing in the file.
            fits = {200} if path.startswith("/threads") else {200, 404}
            assert (await client.get(path)).status_code in fits, (number, path)
        for execution in await list_executions(client, name):
            assert (await client.get(f"/api/executions/{execution}")).status_code == 200, (number, execution)
        # Pending writes that fit no state are imported; /state reports them as a conflict.
        assert (await client.get(f"/threads/{name}/state")).status_code in {200, 409}, number
        assert (await client.post("/threads/search", json={"ids": [name]})).status_code == 200, number
        again = await export_thread(client, name)
        # The same lines of all kinds but elements: a list may be written with its elements apart.
        assert count_lines(again) == count_lines(file), number
    assert accepted > MUTATIONS / 20


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**400], ids=["above", "below", "long"])
async def test_an_integer_over_64_bits_is_refused_by_its_line(client: httpx.AsyncClient, number: int) -> None:
    await generate_ad(client)
    content = await export_thread(client)

    def change(lines: list[dict[str, Any]]) -> None:
        lines[1]["data"]["metadata"]["large"] = number

    reply = await client.post("/api/threads/import", content=change_lines(content, change))
    assert reply.status_code == 422
    assert "line 2" in reply.json()["error"]
    assert "64 bits" in reply.json()["error"]
