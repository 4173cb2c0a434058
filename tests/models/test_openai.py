import logging
import traceback
from collections.abc import Sequence
from functools import partial, reduce
from operator import add
from typing import Any, ClassVar

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumps
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool

from callsheet.providers import load
from callsheet.providers.chat import ChatModel
from callsheet.providers.openai import OpenAIModel
from callsheet.state.errors import (
    Broken,
    CallsheetError,
    ContextOverflow,
    Invalid,
    Limited,
    TimedOut,
    Unavailable,
)
from tests.doubles.chat_double import KEY, ChatDouble, Fail, Raw, Say, Silence

SEARCH = ("call_1", "search_voices", '{"language": "thai", "count": 10}')
STATE = ("call_2", "get_current_state", '{"adId": "ad-1"}')
BRIEF = [SystemMessage("You direct audio ads."), HumanMessage("สวัสดี – a 30 s ad for Thai families")]


@tool
def search_voices(language: str, count: int = 10) -> str:
    """Find voices that speak a language."""
    return f"{count} {language}"


@tool
def get_current_state(adId: str) -> str:  # noqa: N803 - the wire's spelling
    """Read an ad."""
    return adId


TOOLS = [search_voices, get_current_state]


async def errors_of_all_calls(
    model: BaseChatModel, messages: Sequence[BaseMessage] = BRIEF
) -> list[CallsheetError]:
    """Return the errors of invoke, stream and their async forms."""

    async def astream() -> None:
        async for _ in model.astream(messages):
            pass

    errors = []
    for ask in (partial(model.invoke, messages), lambda: list(model.stream(messages))):
        with pytest.raises(CallsheetError) as raised:
            ask()
        errors.append(raised.value)
    for ask_later in (partial(model.ainvoke, messages), astream):
        with pytest.raises(CallsheetError) as raised:
            await ask_later()
        errors.append(raised.value)
    return errors


async def test_tool_calls_and_their_results_form_a_valid_history():
    """A40, A24, X12: the scripted endpoint answers 400 to any history that OpenAI would refuse."""
    with ChatDouble(Say(calls=[SEARCH, STATE]), Say("Done.")) as double:
        model = load("openai", environ=double.environ).bind_tools(TOOLS)
        request = await model.ainvoke(BRIEF)
        assert [(call["id"], call["name"], call["args"]) for call in request.tool_calls] == [
            ("call_1", "search_voices", {"language": "thai", "count": 10}),
            ("call_2", "get_current_state", {"adId": "ad-1"}),
        ]
        results = [ToolMessage("[]", tool_call_id="call_1"), ToolMessage("{}", tool_call_id="call_2")]
        answer = await model.ainvoke([*BRIEF, request, *results])
    assert answer.content == "Done."
    first, second = double.requests
    assert [one["function"]["name"] for one in first.body["tools"]] == ["search_voices", "get_current_state"]
    assert [message["role"] for message in second.messages] == ["system", "user", "assistant", "tool", "tool"]
    assert second.messages[1]["content"] == BRIEF[1].content
    assert double.unused == 0


@pytest.mark.parametrize("choice", [None, "auto"])
async def test_the_model_is_free_to_call_a_tool_or_not(choice):
    """A40: `tool_choice` is "auto", which is also what the API takes when it is not sent."""
    with ChatDouble(Say("No tool needed.")) as double:
        model = load("openai", environ=double.environ).bind_tools(
            TOOLS, **({"tool_choice": choice} if choice else {})
        )
        assert (await model.ainvoke(BRIEF)).tool_calls == []
        assert double.requests[0].body.get("tool_choice", "auto") == "auto"


