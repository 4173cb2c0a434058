"""A server that is killed at any message to Redis loses and repeats nothing and keeps the conversation."""

import asyncio
import json

import httpx
import pytest

from callsheet.state.owners import LOCAL
from callsheet.storage.artefacts.artefacts import Artefact
from callsheet.storage.redis.connection import connect
from callsheet.storage.runs.runs import Runs
from tests.doubles.killing import Kill, sample_points
from tests.doubles.waiting import eventually

BRIEF = {
    "clientDescription": "Harbour Bikes rents e-bikes by the hour in Porto",
    "targetAudience": "weekend visitors",
    "duration": 20,
    "additionalContext": "mention harbourbikes.example",
}
GENERATE = "/api/ai/generate"
REFINEMENT = "Make the music more upbeat and add a bicycle bell at the start"

pytestmark = [pytest.mark.slow, pytest.mark.fault, pytest.mark.timeout(600)]


async def post(base, path, body):
    async with httpx.AsyncClient(base_url=base, timeout=30) as client:
        return await client.post(path, json=body)


async def killed_at(killable_server, kill, path, body):
    """Send the request to a server that is killed at `kill`; return whether it was, and the answers."""
    answers: list[httpx.Response] = []

    async def send(base):
        answers.append(await post(base, path, body))

    return await killable_server.run_until_killed(kill, send), answers


def count_requests(messages, answers, since):
    """Return the number of requests, with `since` earlier ones; fail if one without an answer counts twice.

    A request without a key that is sent again after its answer may be a new one.
    """
    requests = sum(message["role"] == "user" for message in messages)
    assert requests in ({since + 1, since + 2} if answers else {since + 1}), (requests, answers)
    return requests


async def send_to_new_server(killable_server, path, body):
    """Send the request to a new server; return its reply and the messages of the conversation."""
    ad = body.get("adId") or path.split("/")[3]
    async with killable_server.serve() as base, httpx.AsyncClient(base_url=base, timeout=30) as client:
        async with asyncio.timeout(20):
            # The reply is 409 while the run of the killed server is being continued.
            while (reply := await client.post(path, json=body)).status_code == 409:
                assert float(reply.headers["Retry-After"]) > 0
                await asyncio.sleep(0.05)
        conversation = await client.get(f"/api/ads/{ad}/conversation")
        return reply.json(), conversation.json()["messages"]


def check_conversation(messages, requests):
    """Fail unless each tool call is followed by its result, and each request has one user message."""
    assert sum(message["role"] == "user" for message in messages) == requests
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_calls.pop(0)
        else:
            assert open_calls == []
            open_calls = [call["id"] for call in message.get("tool_calls", [])]
    assert messages[-1]["role"] == "assistant"
    assert messages[-1]["content"]


async def versions(valkey_url, ad):
    async with connect(valkey_url) as storage:
        streams = await Artefact(storage, "ad", ad, LOCAL).streams(["voices", "music", "sfx"])
    return {name: [version.id for version in stream.versions] for name, stream in streams.items()}


async def create_ad(base, ad):
    """Create an ad."""
    await post(base, GENERATE, {"adId": ad, "brief": BRIEF})


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_ad_whose_server_was_killed_anywhere_is_finished_by_the_same_request(
    killable_server, valkey_url, when, request
):
    """No version is lost or created twice, whichever message to Redis was the server's last."""
    long = request.config.getoption("--long")
    count = await killable_server.count_messages(lambda base, turn: create_ad(base, f"dry-{turn}"))
    assert count > 20, "there are enough messages to be killed at"
    for at in sample_points(count, 1, seed=20, all_points=long):
        body = {"adId": f"bikes-{when}-{at}", "brief": BRIEF}
        was_killed, answers = await killed_at(killable_server, Kill(at=at, when=when), GENERATE, body)
        reply, messages = await send_to_new_server(killable_server, GENERATE, body)
        assert "drafts" in reply, (at, when, reply)
        created = await versions(valkey_url, body["adId"])
        expected = ["v1", "v2"][: count_requests(messages, answers, 0)]
        # The number of messages varies, more so on a busy machine; the last points may never be reached.
        assert was_killed or at > count * 0.6, (at, count)
        if not was_killed:
            continue
        assert created == {"voices": expected, "music": expected, "sfx": expected}, (
            at,
            when,
            json.dumps(reply),
        )
        assert reply["drafts"] == dict.fromkeys(("voices", "music", "sfx"), expected[-1])
        check_conversation(messages, requests=len(expected))


