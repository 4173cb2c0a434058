"""Bodies of odd types on every POST route of the OpenAPI document: no internal error, no broken list."""

import copy
import random
import re
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest

from tests.served import GENERATE, OURS
from tests.test_archive_fuzz import places
from tests.wire_graphs import GRAPHS
from tests.wire_server import serving

BODIES: Final = 12
"""Bodies for each route."""
HELLO: Final = {"role": "user", "content": "hello", "id": "m1"}
ODD: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 0.1, 2**63, 2**70, "", "x", "\0", "é" * 300, "__root__", "counter", "v1"),
    *([], {}, [5], [[]], [None], {"a": 1}, {"": {}}, {"configurable": 0.1}, {"__overwrite__": [5]}),
    *([HELLO], [{"role": "nobody", "content": "hi"}], [{"type": "remove", "id": "gone", "content": ""}]),
)
"""Values of other types, over limits, and with a meaning elsewhere."""
GIVEN: Final = {"messages": [HELLO], "x": 1}
OPTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "input": (GIVEN, GIVEN, *({"messages": odd} for odd in ODD)),
    "values": (GIVEN, {"messages": [5]}),
    "checkpoint": tuple({name: odd} for odd in ODD for name in ("checkpoint_id", "checkpoint_ns")),
    "before": ODD,
    "adId": ("known",),
    "as_node": ("plan",),
    "schedule": ("0 0 1 1 *",),
    "method": ("run.start", "input.respond", "agent.getTree"),
    "after_seconds": (None,),
}
"""Values to choose from for fields of these names: few made at random would reach as far."""
LISTS: Final = ("/threads/search", "/threads/count", "/assistants/search", "/runs/crons/search")


def example(schema: dict[str, Any], spec: dict[str, Any], depth: int = 0) -> Any:
    """A value of roughly this schema; most are mutated anyway."""
    while "$ref" in schema or "anyOf" in schema or "allOf" in schema or "oneOf" in schema:
        if "$ref" in schema:
            schema = spec["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        else:
            schema = next(schema[name] for name in ("anyOf", "allOf", "oneOf") if name in schema)[0]
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if schema.get("type") == "array":
        return [example(schema.get("items", {}), spec, depth + 1)] if depth < 4 else []
    fields = schema.get("properties", {}) if depth < 4 else {}
    simple = {"string": "x", "integer": 1, "number": 1.5, "boolean": True}
    return simple.get(
        schema.get("type", ""), {name: example(one, spec, depth + 1) for name, one in fields.items()}
    )


def mutated(body: Any, known: dict[str, tuple[Any, ...]], chances: random.Random) -> Any:
    """A copy of `body` that names what is there, with some of its parts replaced or left out."""
    body = copy.deepcopy(body)
    for holder, key in places(body):
        if isinstance(holder, dict) and key in known and chances.random() < 0.9:
            holder[key] = copy.deepcopy(chances.choice(known[key]))
        elif isinstance(holder, dict) and chances.random() < 0.3:
            del holder[key]
    for _ in range(chances.randint(0, 3)):
        found = list(places(body))
        if not found:
            return chances.choice(ODD)
        holder, key = chances.choice(found)
        holder[key] = copy.deepcopy(chances.choice(ODD))
    return body


@pytest.fixture(scope="module")
def url(valkey_url: str) -> Iterator[str]:
    with serving(valkey_url, {**GRAPHS, **OURS.graphs}) as found:
        yield found


@pytest.mark.slow
async def test_no_body_on_any_post_route_is_an_internal_error(http: httpx.AsyncClient) -> None:
    spec: Any = (await http.get("/openapi.json")).json()
    assert (await http.post("/api/ai/generate", json={**GENERATE, "adId": "known"})).status_code == 200
    thread = (await http.post("/threads", json={})).json()["thread_id"]
    await http.post(f"/threads/{thread}/runs/wait", json={"assistant_id": "agent", "input": GIVEN})
    (run,) = (await http.get(f"/threads/{thread}/runs")).json()
    names = {"thread_id": thread, "run_id": run["run_id"], "assistant_id": "agent", "graph_id": "agent"}
    known = OPTIONS | {name: (value,) for name, value in names.items()}
    known["params"] = tuple({"assistant_id": "agent", "input": given} for given in OPTIONS["input"])
    chances = random.Random(1)
    posts = {path: methods["post"] for path, methods in spec["paths"].items() if "post" in methods}
    assert len(posts) > 40
    for path, operation in posts.items():
        content = operation.get("requestBody", {}).get("content", {})
        body = example(content.get("application/json", {}).get("schema", {}), spec)
        for _ in range(BODIES):
            filled = re.sub(r"{(\w+)}", lambda part: {**names, "stream": "music"}.get(part[1], "known"), path)
            sent = mutated(body, known, chances)
            # A stream is left once it has begun.
            async with http.stream("POST", filled, json=sent) as reply:
                text = "" if reply.status_code < 500 else (await reply.aread()).decode()
                assert not text, (filled, sent)
        for listing in LISTS:
            assert (await http.post(listing, json={})).status_code == 200, (path, listing)
