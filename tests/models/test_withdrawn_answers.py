"""Answers of a model that another one replaces: readers of every stream hear that their words were withdrawn.

Each test streams through LangGraph's SDK, and keeps messages by id as its front ends do.
"""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langgraph_sdk.client import LangGraphClient

from tests.doubles.ad_model import call
from tests.doubles.chat_double import ChatDouble, Say
from tests.doubles.page_chat_client import new_page_id, open_chat
from tests.doubles.served import app_client, parse_events, started_app
from tests.doubles.wire_served import running_server_on_own_redis

CLAIM = Say("I made the headline blue.")
BLUE = {"style": {"color": "#1d4ed8"}}
EDIT = Say(calls=[call("c1", "modify_element", elementId="heading-1", modifications=BLUE)])
DONE = Say("Now it is blue.")


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatDouble]:
    with ChatDouble() as one:
        for name, value in one.environ.items():
            monkeypatch.setenv(name, value)
        yield one


@pytest.fixture
async def sdk(valkey_url: str) -> AsyncIterator[LangGraphClient]:
    async with started_app(valkey_url) as app, app_client(app) as client:
        yield LangGraphClient(client)


async def stream(
    sdk: LangGraphClient, modes: list[Any], say: str = "Make the headline blue."
) -> tuple[list[Any], dict[str, str]]:
    """Return the parts of a turn's stream, and the texts of the stored answers by id."""
    thread = await sdk.threads.create()
    words: Any = {"messages": [{"role": "user", "content": say}]}
    parts = sdk.runs.stream(
        thread["thread_id"], "page_builder", input=words, context={"provider": "openai"}, stream_mode=modes
    )
    received = [part async for part in parts]
    state = await sdk.threads.get_state(thread["thread_id"])
    values: Any = state["values"]
    return received, {one["id"]: one["content"] for one in values["messages"] if one["type"] == "ai"}


def shown(parts: list[Any]) -> dict[str, str]:
    """Return the texts of the answers that a front end shows in the end, by id."""
    texts: dict[str, str] = {}
    for part in parts:
        if part.event == "messages":
            message = part.data[0]
            before = texts.get(message["id"], "")
        elif part.event in {"messages/partial", "messages/complete"}:
            [message] = part.data
            before = ""
        else:
            continue
        if message["type"] == "remove":
            del texts[message["id"]]
        elif message["type"].lower().startswith("ai"):
            texts[message["id"]] = before + message["content"]
    return texts


@pytest.mark.parametrize("mode", ["messages-tuple", "messages"])
@pytest.mark.parametrize(
    "answers",
    [
        [CLAIM, EDIT, DONE],
        [CLAIM, Say("I cannot do that.")],
        [Say("You are welcome."), Say("")],
    ],
    ids=["an edit", "a refusal", "an empty one"],
)
async def test_a_stream_of_messages_ends_with_the_stored_answers(
    sdk: LangGraphClient, double: ChatDouble, mode: str, answers: list[Say]
) -> None:
    double.script(*answers)
    parts, stored = await stream(sdk, [mode, "values"])
    assert shown(parts).keys() == stored.keys()
    messages = [part.data[0] for part in parts if isinstance(part.data, list)]
    assert [one["type"] for one in messages].count("remove") == 1


@pytest.mark.parametrize("mode", ["messages-tuple", "messages"])
async def test_a_continued_answer_is_streamed_as_one_message(
    sdk: LangGraphClient, double: ChatDouble, mode: str
) -> None:
    double.script(Say("I begin", finish="length"), Say(" and end here."))
    parts, stored = await stream(sdk, [mode], "What is the headline?")
    assert shown(parts).keys() == stored.keys()
    assert [*shown(parts).values()] == ["I begin and end here."]


@pytest.mark.parametrize("mode", ["messages-tuple", "messages"])
async def test_reasoning_that_only_its_end_shows_is_withdrawn(
    sdk: LangGraphClient, double: ChatDouble, mode: str
) -> None:
    """The templates of some models open `<think>` themselves."""
    double.script(EDIT, Say("Now, is it blue?</think>It is blue."))
    parts, stored = await stream(sdk, [mode, "values"])
    assert shown(parts).keys() == stored.keys()
    assert [*stored.values()][-1] == [*shown(parts).values()][-1] == "It is blue."


@pytest.mark.parametrize("mode", ["updates", "events"])
async def test_other_streams_name_the_withdrawn_answer(
    sdk: LangGraphClient, double: ChatDouble, mode: str
) -> None:
    double.script(CLAIM, EDIT, DONE)
    parts, stored = await stream(sdk, [mode])
    text = json.dumps([part.data for part in parts])
    assert '"type": "remove"' in text
    assert len(stored) == 2


async def test_a_stream_of_rest_withdraws_the_first_words(sdk: LangGraphClient, double: ChatDouble) -> None:
    double.script(Say("Here is your ad."), Say("I cannot make one."))
    body = {"adId": "ad-1", "brief": "Miel, a bakery in Lyon.", "provider": "openai"}
    headers = {"Accept": "text/event-stream"}
    reply = await sdk.http.client.post("/api/ai/generate", json=body, headers=headers)
    texts: dict[str, str] = {}
    for name, data in parse_events(reply.text):
        if name == "text":
            texts[data["messageId"]] = texts.get(data["messageId"], "") + data["content"]
        if name == "withdrawn":
            del texts[data["messageId"]]
    assert [*texts.values()] == ["I cannot make one."]


async def test_the_chat_about_a_page_withdraws_the_first_words(double: ChatDouble) -> None:
    double.script(CLAIM, EDIT, DONE)
    texts: dict[str, str] = {}
    with running_server_on_own_redis(None) as url:
        async with open_chat(url) as chat:
            frames = await chat.say(new_page_id(), "Make the headline blue.", provider="openai")
    for frame in frames:
        if frame["type"] == "aiResponseWithdrawn":
            del texts[frame["messageId"]]
        if frame["type"] == "aiResponseChunk":
            texts[frame["messageId"]] = texts.get(frame["messageId"], "") + frame["content"]
    assert [*texts.values()] == ["Now it is blue."]