async def test_a_refinement_whose_server_was_killed_anywhere_takes_effect_once(
    killable_server, valkey_url, request
):
    long = request.config.getoption("--long")
    async with killable_server.serve() as base:
        for turn in range(3):
            await create_ad(base, f"dry-{turn}")
    refinement = {"message": REFINEMENT}
    count = await killable_server.count_messages(
        lambda base, turn: post(base, f"/api/ads/dry-{turn}/chat", refinement)
    )
    assert count > 15, "there are enough messages to be killed at"
    for at in sample_points(count, 1, seed=4, all_points=long):
        ad = f"refined-{at}"
        await send_to_new_server(killable_server, GENERATE, {"adId": ad, "brief": BRIEF})
        was_killed, answers = await killed_at(
            killable_server, Kill(at=at, when="after"), f"/api/ads/{ad}/chat", refinement
        )
        reply, messages = await send_to_new_server(killable_server, f"/api/ads/{ad}/chat", refinement)
        created = await versions(valkey_url, ad)
        assert created["voices"] == ["v1"], "the other streams are unchanged"
        assert "drafts" in reply, (at, reply)
        assert was_killed or answers, (at, count)
        expected = ["v1", "v2", "v3"][: count_requests(messages, answers, 1)]
        assert (created["music"], created["sfx"]) == (expected, expected), (at, reply)
        check_conversation(messages, requests=len(expected))


async def test_a_request_whose_client_left_before_the_answer_takes_effect_once(killable_server, valkey_url):
    """A reply that nobody received does not count as an answer: the same request gets it again."""
    refinement, path = {"message": REFINEMENT}, "/api/ads/left/chat"
    async with killable_server.serve() as base:
        await create_ad(base, "left")
        url, content = httpx.URL(base), json.dumps(refinement).encode()
        _, writer = await asyncio.open_connection(url.host, url.port)
        head = f"POST {path} HTTP/1.1\r\nHost: {url.host}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        await writer.drain()
        writer.close()

        async def is_refined():
            current = await versions(valkey_url, "left")
            async with connect(valkey_url) as storage:
                return current["music"] == ["v1", "v2"] and not await Runs(storage).active("left")

        await eventually(is_refined, "the run has ended")
    reply, messages = await send_to_new_server(killable_server, path, refinement)
    assert reply["drafts"] == {"music": "v2", "sfx": "v2"}
    assert (await versions(valkey_url, "left"))["music"] == ["v1", "v2"]
    check_conversation(messages, requests=2)


async def test_another_request_after_a_crash_continues_the_conversation(killable_server, valkey_url):
    """Versions of the killed run stay, its open tool calls get results, and the new message has a reply."""
    ad = await unfinished_ad(killable_server, valkey_url)
    reply, messages = await send_to_new_server(
        killable_server, f"/api/ads/{ad}/chat", {"message": "Which versions are there?"}
    )
    assert reply.get("message"), reply
    assert (await versions(valkey_url, ad))["voices"] == ["v1"]
    check_conversation(messages, requests=2)


async def unfinished_ad(killable_server, valkey_url):
    """Return an ad whose server was killed after its first version and before the end of its run."""
    count = await killable_server.count_messages(lambda base, turn: create_ad(base, f"dry-{turn}"))
    for at in range(count * 2 // 3, count + 1):
        ad = f"other-{at}"
        await killed_at(killable_server, Kill(at=at, when="after"), GENERATE, {"adId": ad, "brief": BRIEF})
        created = await versions(valkey_url, ad)
        async with connect(valkey_url) as storage:
            if created["voices"] and await Runs(storage, killable_server.lease_s).active(ad):
                return ad
    pytest.fail(f"none of {count} messages is between the first version and the end of the run")
