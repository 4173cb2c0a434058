"""The stop of a server: not ready first, then time for requests, then replies that say how to go on."""

import json
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doubles.chat_double import ChatDouble, Silence
from tests.doubles.command import ROOT, ForkedCommand, RunningServer, start_server
from tests.doubles.killing import WarmParent
from tests.doubles.served import GENERATE
from tests.doubles.waiting import until
from tests.storage.embedded_server import data_directory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
GRAPHS = {
    "resting": f"{ROOT}/tests/http/stopping_graphs.py:resting",
    "ad_creation": "callsheet.graphs.ad_creation:graph",
}


class StoppingServer:
    """A server process that is stopped while requests are in progress."""

    def __init__(self, running: RunningServer, folder: Path, pool: ThreadPoolExecutor) -> None:
        assert isinstance(running.process, ForkedCommand)
        self.process = running.process
        self.http = httpx.Client(base_url=running.url, timeout=60)
        self._log = folder / "err"
        self._pool = pool

    def ready(self) -> int:
        return self.http.get("/ready").status_code

    def start(self, path: str, body: Any, **headers: str) -> "Future[httpx.Response]":
        """Send a request whose run is in progress when this returns."""
        before = len(self.open_runs())
        future = self._pool.submit(self.http.post, path, json=body, headers=headers)
        until(lambda: len(self.open_runs()) > before, "the run is in progress")
        return future

    def open_runs(self) -> list[str]:
        """The statuses of the runs in progress."""
        figures = self.http.get("/metrics").text.splitlines()
        [count] = [line for line in figures if line.startswith("callsheet_runs_here ")]
        return ["running"] * int(float(count.split()[1]))

    def new_thread(self) -> str:
        return str(self.http.post("/threads", json={}).json()["thread_id"])

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def lines(self) -> list[dict[str, Any]]:
        """The lines of the log."""
        text = self._log.read_text()
        assert "Traceback" not in text, text
        return [json.loads(line) for line in text.splitlines()]


@contextmanager
def serving(warm_parent: WarmParent, folder: Path, **env: str) -> Iterator[StoppingServer]:
    (folder / "langgraph.json").write_text(json.dumps({"dependencies": [str(ROOT)], "graphs": GRAPHS}))
    with data_directory() as data_dir, ThreadPoolExecutor(8) as pool:
        running = start_server(folder, data_dir, warm_parent, **env)
        server = StoppingServer(running, folder, pool)
        try:
            yield server
            assert server.process.wait(30) == 0
            assert not [line for line in server.lines() if line["level"] in {"error", "critical"}]
        finally:
            server.http.close()
            if server.process.poll() is None:
                server.process.send_signal(signal.SIGKILL)


def resting(pause_s: float, **more: Any) -> dict[str, Any]:
    return {"assistant_id": "resting", "input": {"pause_s": pause_s}, "stream_mode": ["custom"], **more}


def last_event(text: str) -> dict[str, str]:
    """The fields of a stream's last event."""
    block = text.replace("\r\n", "\n").strip().rpartition("\n\n")[2]
    return dict(line.split(": ", 1) for line in block.split("\n"))


def test_a_stopping_server_is_not_ready_and_goes_on_serving_until_its_delay_is_over(
    warm_parent: WarmParent, tmp_path: Path
) -> None:
    with serving(warm_parent, tmp_path, CALLSHEET_STOP_DELAY_S="4") as server:
        assert server.ready() == 200
        server.stop()
        until(lambda: server.ready() == 503, "the server is not ready")
        assert server.http.get("/health").status_code == 503
        assert server.http.get("/ok").status_code == 200
        thread = server.new_thread()
        reply = server.http.post(f"/threads/{thread}/runs/wait", json=resting(0))
        assert (reply.status_code, reply.json()) == (200, {"pause_s": 0})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_requests_in_progress_get_the_grace_to_end(
    warm_parent: WarmParent, tmp_path: Path, number: signal.Signals
) -> None:
    """Longer than five seconds, as a call of a model may take."""
    with serving(warm_parent, tmp_path, CALLSHEET_STOP_GRACE_S="30") as server:
        thread, other = server.new_thread(), server.new_thread()
        waiting = server.start(f"/threads/{thread}/runs/wait", resting(7))
        streaming = server.start(f"/threads/{other}/runs/stream", resting(7, stream_mode=["values"]))
        server.stop(number)
        assert waiting.result(60).json() == {"pause_s": 7}
        assert last_event(streaming.result(60).text)["event"] == "values"
        assert not [line for line in server.lines() if line["level"] == "warning"]


def test_requests_that_outlast_the_grace_are_answered_with_the_way_to_go_on(
    warm_parent: WarmParent, tmp_path: Path
) -> None:
    with (
        ChatDouble(Silence(), Silence()) as model,
        serving(warm_parent, tmp_path, **model.environ, CALLSHEET_STOP_GRACE_S="1") as server,
    ):
        threads = [server.new_thread() for _ in range(3)]
        ad = {**GENERATE, "provider": "openai"}
        plain = server.start("/api/ai/generate", ad)
        events = server.start("/api/ai/generate", {**ad, "adId": "ad-2"}, Accept="text/event-stream")
        wait = server.start(f"/threads/{threads[0]}/runs/wait", resting(60))
        stream = server.start(f"/threads/{threads[1]}/runs/stream", resting(60))
        server.stop()

        reply = plain.result(60)
        assert reply.status_code == 503
        assert int(reply.headers["Retry-After"]) >= 1
        assert reply.json()["type"] == "unavailable"
        assert "stops" in reply.json()["error"]

        end = last_event(events.result(60).text)
        assert (end["event"], "id" in end) == ("error", False)
        body = json.loads(end["data"])
        assert (body["status"], body["details"]["continueAt"]) == (503, "/api/conversations/ad-2/events")
        assert body["retryAfterSeconds"] >= 1

        error = wait.result(60).json()["__error__"]
        assert error["error"] == "Unavailable"
        assert f"/threads/{threads[0]}/runs/" in error["message"]

        end = last_event(stream.result(60).text)
        assert end["event"] == "error"
        assert f"/threads/{threads[1]}/runs/" in json.loads(end["data"])["message"]
    [line] = [line for line in server.lines() if "requests were cut" in line["event"]]
    assert (line["level"], line["event"][0]) == ("warning", "4")


def test_a_resumable_stream_is_cut_so_that_its_client_goes_on_elsewhere(
    warm_parent: WarmParent, tmp_path: Path
) -> None:
    """LangGraph's clients reconnect by themselves after a cut, and take an error for the run's end."""
    with serving(warm_parent, tmp_path, CALLSHEET_STOP_GRACE_S="1") as server:
        thread = server.new_thread()
        received: list[str] = []

        def read_and_stop(reply: httpx.Response) -> None:
            for line in reply.iter_lines():
                received.append(line)
                if "rests" in line:
                    server.stop()

        body = resting(60, stream_resumable=True)
        stream = server.http.stream("POST", f"/threads/{thread}/runs/stream", json=body)
        with stream as reply, pytest.raises(httpx.RemoteProtocolError):
            read_and_stop(reply)
        assert any(line.startswith("id: ") for line in received)
        assert "event: error" not in received
        assert any(line.startswith(": ") and "stops" in line for line in received)
