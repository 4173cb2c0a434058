"""Webhooks are called at the end of every run, and never at addresses that are not public."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import UnprocessableEntityError

from callsheet.server.langgraph.webhooks import SIGNATURE_HEADER, WebhookCaller, sign
from callsheet.storage.runs.records import Run, request_fields
from callsheet.tools.web_client import is_public
from tests.doubles.tcp_server import tcp_server
from tests.doubles.waiting import eventually
from tests.doubles.wire_served import create_thread, running_server_on_own_redis

SECRET = "a secret between two"


class WebhookReceiver:
    """An HTTP server that gives scripted replies and records the requests."""

    def __init__(self, answers: Sequence[str]) -> None:
        self._answers = iter(answers)
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:]
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head if line)}
        self.requests.append((headers, await reader.readexactly(int(headers["content-length"]))))
        answer = next(self._answers, "200 OK")
        writer.write(f"HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def running_receiver(*answers: str) -> AsyncIterator[WebhookReceiver]:
    receiver = WebhookReceiver(answers)
    async with tcp_server(receiver.handle) as port:
        receiver.url = f"http://127.0.0.1:{port}/webhook"
        yield receiver


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(webhook_private=True, webhook_secret=SECRET) as server_url:
        yield server_url


def ended_run(webhook: str) -> Run:
    return Run(
        thread="t",
        id="r",
        graph="counter",
        owner="local",
        assistant="a",
        status="success",
        request=request_fields(webhook=webhook),
        metadata={},
        strategy="enqueue",
        created_ms=1,
        updated_ms=2,
        due_ms=0,
        error=None,
        answer=None,
        cancel=None,
        webhook_called=False,
    )


QUICK_CALLER = WebhookCaller(allow_private=True, retry_delays_s=(0, 0, 0))


async def test_the_end_of_a_run_calls_the_webhook_with_a_signature(client: LangGraphClient) -> None:
    for graph, expected in (("counter", "success"), ("boom", "error")):
        async with running_receiver() as receiver:
            thread = await create_thread(client)
            run = await client.runs.create(thread, graph, input={"x": 1}, webhook=receiver.url)

            async def is_called(receiver: WebhookReceiver = receiver) -> bool:
                return bool(receiver.requests)

            await eventually(is_called, "the webhook is called")
        [(headers, body)] = receiver.requests
        payload: Any = json.loads(body)
        assert (payload["run_id"], payload["thread_id"], payload["status"]) == (
            run["run_id"],
            thread,
            expected,
        )
        assert (payload["error"] or {}).get("message") == (None if graph == "counter" else "boom from node")
        at_s = int(headers[SIGNATURE_HEADER.lower()].partition(",")[0].removeprefix("t="))
        assert headers[SIGNATURE_HEADER.lower()] == sign(SECRET, body, at_s)


async def test_stateless_and_cancelled_runs_call_the_webhook_too(client: LangGraphClient) -> None:
    async with running_receiver() as receiver:
        await client.runs.wait(None, "counter", input={"x": 1}, webhook=receiver.url)
        thread = await create_thread(client)
        run = await client.runs.create(
            thread, "counter", input={"x": 1}, webhook=receiver.url, after_seconds=3600
        )
        await client.runs.cancel(thread, run["run_id"], wait=True)

        async def is_called() -> bool:
            return len(receiver.requests) == 2

        await eventually(is_called, "both webhooks are called")
    assert {json.loads(body)["status"] for _, body in receiver.requests} == {"success", "interrupted"}


async def test_an_invalid_webhook_url_is_refused(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    for webhook in ("file:///etc/passwd", "gopher://a/b", "http://", "http://u:p@a.example/", "a.example"):
        with pytest.raises(UnprocessableEntityError, match="is not a URL that can be called"):
            await client.runs.create(thread, "counter", input={"x": 1}, webhook=webhook)


async def test_a_call_that_fails_is_retried_three_times() -> None:
    async with running_receiver("500 No", "503 No", "429 No") as receiver:
        await QUICK_CALLER.call(ended_run(receiver.url))
        assert len(receiver.requests) == 4
    async with running_receiver(*["500 No"] * 9) as receiver:
        await QUICK_CALLER.call(ended_run(receiver.url))
        assert len(receiver.requests) == 4


@pytest.mark.parametrize("answer", ["404 No", "410 Gone", "302 Found\r\nLocation: http://127.0.0.1:1/"])
async def test_a_client_error_is_not_retried_and_a_redirect_is_not_followed(
    answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_receiver(answer) as receiver:
        await QUICK_CALLER.call(ended_run(receiver.url))
        assert len(receiver.requests) == 1
    assert f"it answered {answer[:3]}" in caplog.text


async def test_an_unreachable_webhook_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with running_receiver() as receiver:
        pass
    await QUICK_CALLER.call(ended_run(receiver.url))
    assert "webhook of run r failed" in caplog.text


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("100.64.0.1", "192.0.0.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1"),
        *("fe80::1%eth0", "fd00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1"),
        *("2002:7f00:1::", "2001:0:4136:e378::1"),
    ],
)
async def test_an_address_that_is_not_public_is_not_called(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even if the host has a public address, too."""
    assert not is_public(address)

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["93.184.215.14", address]

    public_only = replace(QUICK_CALLER, allow_private=False, resolve=resolve)
    await public_only.call(ended_run("http://rebound.example/"))
    assert "not on the public internet" in caplog.text
    assert "CALLSHEET_WEBHOOK_PRIVATE" in caplog.text


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
def test_a_public_address_is_accepted(address: str) -> None:
    assert is_public(address)


async def test_a_host_is_resolved_once_and_called_at_the_resolved_address() -> None:
    """A second look-up could give another address."""
    hosts = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        hosts.append(host)
        return ["127.0.0.1"]

    async with running_receiver() as receiver:
        url_with_name = receiver.url.replace("127.0.0.1", "nowhere.invalid")
        await replace(QUICK_CALLER, resolve=resolve).call(ended_run(url_with_name))
        [(headers, _)] = receiver.requests
    assert hosts == ["nowhere.invalid"]
    assert headers["host"].startswith("nowhere.invalid")
