"""Logs of runs: each ended attempt leaves one line with its facts, and the cause where it failed (X9)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from callsheet.storage.embedded import server as embedded
from tests.doubles.chat_double import ChatDouble, Fail, Say, Silence
from tests.doubles.command import ROOT, run, start_server, stop_server
from tests.doubles.killing import WarmParent
from tests.doubles.served import GENERATE
from tests.doubles.waiting import until

pytestmark = pytest.mark.slow
GRAPHS = {
    **{
        name: f"{ROOT}/tests/engine/failing_graphs.py:{name}"
        for name in ("raising", "killing", "waiting", "passing", "exiting", "panicking")
    },
    "ad_creation": "callsheet.graphs.ad_creation:graph",
}
LOGGER = "callsheet.server.engine.attempt_log"


def config(folder: Path) -> str:
    file = folder / "langgraph.json"
    file.write_text(json.dumps({"dependencies": [str(ROOT)], "graphs": GRAPHS}))
    return str(file)


def log_lines(file: Path) -> list[dict[str, Any]]:
    """The lines of a log in JSON; others are a greeting's."""
    return [json.loads(line) for line in file.read_text().splitlines() if line.startswith("{")]


class Server:
    """A server process whose log is read."""

    def __init__(self, url: str, log: Path) -> None:
        self.log = log
        self.http = httpx.Client(base_url=url, timeout=60)

    def ad(self, ad_id: str) -> httpx.Response:
        body = {**GENERATE, "adId": ad_id, "provider": "openai"}
        return self.http.post("/api/ai/generate", json=body)

    def run(self, graph: str) -> httpx.Response:
        thread = self.http.post("/threads", json={}).json()["thread_id"]
        body = {"assistant_id": graph, "input": {"x": 1}}
        return self.http.post(f"/threads/{thread}/runs/wait", json=body)

    def lines(self, **fields: Any) -> list[dict[str, Any]]:
        """The lines about attempts that have these fields."""
        return [
            line
            for line in log_lines(self.log)
            if line["logger"] == LOGGER and fields.items() <= line.items()
        ]

    def line(self, **fields: Any) -> dict[str, Any]:
        """The one line about an attempt that has these fields, and no other warning about its run."""
        until(lambda: self.lines(**fields), f"a line with {fields}")
        [line] = self.lines(**fields)
        others = [
            other
            for other in log_lines(self.log)
            if other.get("run_id") == line["run_id"] and other["level"] != "info" and other != line
        ]
        assert not [one for one in others if one["logger"] != "server.requests"], others
        return line


def is_gone(url: str) -> bool:
    try:
        httpx.get(f"{url}/ok")
    except httpx.TransportError:
        return True
    return False


@contextmanager
def serving(warm_parent: WarmParent, folder: Path, **env: str) -> Iterator[Server]:
    running = start_server(folder, folder / "data", warm_parent, CALLSHEET_CONFIG=config(folder), **env)
    server = Server(running.url, folder / "err")
    try:
        yield server
    finally:
        server.http.close()
        assert stop_server(running) == 0


@pytest.fixture(scope="module")
def vendor() -> Iterator[ChatDouble]:
    with ChatDouble() as double:
        yield double


@pytest.fixture
def model(vendor: ChatDouble) -> ChatDouble:
    """The vendor's endpoint, without a script."""
    vendor.clear()
    return vendor


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "data"


@pytest.fixture(scope="module")
def server(warm_parent: WarmParent, vendor: ChatDouble, data: Path) -> Iterator[Server]:
    settings = {
        "OPENAI_MODEL": "gpt-4o-mini",
        "OPENAI_TIMEOUT_S": "1",
        "CALLSHEET_BUDGETS": '{"thread": 0.5}',
    }
    with serving(warm_parent, data.parent, **vendor.environ, **settings) as one:
        yield one


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "OPENAI_API_KEY"), (429, "limit"), (500, "failed")],
)
def test_a_run_that_the_model_refuses_leaves_one_line_with_its_cause(
    server: Server, model: ChatDouble, status: int, words: str
) -> None:
    model.script(*[Fail(status, f"scripted {status}; key {model.key}")] * 4)
    reply = server.ad(f"ad-{status}")
    assert reply.status_code >= 400
    line = server.line(thread_id=f"ad-{status}")
    assert (line["level"], line["status"], line["graph"]) == ("warning", "error", "ad_creation")
    assert (line["attempt"], line["model_calls"], line["cost_usd"]) == (1, 1, 0)
    assert 0 <= line["took_s"] < 30
    assert 0 <= line["waited_s"] < 30
    assert line["owner"] == "local"
    assert line["kind"]
    assert words in line["event"] + line["remedy"]
    assert model.key not in server.log.read_text()


def test_the_vendors_words_about_a_limit_are_in_the_line(server: Server, model: ChatDouble) -> None:
    """After the name of a key and a colon, the first of them would be hidden as the key."""
    model.script(*[Fail(429, "Rate limit reached for requests")] * 4)
    assert server.ad("ad-limited").status_code == 429
    assert "OPENAI_API_KEY (429): Rate limit reached" in server.line(thread_id="ad-limited")["event"]


def test_a_run_whose_model_is_silent_leaves_one_line_with_its_cause(
    server: Server, model: ChatDouble
) -> None:
    model.script(Silence(), Silence(), Silence())
    assert server.ad("ad-silent").status_code >= 400
    line = server.line(thread_id="ad-silent")
    assert (line["level"], line["status"], line["model_calls"]) == ("warning", "error", 1)
    assert line["kind"] == "TimedOut"
    assert line["took_s"] >= 1


