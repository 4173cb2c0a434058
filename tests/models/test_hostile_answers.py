"""The time to read a model's answer grows in proportion to its length (X7)."""

import asyncio
import functools
import json
import operator
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph_sdk import get_client

from callsheet import providers
from callsheet.state.model_input import fit_conversation, model_input
from tests.doubles.chat_double import ChatDouble, Raw, Say
from tests.doubles.wire_served import running_server_on_own_redis

SHORT, LONG = 4_000, 16_000
GROWTH = 8
"""Fourfold length may take so many times as long; the square of it would take sixteen times."""
HOSTILE = {
    "a fence and line ends": ("```json", "\n", ""),
    "a fence and blanks": ("```", " ", "x"),
    "no JSON": ("", "x", ""),
    "a string that does not end": ('{"prompt": "', "x", ""),
    "a string in a string that does not end": ('{"prompt": "', '\\"', ""),
    "numbers in a list that does not end": ('{"prompt": [', "1,", ""),
    "objects that do not end": ("", '{"a":', ""),
    "brackets": ("", "[]", ""),
    "blanks": ("", " ", "x"),
    "digits": ('{"prompt": ', "1", "}"),
    "quotes": ("", '"', ""),
    "backslashes": ('{"prompt": "', "\\", ""),
    "a trailing comma": ('{"prompt": "', "calm ", '",}'),
    "half a state block": ("<state", " ", ""),
    "beginnings of state blocks": ("", "<state>", ""),
    "thoughts": ("", "<think>", ""),
    "versions": ("", "v1 ", ""),
    "sentences": ("", "I changed it. ", ""),
    "written calls": ("", "create_music_draft {", ""),
    "fences": ("", "```a\n", ""),
    "tags": ("", "<tool_call>", ""),
}


USER_INPUT: Any = {"messages": [{"role": "user", "content": "Make some music"}]}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_server_on_own_redis(None) as server_url:
        yield server_url


def hostile_text(form: str, size: int) -> str:
    """A text of this form and about this size."""
    begin, middle, end = HOSTILE[form]
    return begin + middle * (size // len(middle)) + end


async def turn_cpu_s(url: str, patch: pytest.MonkeyPatch, answer: Say, mode: Any) -> float:
    """Processor time of this process, which is the server's, for a turn in which the model answers this."""
    with ChatDouble(answer, *[Say("Done.")] * 3) as model:
        for name, value in model.environ.items():
            patch.setenv(name, value)
        began = time.process_time()
        async with get_client(url=url) as client:
            stream = client.runs.stream(
                None,
                "ad_creation",
                input=USER_INPUT,
                stream_mode=mode,
                context={"provider": "openai"},
            )
            events = [part async for part in stream]
        spent_s = time.process_time() - began
    assert not [part for part in events if part.event == "error"]
    return spent_s


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("piece", "mode"), [(100_000, "messages-tuple"), (400, "messages-tuple"), (2_000, "messages")]
)
async def test_calls_with_hostile_arguments_take_time_in_proportion_to_their_length(
    url: str, monkeypatch: pytest.MonkeyPatch, piece: int, mode: Any
) -> None:
    def answer(size: int) -> Say:
        texts = (hostile_text(form, size) for form in HOSTILE)
        calls = [(f"call-{at}", "create_music_draft", text) for at, text in enumerate(texts)]
        return Say(calls=calls, piece=piece)

    await turn_cpu_s(url, monkeypatch, answer(10), mode)
    short_s = await turn_cpu_s(url, monkeypatch, answer(SHORT), mode)
    assert await turn_cpu_s(url, monkeypatch, answer(LONG), mode) < GROWTH * max(short_s, 0.1)