async def test_the_sum_of_a_streams_chunks_equals_the_complete_answer():
    """A-R20: text, calls and usage are aggregated from the pieces."""
    say = Say("Searching for voices.", calls=[SEARCH, STATE])
    with ChatDouble(say, say) as double:
        model = load("openai", environ=double.environ).bind_tools(TOOLS)
        pieces = [piece async for piece in model.astream(BRIEF)]
        complete = await model.ainvoke(BRIEF)
    total: Any = reduce(add, pieces)
    assert len(pieces) > 10
    assert total.content == complete.content == "Searching for voices."
    assert total.tool_calls == complete.tool_calls
    assert len(total.tool_calls) == 2
    assert total.usage_metadata == complete.usage_metadata
    assert total.usage_metadata["total_tokens"] == 18
    assert [request.body.get("stream", False) for request in double.requests] == [True, False]
    assert double.requests[0].body["stream_options"] == {"include_usage": True}


def test_a_synchronous_stream_yields_the_complete_text():
    """A-R20."""
    with ChatDouble(Say("One two three.")) as double:
        pieces = list(load("openai", environ=double.environ).stream(BRIEF))
    assert "".join(piece.text for piece in pieces) == "One two three."


async def test_call_ids_of_another_provider_are_sent_unchanged():
    """A48, A45: Kimi's ids have another form than OpenAI's."""
    kimi = AIMessage(
        "", tool_calls=[{"id": "functions.search_voices:0", "name": "search_voices", "args": {}}]
    )
    result = ToolMessage("[]", tool_call_id="functions.search_voices:0")
    with ChatDouble(Say("Here they are.")) as double:
        model = load("openai", environ=double.environ).bind_tools(TOOLS)
        assert (await model.ainvoke([*BRIEF, kimi, result])).content == "Here they are."
    sent = double.requests[0].messages
    assert sent[2]["tool_calls"][0]["id"] == sent[3]["tool_call_id"] == "functions.search_voices:0"


async def test_missing_content_and_missing_calls_are_read_as_empty():
    """A46."""
    with ChatDouble(Say(calls=[SEARCH]), Say("Hi.")) as double:
        model = load("openai", environ=double.environ)
        with_calls, with_text = await model.ainvoke(BRIEF), await model.ainvoke(BRIEF)
    assert with_calls.content == ""
    assert with_text.tool_calls == []


async def test_base_url_key_and_model_come_from_the_environment():
    """A49, A-R19, X12: the choice of a model is configuration, not code."""
    with ChatDouble(Say("Hi."), Say("Hi."), key="sk-mine") as double:
        environ = {**double.environ, "OPENAI_MODEL": "llama-9"}
        await load("openai", environ=environ).ainvoke(BRIEF)
        await load("OpenAI/meta/llama-10", environ=environ).ainvoke(BRIEF)
    first, second = double.requests
    assert first.headers["authorization"] == "Bearer sk-mine"
    assert (first.path, first.body["model"]) == ("/v1/chat/completions", "llama-9")
    assert second.body["model"] == "meta/llama-10"


def test_the_environment_is_read_when_a_model_is_loaded(monkeypatch):
    """Not at import."""
    with ChatDouble(Say("Hi.")) as double:
        for name, value in double.environ.items():
            monkeypatch.setenv(name, value)
        assert load("openai").invoke(BRIEF).content == "Hi."


def test_the_default_base_url_is_openais():
    model = load("openai", environ={"OPENAI_API_KEY": KEY})
    assert isinstance(model, OpenAIModel)
    assert model.openai_api_base == "https://api.openai.com/v1"


class Kestrel(ChatModel):
    """A vendor that only states what is its own."""

    title: ClassVar[str] = "Kestrel"
    prefix: ClassVar[str] = "KESTREL"
    url: ClassVar[str] = "https://kestrel.invalid/v1"
    default_model: ClassVar[str] = "kestrel-1"


async def test_a_new_vendor_needs_only_a_title_a_prefix_a_url_and_a_model():
    """A49: the variables and the errors have the vendor's name."""
    with ChatDouble(Say("Hi."), Fail(403)) as double:
        model = Kestrel.from_environ("", {"KESTREL_API_KEY": KEY, "KESTREL_BASE_URL": double.url})
        assert (await model.ainvoke(BRIEF)).content == "Hi."
        with pytest.raises(Unavailable, match="Kestrel refuses the key in KESTREL_API_KEY for 'kestrel-1'"):
            await model.ainvoke(BRIEF)
    assert Kestrel.from_environ("", {"KESTREL_API_KEY": KEY}).openai_api_base == "https://kestrel.invalid/v1"
    with pytest.raises(Invalid, match="KESTREL_API_KEY is not set"):
        Kestrel.from_environ("", {"OPENAI_API_KEY": KEY})