def test_a_node_that_raises_leaves_one_line_with_its_trace_and_no_secret(server: Server) -> None:
    server.run("raising")
    line = server.line(graph="raising")
    assert (line["level"], line["status"], line["kind"]) == ("warning", "error", "ValueError")
    assert "ValueError: the number 1 does not fit" in line["event"]
    assert "failing_graphs.py" in line["exception"]
    assert "abcdef1234567890" not in server.log.read_text()


@pytest.mark.parametrize(
    ("graph", "words"), [("exiting", "SystemExit(1)"), ("panicking", "Panic('out of range')")]
)
def test_code_that_exits_or_panics_fails_its_run_and_not_the_server(
    server: Server, graph: str, words: str
) -> None:
    """X8: `sys.exit` in a node ended each process that tried the run; a panic looked like a dead process."""
    error = server.run(graph).json()["__error__"]
    assert error["error"] == "RuntimeError"
    assert words in error["message"]
    assert "raise an Exception instead" in error["message"]
    line = server.line(graph=graph)
    assert (line["level"], line["status"], line["attempt"]) == ("warning", "error", 1)
    assert "failing_graphs.py" in line["exception"]
    assert server.http.get("/health").status_code == 200


def test_a_run_that_succeeds_leaves_one_line_with_its_cost(server: Server, model: ChatDouble) -> None:
    server.run("passing")
    assert server.line(graph="passing")["status"] == "success"
    # An answer without a draft is asked for again.
    model.script(*[Say("Which shop?", prompt_tokens=1_000_000, completion_tokens=0)] * 2)
    server.ad("ad-paid")
    line = server.line(thread_id="ad-paid")
    assert (line["level"], line["status"], line["model_calls"]) == ("info", "success", 2)
    assert line["cost_usd"] == pytest.approx(0.3)


def test_a_run_that_asks_about_its_budget_leaves_one_line_with_the_question(
    server: Server, model: ChatDouble
) -> None:
    model.script(Say("", calls=(("c1", "search_voices", "{}"),), prompt_tokens=4_000_000))
    server.ad("ad-budget")
    line = server.line(thread_id="ad-budget")
    assert (line["status"], line["question"]) == ("success", "raise_budget")
    assert line["cost_usd"] == pytest.approx(0.6, rel=0.01)


def test_the_cause_of_an_unhealthy_server_is_logged_once(server: Server, data: Path) -> None:
    """Not for each request, and again only after it has changed."""
    lease = embedded.ensure_running(data)

    def health() -> int:
        return server.http.get("/health").status_code

    def health_lines() -> list[tuple[str, str]]:
        lines = log_lines(server.log)
        return [(one["level"], one["event"]) for one in lines if one["logger"].endswith("redis.health")]

    try:
        with Redis.from_url(lease.url) as storage:
            for _ in range(2):
                before = len(health_lines())
                storage.replicaof("127.0.0.1", "1")
                assert [health() for _ in range(4)] == [503] * 4
                storage.replicaof("NO", "ONE")
                assert [health() for _ in range(4)] == [200] * 4
                outage, recovery = health_lines()[before:]
                assert outage[0] == "error"
                assert "is a replica and takes no writes" in outage[1]
                assert "Point REDIS_URL to the primary" in outage[1]
                assert recovery[0] == "info"
    finally:
        lease.close()


def test_a_run_that_takes_too_long_leaves_one_line_with_the_key_that_requested_it(
    warm_parent: WarmParent, tmp_path: Path
) -> None:
    created = run("keys", "create", "ana", "--data-dir", str(tmp_path / "data"), folder=tmp_path)
    key = created.out.strip()
    with serving(warm_parent, tmp_path, CALLSHEET_AUTH="keys", CALLSHEET_RUN_TIMEOUT_S="2") as server:
        server.http.headers["X-Api-Key"] = key
        server.run("waiting")
        line = server.line(graph="waiting")
    assert (line["level"], line["status"], line["kind"]) == ("warning", "timeout", "TimeoutError")
    assert line["took_s"] >= 2
    assert (line["owner"], line["key_id"]) == ("ana", key.split("_")[1])
    assert key not in server.log.read_text()


def test_a_run_that_kills_its_process_is_logged_by_those_that_take_it_over(
    warm_parent: WarmParent, tmp_path: Path
) -> None:
    """X8: two processes log the crash of the one before, and the last one also that it gives the run up."""
    env = {"CALLSHEET_CONFIG": config(tmp_path), "CALLSHEET_LEASE_S": "1"}
    thread = ""
    logs = []
    for number in range(4):
        folder = tmp_path / str(number)
        folder.mkdir()
        running = start_server(folder, tmp_path / "data", warm_parent, **env)
        if not thread:
            thread = httpx.post(f"{running.url}/threads", json={}).json()["thread_id"]
            # The process may die before it replies.
            with suppress(httpx.TransportError):
                body = {"assistant_id": "killing", "input": {"x": 1}}
                httpx.post(f"{running.url}/threads/{thread}/runs", json=body)
        server = Server(running.url, folder / "err")
        server.http.close()
        logs.append(server)
        if number < 3:
            until(partial(is_gone, running.url), "the death of the process")
        else:
            until(partial(server.lines, status="error"), "the end of the run")
            assert stop_server(running) == 0
    assert [len(one.lines()) for one in logs] == [0, 1, 1, 2]
    for number, one in enumerate(logs[1:], 1):
        [crashed] = one.lines(status="crashed")
        assert (crashed["attempt"], crashed["level"], crashed["thread_id"]) == (number, "warning", thread)
        assert crashed["remedy"]
    [given_up] = logs[3].lines(status="error")
    assert (given_up["attempt"], given_up["kind"]) == (4, "Conflict")
    assert "crashed 3 processes" in given_up["event"]
    assert given_up["remedy"]
