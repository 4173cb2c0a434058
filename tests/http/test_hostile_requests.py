"""Requests no client sends: refused quickly, and never an internal error (ARCHITECTURE 7)."""

import gzip
import json
import time
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doubles.waiting import PATIENCE_S
from tests.doubles.wire_served import running_server_on_own_redis

PATHS = (
    "/threads/{}",
    "/threads/{}/state",
    "/threads/{}/state/{}",
    "/threads/{}/history",
    "/threads/{}/runs",
    "/threads/{}/runs/{}",
    "/threads/{}/runs/{}/join",
    "/threads/{}/runs/{}/stream",
    "/threads/{}/stream",
    "/assistants/{}",
    "/assistants/{}/graph",
    "/assistants/{}/subgraphs/{}",
    "/runs/{}",
    "/runs/{}/join",
    "/runs/crons/{}",
    "/store/items?key={}&namespace={}",
    "/api/ads/{}",
    "/api/ads/{}/voices/{}",
    "/api/threads/{}/export",
)
BODIES = (
    ("POST", "/threads", "metadata"),
    ("POST", "/threads", "thread_id"),
    ("POST", "/threads/search", "metadata"),
    ("POST", "/threads/search", "values"),
    ("POST", "/threads/search", "ids"),
    ("POST", "/threads/prune", "thread_ids"),
    ("POST", "/threads/t/commands", "params"),
    ("POST", "/threads/t/stream/events", "channels"),
    ("POST", "/assistants", "graph_id"),
    ("POST", "/assistants/search", "metadata"),
    ("POST", "/runs", "assistant_id"),
    ("POST", "/runs/wait", "input"),
    ("POST", "/runs/cancel", "run_ids"),
    ("POST", "/runs/crons", "schedule"),
    ("POST", "/runs/crons/search", "metadata"),
    ("PUT", "/store/items", "value"),
    ("POST", "/store/items/search", "filter"),
    ("POST", "/store/namespaces", "prefix"),
    ("POST", "/api/ai/generate", "brief"),
    ("POST", "/api/ads/a/chat", "message"),
)
USUAL = {"namespace": ["a"], "key": "k", "id": 1, "method": "run.start", "adId": "a", "schedule": "* * 1 1 *"}
IDS = st.text(min_size=1, max_size=300) | st.sampled_from(
    ["\0", "a\0b", "..", ".", "%2e%2e", "a/b", "\u202e", "{thread}", "*", "\r\nx: y", "١", "🙂" * 70]
)
NUMBERS = st.sampled_from([10**400, -(2**63) - 1, 2**64, 1e308, 5e-324, -0.0, 2**53 + 1])
LEAVES = st.none() | st.booleans() | NUMBERS | st.text(max_size=20) | st.sampled_from(["\0", "__proto__"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)
REFUSED_OR_DONE = {200, 201, 202, 204, 400, 404, 405, 409, 413, 414, 422, 431}
# The server of this process draws from `random`, in a thread of its own, while values are made here.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module")
PATIENT = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with running_server_on_own_redis() as url, httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
        yield client


@PATIENT
@given(template=st.sampled_from(PATHS), ids=st.tuples(IDS, IDS))
def test_no_id_in_a_path_is_an_internal_error(
    http: httpx.Client, template: str, ids: tuple[str, str]
) -> None:
    """X7."""
    path = template.format(*(quote(one, safe="") for one in ids))
    with http.stream("GET", path) as reply:
        # The client makes the server's own address of an id that is two dots; it leads to the documentation.
        found = {*REFUSED_OR_DONE, 307} if reply.url.path == "/" else REFUSED_OR_DONE
        assert reply.status_code in found, (path[:200], reply.read()[:500])


@pytest.mark.parametrize("template", PATHS)
def test_an_id_that_is_too_long_is_nobodys(http: httpx.Client, template: str) -> None:
    """X7."""
    for length in (256, 30_000):
        long = "a" * length
        reply = http.get(template.format(long, long))
        assert reply.status_code in {400, 404, 422} or reply.text == "null", (length, reply.text[:500])
        assert len(reply.text) < 1_000


@PATIENT
@given(where=st.sampled_from(BODIES), value=VALUES)
def test_no_value_in_a_body_is_an_internal_error(
    http: httpx.Client, where: tuple[str, str, str], value: object
) -> None:
    """X7."""
    method, path, field = where
    body = json.dumps({"assistant_id": "counter", **USUAL, field: value})
    reply = http.request(method, path, content=body)
    assert reply.status_code in REFUSED_OR_DONE, (body, reply.text)


TOO_MUCH = {
    "10 MB": (b'"' + b"a" * 10_000_000 + b'"', 413),
    "5,000 levels": (b"[" * 5_000 + b"]" * 5_000, 422),
    "5,000 levels of objects": (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, 422),
    "100,000 keys of which two are one": (
        b"{%s}" % b",".join(b'"%d":1' % min(n, 99_998) for n in range(100_000)),
        422,
    ),
    "an id of 100,000 characters": (b'{"thread_id":"%s"}' % (b"a" * 100_000), 422),
    "half a surrogate pair": (b'{"metadata":{"a":"\\ud800"}}', 422),
    "half a surrogate pair as a key": (b'{"metadata":{"\\udc00":1}}', 422),
    "a number beyond all floats": (b'{"metadata":{"a":1e999}}', 422),
    "a number of 5,000 digits": (b'{"metadata":{"a":%s}}' % (b"9" * 5_000), 422),
    "no number": (b'{"metadata":{"a":NaN}}', 422),
    "not UTF-8": (b'{"metadata":{"a":"\xff"}}', 422),
    "UTF-16": ('{"metadata":{}}'.encode("utf-16"), 422),
    "gzip that unpacks to 10 MB": (gzip.compress(b'"' + b"a" * 10_000_000 + b'"'), 422),
    "nothing but spaces": (b" " * 100_000, 422),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_what_is_too_much_is_refused_at_once(http: httpx.Client, what: str) -> None:
    """X7."""
    body, status = TOO_MUCH[what]
    began = time.process_time()
    reply = http.post("/threads", content=body)
    took_s = time.process_time() - began
    assert reply.status_code == status, reply.text[:500]
    assert reply.headers["content-type"] == "application/json"
    assert len(reply.json()["detail"]) < 500
    # The server is in this process, so its time is in it.
    assert took_s < 0.5, what


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/threads/t", "DELETE, GET, PATCH"),
        ("/threads/t/state", "GET, POST"),
        ("/threads/t/state/checkpoint", "POST"),
        ("/store/items", "DELETE, GET, PUT"),
        ("/ok", "GET, HEAD"),
        ("/docs", "GET, HEAD"),
    ],
)
def test_a_path_that_is_not_served_for_a_method_says_for_which_it_is(
    http: httpx.Client, path: str, methods: str
) -> None:
    reply = http.request("OPTIONS", path)
    assert (reply.status_code, reply.headers["allow"]) == (405, methods)


@pytest.mark.parametrize("wrong", ["1", True, "one"])
def test_a_text_of_digits_is_no_number(http: httpx.Client, wrong: object) -> None:
    reply = http.post("/threads/search", json={"limit": wrong})
    assert (reply.status_code, reply.json()["detail"]) == (
        422,
        f"'limit': {wrong!r} is not a number; see /docs for the fields and their rules",
    )
    assert http.post("/threads/search", json={"limit": 1.0, "offset": None}).status_code == 200