@pytest.mark.parametrize(
    ("model", "effort"),
    [("gpt-6-luna", "none"), ("gpt-5.6-terra", "none"), ("gpt-6.1-terra", "none"), ("gpt-5.4-mini", None)],
)
async def test_reasoning_is_off_for_models_that_cannot_combine_it_with_tools(model, effort):
    """OpenAI answers 400 to tools over Chat Completions when these models reason, which is their default."""
    with ChatDouble(Say("Hi.")) as double:
        await load(f"openai/{model}", environ=double.environ).bind_tools(TOOLS).ainvoke(BRIEF)
        assert double.requests[0].body.get("reasoning_effort") == effort


def test_the_error_for_a_missing_key_names_the_variable():
    with pytest.raises(Invalid, match="OPENAI_API_KEY is not set") as refused:
        load("openai", environ={})
    assert "offline" in refused.value.remedy


@pytest.mark.parametrize("name", ["OPENAI_TIMEOUT_S", "OPENAI_MAX_RETRIES"])
@pytest.mark.parametrize("value", ["soon", "-1", "inf", "nan"])
def test_a_setting_that_is_not_a_number_is_refused_by_name(name, value):
    with pytest.raises(Invalid, match=name):
        load("openai", environ={"OPENAI_API_KEY": KEY, name: value})


def test_a_fractional_number_of_retries_is_refused():
    with pytest.raises(Invalid, match=r"OPENAI_MAX_RETRIES is '1\.5': input should be a valid integer"):
        load("openai", environ={"OPENAI_API_KEY": KEY, "OPENAI_MAX_RETRIES": "1.5"})


async def test_a_rejected_key_is_unavailable_and_the_error_names_the_variable():
    with ChatDouble(Say("unreachable")) as double:
        wrong = {**double.environ, "OPENAI_API_KEY": "sk-wrong-98765"}
        errors = await errors_of_all_calls(load("openai", environ=wrong))
    for error in errors:
        assert type(error) is Unavailable
        assert "OPENAI_API_KEY" in error.message
        assert "OPENAI_API_KEY" in error.remedy
        assert "sk-wrong-98765" not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "later"}, 1.0),
        ({}, 1.0),
    ],
)
async def test_a_rate_limit_error_has_the_time_to_wait(headers, wait_s):
    limit = Fail(429, "Rate limit reached", "rate_limit_exceeded", headers)
    with ChatDouble(*[limit] * 4) as double:
        for error in await errors_of_all_calls(load("openai", environ=double.environ)):
            assert isinstance(error, Limited)
            assert error.retry_after_s == wait_s
            assert "Rate limit reached" in error.message


@pytest.mark.parametrize(
    ("reply", "kind", "text"),
    [
        (Fail(500, "engine down"), Unavailable, "engine down"),
        (Fail(503), Unavailable, "503"),
        (Fail(400, "bad schema"), Broken, "bad schema"),
        (Fail(404, "no such model"), Invalid, "gpt-6-luna"),
        (Fail(403, "region"), Unavailable, "OPENAI_API_KEY"),
        (Fail(402, "no credit"), Limited, "no credit"),
        (Fail(413, "too much"), ContextOverflow, "longer than"),
        (Fail(400, "too long", "context_length_exceeded"), ContextOverflow, "longer than"),
        (Raw(b"<html>gateway</html>", "text/html"), Unavailable, "OpenAI"),
        (Raw(b'{"id": "x"}'), Unavailable, "OpenAI"),
        (Raw(b'{"id": '), Unavailable, "OpenAI"),
        (Raw(b'{"id": "x", "object": "chat.completion", "choices": []}'), Unavailable, "OpenAI"),
        (Raw(b'data: {"id":\n\n', "text/event-stream"), Unavailable, "OpenAI"),
    ],
)
async def test_an_error_of_the_vendor_is_raised_as_a_callsheet_error(reply, kind, text):
    with ChatDouble(*[reply] * 4) as double:
        for error in await errors_of_all_calls(load("openai", environ=double.environ)):
            assert isinstance(error, kind)
            assert text in error.message
        assert double.unused == 0


