"""Webhooks: told of every run that has ended, and no way into the network the server is in."""

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
from callsheet.tools.web.public_network import is_public
from tests.doubles.waiting import eventually
from tests.doubles.wire_served import create_thread, running_server_on_own_redis

SECRET = "a secret between two"


class Receiver:
    """An HTTP server that answers as told and remembers what it got."""

    def __init__(self, answers: Sequence[str]) -> None:
        self._answers = iter(answers)
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.url = ""

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:]
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head if line)}
        self.got.append((headers, await reader.readexactly(int(headers["content-length"]))))
        answer = next(self._answers, "200 OK")
        writer.write(f"HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def receiving(*answers: str) -> AsyncIterator[Receiver]:
    receiver = Receiver(answers)
    server = await asyncio.start_server(receiver.take, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/told"
    async with server:
        yield receiver


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(webhook_private=True, webhook_secret=SECRET) as found:
        yield found


def ended(webhook: str) -> Run:
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


QUICK = WebhookCaller(allow_private=True, retry_delays_s=(0, 0, 0))


async def test_a_run_that_ends_is_told_and_signed(client: LangGraphClient) -> None:
    for graph, expected in (("counter", "success"), ("boom", "error")):
        async with receiving() as receiver:
            thread = await create_thread(client)
            run = await client.runs.create(thread, graph, input={"x": 1}, webhook=receiver.url)

            async def told(receiver: Receiver = receiver) -> bool:
                return bool(receiver.got)

            await eventually(told, "the webhook is told")
        [(headers, body)] = receiver.got
        said: Any = json.loads(body)
        assert (said["run_id"], said["thread_id"], said["status"]) == (run["run_id"], thread, expected)
        assert (said["error"] or {}).get("message") == (None if graph == "counter" else "boom from node")
        at_s = int(headers[SIGNATURE_HEADER.lower()].partition(",")[0].removeprefix("t="))
        assert headers[SIGNATURE_HEADER.lower()] == sign(SECRET, body, at_s)


async def test_a_run_without_a_thread_and_a_cancelled_one_are_told_too(client: LangGraphClient) -> None:
    async with receiving() as receiver:
        await client.runs.wait(None, "counter", input={"x": 1}, webhook=receiver.url)
        thread = await create_thread(client)
        run = await client.runs.create(
            thread, "counter", input={"x": 1}, webhook=receiver.url, after_seconds=3600
        )
        await client.runs.cancel(thread, run["run_id"], wait=True)

        async def told() -> bool:
            return len(receiver.got) == 2

        await eventually(told, "both are told")
    assert {json.loads(body)["status"] for _, body in receiver.got} == {"success", "interrupted"}


async def test_an_address_that_can_be_none_is_refused_at_once(client: LangGraphClient) -> None:
    thread = await create_thread(client)
    for webhook in ("file:///etc/passwd", "gopher://a/b", "http://", "http://u:p@a.example/", "a.example"):
        with pytest.raises(UnprocessableEntityError, match="is not a URL that can be called"):
            await client.runs.create(thread, "counter", input={"x": 1}, webhook=webhook)


async def test_a_call_that_fails_is_tried_three_times_more() -> None:
    async with receiving("500 No", "503 No", "429 No") as receiver:
        await QUICK.call(ended(receiver.url))
        assert len(receiver.got) == 4
    async with receiving(*["500 No"] * 9) as receiver:
        await QUICK.call(ended(receiver.url))
        assert len(receiver.got) == 4


@pytest.mark.parametrize("answer", ["404 No", "410 Gone", "302 Found\r\nLocation: http://127.0.0.1:1/"])
async def test_a_call_that_is_refused_is_not_repeated_and_a_redirect_not_followed(
    answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with receiving(answer) as receiver:
        await QUICK.call(ended(receiver.url))
        assert len(receiver.got) == 1
    assert f"it answered {answer[:3]}" in caplog.text


async def test_nobody_listening_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async with receiving() as receiver:
        pass
    await QUICK.call(ended(receiver.url))
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
async def test_no_address_of_an_inner_network_is_called(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where a name has a public address beside it."""
    assert not is_public(address)

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["93.184.215.14", address]

    guarded = replace(QUICK, allow_private=False, resolve=resolve)
    await guarded.call(ended("http://rebound.example/"))
    assert "not on the public internet" in caplog.text


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
def test_addresses_of_the_public_internet_may_be_called(address: str) -> None:
    assert is_public(address)


async def test_a_name_is_looked_up_once_and_connected_to_where_it_was_found() -> None:
    """A second look-up could say something else."""
    asked = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    async with receiving() as receiver:
        named = receiver.url.replace("127.0.0.1", "nowhere.invalid")
        await replace(QUICK, resolve=resolve).call(ended(named))
        [(headers, _)] = receiver.got
    assert asked == ["nowhere.invalid"]
    assert headers["host"].startswith("nowhere.invalid")