@pytest.mark.slow
@pytest.mark.timeout(200)
async def test_a_hostile_text_takes_time_in_proportion_to_its_length(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for form in HOSTILE:
        short_s, long_s = [
            await turn_cpu_s(
                url, monkeypatch, Say(hostile_text(form, size), piece=size // 20), "messages-tuple"
            )
            for size in (SHORT, LONG)
        ]
        assert long_s < GROWTH * max(short_s, 0.1), form


@pytest.mark.slow
async def test_a_call_with_a_megabyte_of_arguments_is_refused_in_seconds(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model gets the reason, and the turn continues."""
    megabyte = '{"prompt": "' + "x" * 1_000_000
    for piece in (2_000_000, 250_000, 4_000):
        answer = Say(calls=[("m", "create_music_draft", megabyte)], piece=piece)
        assert await turn_cpu_s(url, monkeypatch, answer, "messages-tuple") < 5


async def test_an_answer_without_end_is_not_read_to_its_end_and_not_requested_again(
    url: str, model: ChatDouble
) -> None:
    """More than 256,000 characters hold memory and time of everybody (X7)."""
    model.script(Say("word " * 60_000, piece=2_000))
    async with get_client(url=url) as client:
        reply: Any = await client.runs.wait(
            None, "ad_creation", input=USER_INPUT, context={"provider": "openai"}, raise_error=False
        )
    assert "more than 256,000 characters" in reply["__error__"]["message"]
    assert len(model.requests) == 1


async def test_more_than_ten_thousand_messages_in_a_request_are_refused(url: str) -> None:
    many: Any = {"messages": [{"role": "user", "content": "a"}] * 10_001}
    async with get_client(url=url) as client:
        with pytest.raises(httpx.HTTPStatusError) as error:
            await client.runs.wait(None, "page_builder", input=many)
    assert error.value.response.status_code == 422
    assert "10,001 messages, and a request may have 10,000" in str(error.value.__notes__)


def test_a_long_conversation_is_prepared_in_time_in_proportion_to_its_length() -> None:
    def spent_s(pairs: int) -> float:
        """The least of three, without the server's threads."""
        messages: list[AnyMessage] = [
            HumanMessage("Make it calm"),
            AIMessage("It is calm."),
            AIMessage("Really."),
        ] * pairs
        times = []
        for _ in range(3):
            began = time.thread_time()
            fit_conversation(model_input("You edit.", messages), 2_000)
            times.append(time.thread_time() - began)
        return min(times)

    spent_s(100)
    assert spent_s(8_000) < GROWTH * max(spent_s(2_000), 0.1)


async def longest_step_s(size: int) -> float:
    """Longest processor time of one step of the event loop while a call came in pieces of 4 characters."""
    steps: list[float] = []
    answer = Say(calls=[("m", "create_music_draft", '{"prompt": "' + "x" * size + '"}')], piece=4)

    async def watch() -> None:
        while True:
            before_s = time.thread_time()
            await asyncio.sleep(0)
            steps.append(time.thread_time() - before_s)

    with ChatDouble(answer) as double:
        model = providers.load("openai/gpt-4o", environ=double.environ)
        watching = asyncio.create_task(watch())
        message = await model.ainvoke("Make some music", stream=True)
        watching.cancel()
    assert len(message.tool_calls[0]["args"]["prompt"]) == size
    return max(steps)


async def test_a_call_in_many_small_pieces_holds_the_event_loop_no_longer_than_a_short_one() -> None:
    """Fourfold pieces were merged in one step of fourfold length (X7)."""
    await longest_step_s(100)
    short_s = await longest_step_s(8_000)
    assert await longest_step_s(32_000) < 2 * max(short_s, 0.03)


async def test_small_pieces_of_several_calls_stay_with_their_calls(model: ChatDouble) -> None:
    """Pieces are held until they are worth a step; none is lost or given to another call."""
    texts = [f'{{"prompt": "{name * 300}"}}' for name in ("calm ", "żółw ", "🎺 ")]
    model.script(
        Say(calls=[(f"call-{at}", "create_music_draft", text) for at, text in enumerate(texts)], piece=3)
    )
    pieces = [piece async for piece in providers.load("openai/gpt-4o").astream("Make some music")]
    merged = functools.reduce(operator.add, pieces)
    assert [call["args"] for call in merged.tool_calls] == [json.loads(text) for text in texts]
    assert len(pieces) < sum(map(len, texts)) // 6


async def test_a_call_with_half_a_surrogate_pair_is_executed(url: str, model: ChatDouble) -> None:
    """The half is replaced by U+FFFD."""
    halves = ('{"prompt": "calm \\ud83d"}', '{"prompt": "calm \ud83d"}')
    calls = [(f"call-{at}", "create_music_draft", text) for at, text in enumerate(halves)]
    model.script(Say(calls=calls), *[Say("Done.")] * 2)
    async with get_client(url=url) as client:
        state: Any = await client.runs.wait(
            None, "ad_creation", input=USER_INPUT, context={"provider": "openai"}
        )
    [message] = [each for each in state["messages"] if each.get("tool_calls")]
    assert [call["args"]["prompt"] for call in message["tool_calls"]] == ["calm \ufffd"] * 2
    results = [json.loads(each["content"]) for each in state["messages"] if each["type"] == "tool"]
    assert [each["status"] for each in results] == ["draft"] * 2


@pytest.mark.filterwarnings("ignore:Pydantic serializer")  # OpenAI's client expects text
async def test_arguments_sent_as_an_object_are_accepted(url: str, model: ChatDouble) -> None:
    call = {"id": "m", "function": {"name": "create_music_draft", "arguments": {"prompt": "calm"}}}
    delta = {"role": "assistant", "content": "", "tool_calls": [call]}
    choice = {"index": 0, "delta": delta, "finish_reason": "tool_calls"}
    event = json.dumps({"id": "1", "object": "chat.completion.chunk", "choices": [choice]})
    model.script(Raw(f"data: {event}\n\ndata: [DONE]\n\n".encode(), "text/event-stream"), *[Say("Done.")] * 2)
    async with get_client(url=url) as client:
        state: Any = await client.runs.wait(
            None, "ad_creation", input=USER_INPUT, context={"provider": "openai"}
        )
    [message] = [each for each in state["messages"] if each.get("tool_calls")]
    assert message["tool_calls"][0]["args"]["prompt"] == "calm"