async def test_a_request_without_an_answer_raises_a_timeout():
    with ChatDouble(*[Silence()] * 4) as double:
        model = load("openai", environ={**double.environ, "OPENAI_TIMEOUT_S": "0.05"})
        for error in await errors_of_all_calls(model):
            assert isinstance(error, TimedOut)
            assert "OPENAI_TIMEOUT_S" in error.remedy


async def test_an_unreachable_server_raises_unavailable():
    with ChatDouble() as double:
        environ = double.environ
    for error in await errors_of_all_calls(load("openai", environ=environ)):
        assert type(error) is Unavailable
        assert "OPENAI_BASE_URL" in error.remedy


@pytest.mark.parametrize("break_off", ["error", "end"])
async def test_a_stream_that_breaks_off_raises_unavailable(break_off):
    """A-R20: half a call must never run."""
    half = Say("Half a sentence", calls=[SEARCH], break_off=break_off)
    with ChatDouble(half, half) as double:
        model = load("openai", environ=double.environ)
        with pytest.raises(Unavailable, match="broke off"):
            list(model.stream(BRIEF))
        with pytest.raises(Unavailable, match="broke off"):
            [piece async for piece in model.astream(BRIEF)]


async def test_a_temporary_error_is_retried():
    with ChatDouble(Fail(500, headers={"retry-after-ms": "1"}), Say("Second time lucky.")) as double:
        model = load("openai", environ={**double.environ, "OPENAI_MAX_RETRIES": "1"})
        assert (await model.ainvoke(BRIEF)).content == "Second time lucky."
    assert len(double.requests) == 2


async def test_a_rejected_request_is_not_retried():
    with ChatDouble(Fail(400), Say("never")) as double, pytest.raises(Broken):
        await load("openai", environ={**double.environ, "OPENAI_MAX_RETRIES": "3"}).ainvoke(BRIEF)
    assert len(double.requests) == 1


async def test_the_key_is_in_no_repr_no_serialised_model_and_no_log(caplog):
    caplog.set_level(logging.DEBUG)
    # A server in this process may have made it quiet.
    caplog.set_level(logging.DEBUG, logger="openai")
    with ChatDouble(Say("Hi."), Fail(500, f"proxy saw {KEY}")) as double:
        model = load("openai", environ=double.environ)
        await model.ainvoke(BRIEF)
        with pytest.raises(Unavailable) as raised:
            await model.ainvoke(BRIEF)
        error = raised.value
    shown = [
        repr(model),
        str(model),
        dumps(model),
        caplog.text,
        *traceback.format_exception(error),
        error.message,
    ]
    assert "HTTP Response" in caplog.text
    assert [text for text in shown if KEY in text] == []
    assert "OPENAI_API_KEY" in dumps(model)


async def test_an_invalid_history_raises_broken():
    """X12."""
    dangling = AIMessage("", tool_calls=[{"id": "call_1", "name": "search_voices", "args": {}}])
    with ChatDouble(Say("unreachable")) as double:
        for error in await errors_of_all_calls(load("openai", environ=double.environ), [*BRIEF, dangling]):
            assert isinstance(error, Broken)
            assert "call_1" in error.message
        assert double.unused == 1


def test_only_the_given_environment_is_read_when_a_model_is_loaded(monkeypatch: pytest.MonkeyPatch):
    """The key in the process's environment must not stand in for the one that was given."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ambient")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://ambient")
    model = load("openai", environ={"OPENAI_API_KEY": "sk-given"})
    assert isinstance(model, OpenAIModel)
    assert model.openai_api_key
    assert model.openai_api_key.get_secret_value() == "sk-given"  # type: ignore[union-attr]  # a key, no maker of one
    assert model.openai_api_base == "https://api.openai.com/v1"
