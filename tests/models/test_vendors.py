"""Each vendor behind the scripted endpoint, which enforces that vendor's own rules (A39-A49)."""

import json
from functools import reduce
from operator import add
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from callsheet.providers import load
from callsheet.state.errors import ContextOverflow, Invalid, Limited, Unavailable
from tests.doubles.chat_double import ChatDouble, Fail, Raw, Reply, Say, Silence
from tests.doubles.chat_rules import broken_rule

SEARCH = ("functions.search_voices:0", "search_voices", '{"language": "thai"}')
AGAIN = ("functions.search_voices:1", "search_voices", '{"language": "lao"}')
BRIEF: list[BaseMessage] = [SystemMessage("You direct audio ads."), HumanMessage("A 30 s ad for a bakery")]
THINKING: dict[str, tuple[str, str]] = {
    "qwen": ("DASHSCOPE", "qwen3.8-max"),
    "kimi": ("MOONSHOT", "kimi-k2.6"),
}


@tool
def search_voices(language: str) -> str:
    """Find voices that speak a language."""
    return language


class Title(BaseModel):
    """A title."""

    text: str


def model_of(double: ChatDouble, vendor: str, prefix: str, **settings: str) -> BaseChatModel:
    """The vendor's model at the double."""
    return load(vendor, environ=double.environ_of(prefix, **settings))


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second before another attempt takes a hundredth of one."""
    monkeypatch.setattr("callsheet.providers.chat.random.uniform", lambda *_: 0.01)


def bound(model: BaseChatModel, choice: Any = "auto") -> Any:
    return model.bind_tools([search_voices], tool_choice=choice, stream=True)


def answered(called: AIMessage) -> list[BaseMessage]:
    """The history after every call of a message was answered."""
    return [*BRIEF, called, *(ToolMessage("[]", tool_call_id=call["id"]) for call in called.tool_calls)]


@pytest.mark.parametrize(
    ("vendor", "prefix", "double_as", "settings"),
    [
        ("openai", "OPENAI", "openai", {"MODEL": "gpt-4.1"}),
        ("qwen", "DASHSCOPE", "qwen", {}),
        ("qwen", "DASHSCOPE", "qwen", {"MODEL": "qwen3.8-max"}),
        ("qwen", "DASHSCOPE", "qwen", {"MODEL": "qwen3.8-max", "THINKING": "true"}),
        ("qwen", "DASHSCOPE", "qwen", {"MODEL": "qwen3-next-80b-thinking"}),
        ("kimi", "MOONSHOT", "kimi", {}),
        ("kimi", "MOONSHOT", "kimi", {"MODEL": "kimi-k2.6", "TEMPERATURE": "0.3"}),
        ("kimi", "MOONSHOT", "kimi", {"MODEL": "kimi-k2.6", "THINKING": "false"}),
        ("compatible", "COMPATIBLE", "vllm", {"MODEL": "qwen3.6-27b"}),
        ("compatible", "COMPATIBLE", "llama.cpp", {"MODEL": "qwen3.6-27b", "THINKING": "false"}),
        ("ollama", "OLLAMA", "llama.cpp", {"MODEL": "qwen3:8b"}),
    ],
)
async def test_a_tool_loop_keeps_the_rules_of_every_vendor(vendor, prefix, double_as, settings):
    """A39, A40, A41, A44, A49: forced or free, with two system messages, and ids come back as they were."""
    replies = [Say("Searching.", calls=[SEARCH, AGAIN], reasoning="Thai first."), Say("Done.")] * 2
    with ChatDouble(*replies, vendor=double_as) as double:
        model = model_of(double, vendor, prefix, **settings)
        for choice in ("auto", {"type": "function", "function": {"name": "search_voices"}}):
            called = await bound(model, choice).ainvoke([*BRIEF, SystemMessage("Summary: none yet.")])
            assert called.text == "Searching."
            assert [(call["id"], call["name"]) for call in called.tool_calls] == [SEARCH[:2], AGAIN[:2]]
            assert (await bound(model).ainvoke(answered(called))).text == "Done."
        sent = double.requests[1].messages
        assert [call["id"] for call in sent[2]["tool_calls"]] == [SEARCH[0], AGAIN[0]]
        roles = [message["role"] for message in double.requests[0].messages]
        assert (roles.count("system"), roles[0]) == (1, "system")


@pytest.mark.parametrize(
    ("settings", "streams"),
    [({}, False), ({"MODEL": "qwen3.8-max"}, True), ({"MODEL": "qwen3.8-max", "THINKING": "true"}, True)],
)
async def test_qwen_streams_with_tools_where_its_model_can(settings, streams):
    """A41: the default model does not, even when streaming is asked for."""
    with ChatDouble(Say("Hi."), vendor="qwen") as double:
        await bound(model_of(double, "qwen", "DASHSCOPE", **settings)).ainvoke(BRIEF)
    assert double.requests[0].body["stream"] is streams


async def test_qwen_s_own_words_are_in_the_error():
    """A42."""
    error = r"Qwen failed \(500\): Qwen API is overloaded"
    with (
        ChatDouble(Fail(500, "Qwen API is overloaded"), vendor="qwen") as double,
        pytest.raises(Unavailable, match=error),
    ):
        await model_of(double, "qwen", "DASHSCOPE").ainvoke(BRIEF)


@pytest.mark.parametrize("indexes", [(0, 0), (1, 3), (None, None)])
async def test_parallel_calls_of_a_stream_are_numbered_and_keep_their_ids(indexes):
    """A44, A45."""
    with ChatDouble(Say(calls=[SEARCH, AGAIN], indexes=indexes), vendor="kimi") as double:
        called = await bound(model_of(double, "kimi", "MOONSHOT")).ainvoke(BRIEF)
    assert [call["id"] for call in called.tool_calls] == [SEARCH[0], AGAIN[0]]


@pytest.mark.parametrize("vendor", ["qwen", "kimi"])
async def test_a_form_is_filled_in_although_a_thinking_model_cannot_be_forced(vendor):
    """B7."""
    prefix, name = THINKING[vendor]
    with ChatDouble(Say(calls=[("call_1", "Title", '{"text": "Rain"}')]), vendor=vendor) as double:
        model = model_of(double, vendor, prefix, MODEL=name, THINKING="true")
        model.disable_streaming = True
        form = model.with_structured_output(Title, method="function_calling")
        assert await form.ainvoke(BRIEF) == Title(text="Rain")
        assert double.requests[0].messages[-1]["content"] == "Answer by calling the tool Title."


async def test_kimi_gets_its_own_reasoning_back_and_a_mark_for_that_of_another_vendor():
    """A48: a provider's reasoning is its own, its calls are not."""
    say = Say(calls=[SEARCH], reasoning="The bakery is in Bangkok.")
    with ChatDouble(say, Say("Done."), Say("Done."), vendor="kimi") as double:
        model = model_of(double, "kimi", "MOONSHOT", MODEL="kimi-k2.6")
        called = await bound(model).ainvoke(BRIEF)
        assert called.additional_kwargs["reasoning_content"] == "The bakery is in Bangkok."
        await bound(model).ainvoke(answered(called))
        assert double.requests[1].messages[2]["reasoning_content"] == "The bakery is in Bangkok."
        foreign = called.model_copy(update={"response_metadata": {"model_provider": "dashscope"}})
        await bound(model).ainvoke(answered(foreign))
        assert double.requests[2].messages[2]["reasoning_content"] == "."


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("stream", [True, False])
async def test_reasoning_is_kept_beside_the_answer_and_not_sent_to_who_refuses_it(field, stream):
    say = Say("It rains.", calls=[SEARCH], reasoning="Clouds.", reasoning_field=field)
    with ChatDouble(say, Say("Done.")) as double:
        model = model_of(double, "openai", "OPENAI", MODEL="qwen3").bind_tools([search_voices], stream=stream)
        called: Any = await model.ainvoke(BRIEF)
        assert (called.text, called.additional_kwargs["reasoning_content"]) == ("It rains.", "Clouds.")
        assert (await model.ainvoke(answered(called))).text == "Done."


@pytest.mark.parametrize("piece", [1, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "shown", "thought"),
    [
        ("<think>Hm, <b>.</think>\n\nHello <3", "Hello <3", "Hm, <b>."),
        ("\n<think></think>Hello", "Hello", ""),
        ("<thinking about it>", "<thinking about it>", ""),
        ("Write <think>x</think> like this", "Write <think>x</think> like this", ""),
        ("<think>cut", "", "cut"),
        ("<th", "<th", ""),
        ("  indented", "  indented", ""),
    ],
)
async def test_a_think_block_at_the_beginning_is_reasoning_wherever_it_is_cut(piece, text, shown, thought):
    say = Say(text, piece=piece)
    with ChatDouble(say, say) as double:
        model = model_of(double, "openai", "OPENAI")
        pieces = [one async for one in model.astream(BRIEF)]
        whole = await model.ainvoke(BRIEF)
    total: Any = reduce(add, pieces)
    assert "<think>" not in "".join(one.text for one in pieces) or "<think>" in shown
    for message in (total, whole):
        assert message.content == shown
        assert message.additional_kwargs.get("reasoning_content", "") == thought


async def test_a_block_that_the_template_opened_is_reasoning_in_a_whole_answer():
    with ChatDouble(Say("Hm.</think>Hello")) as double:
        answer = await model_of(double, "openai", "OPENAI").ainvoke(BRIEF)
    assert (answer.content, answer.additional_kwargs["reasoning_content"]) == ("Hello", "Hm.")


CUTS: list[Reply] = [
    Say("Half a sentence", break_off="error"),
    Say("Half a sentence", break_off="end"),
    Say("Half a sentence", break_off="stall"),
    Silence(),
    Raw(b"<html><h1>Bad gateway</h1></html>", "text/html"),
    Raw(b'{"error": {"message": "the engine restarts"}}'),
    Raw(b'{"id": "x", "object": "chat.completion", "choices": []}'),
    Fail(429, "slow down", headers={"retry-after-ms": "1"}),
    Fail(500, "down", headers={"retry-after-ms": "1"}),
]


@pytest.mark.parametrize("reply", CUTS)
@pytest.mark.parametrize("stream", [True, False])
async def test_what_is_no_answer_is_asked_for_again(reply, stream):
    """A-R20: a stream that was cut or stalls like an answer that was."""
    if not stream and isinstance(reply, Say):
        reply = Raw(b'{"id": ')
    with ChatDouble(reply, Say("Whole."), vendor="vllm") as double:
        settings = {"MAX_RETRIES": "1", "TIMEOUT_S": "0.3", "MODEL": "m"}
        model = model_of(double, "compatible", "COMPATIBLE", **settings)
        assert (await model.bind_tools([search_voices], stream=stream).ainvoke(BRIEF)).text == "Whole."
        assert len(double.requests) == 2


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Raw(b'{"error": {"message": "the engine restarts"}}'), "the engine restarts"),
        (Raw(b"<html><h1>Bad gateway</h1></html>", "text/html"), "<h1>Bad gateway"),
        (Raw(b'{"error": {"message": "' + b"long " * 400 + b'"}}'), "long long"),
    ],
)
async def test_the_vendor_s_words_survive_also_where_a_stream_was_asked_for(reply, words):
    with ChatDouble(reply, reply) as double:
        model = model_of(double, "openai", "OPENAI", MAX_RETRIES="1")
        with pytest.raises(Unavailable) as raised:
            await bound(model).ainvoke(BRIEF)
    assert words in raised.value.message
    assert len(raised.value.message) < 500


async def test_a_longer_wait_than_the_patience_is_told_at_once():
    limit = Fail(429, "slow down", headers={"retry-after": "90"})
    with ChatDouble(limit) as double:
        model = model_of(double, "openai", "OPENAI", MAX_RETRIES="2", PATIENCE_S="5")
        with pytest.raises(Limited) as raised:
            await bound(model).ainvoke(BRIEF)
    assert (raised.value.retry_after_s, len(double.requests)) == (90, 1)


@pytest.mark.parametrize("reply", [Fail(401), Fail(402), Fail(429, "pay", "insufficient_quota")])
async def test_nothing_is_repeated_where_only_a_person_can_help(reply):
    with ChatDouble(reply) as double, pytest.raises(Unavailable) as raised:
        await bound(model_of(double, "openai", "OPENAI", MAX_RETRIES="2")).ainvoke(BRIEF)
    assert len(double.requests) == 1
    assert raised.value.remedy


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "reply",
    [
        Fail(400, "Your request was rejected by our safety system", "content_policy_violation"),
        Fail(400, "Input data may contain inappropriate content.", "data_inspection_failed"),
    ],
)
async def test_a_content_policy_is_a_refusal_and_no_error(reply, stream):
    with ChatDouble(reply) as double:
        model = model_of(double, "openai", "OPENAI").bind_tools([search_voices], stream=stream)
        answer: Any = await model.ainvoke(BRIEF)
    assert reply.message in answer.text
    assert answer.additional_kwargs["refusal"] == answer.text
    assert answer.response_metadata["finish_reason"] == "content_filter"


@pytest.mark.parametrize("stream", [True, False])
async def test_the_words_of_a_refusal_are_kept(stream):
    with ChatDouble(Say(refusal="I cannot help with that.")) as double:
        model = model_of(double, "openai", "OPENAI").bind_tools([search_voices], stream=stream)
        answer: Any = await model.ainvoke(BRIEF)
    assert answer.additional_kwargs["refusal"] == "I cannot help with that."


@pytest.mark.parametrize("arguments", ['"{\\"language\\": \\"thai\\"}"', '{"language": "thai"}'])
@pytest.mark.parametrize("stream", [True, False])
async def test_arguments_that_were_encoded_twice_are_read(arguments, stream):
    """A71."""
    with ChatDouble(Say(calls=[("call_1", "search_voices", arguments)])) as double:
        model = model_of(double, "openai", "OPENAI").bind_tools([search_voices], stream=stream)
        answer: Any = await model.ainvoke(BRIEF)
    assert answer.tool_calls[0]["args"] == {"language": "thai"}


@pytest.mark.parametrize("arguments", ['{"language": "th', '{"language": "thai",}', "[1]", '"thai"', "thai"])
@pytest.mark.parametrize("stream", [True, False])
async def test_broken_arguments_are_never_completed_by_a_guess(arguments, stream):
    """A26, A71: over a stream as in one piece; the whole calls beside them are read."""
    with ChatDouble(Say(calls=[("call_1", "search_voices", arguments), SEARCH])) as double:
        model = model_of(double, "openai", "OPENAI").bind_tools([search_voices], stream=stream)
        answer: Any = await model.ainvoke(BRIEF)
    assert [call["id"] for call in answer.tool_calls] == [SEARCH[0]]
    assert [(call["id"], call["args"]) for call in answer.invalid_tool_calls] == [("call_1", arguments)]


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (400, "This model's maximum context length is 4096 tokens.", "context_length_exceeded"),
        (400, "This model's maximum context length is 4096 tokens. However, you requested 5000.", None),
        (400, "The decoder prompt (length 9) is longer than the maximum model length of 8.", None),
        (400, "Range of input length should be [1, 30720]", "invalid_parameter_error"),
        (400, "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)", None),
        (
            400,
            "request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it",
            None,
        ),
        (500, "Context size has been exceeded.", None),
        (413, "too large", None),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_every_vendor_s_word_for_too_long_is_known(status, message, code, stream):
    with ChatDouble(Fail(status, message, code)) as double:
        model = model_of(double, "openai", "OPENAI", MAX_RETRIES="2")
        with pytest.raises(ContextOverflow) as raised:
            await model.bind_tools([search_voices], stream=stream).ainvoke(BRIEF)
    assert "conversation" in raised.value.remedy


@pytest.mark.parametrize("name", ["OLLAMA_CONTEXT_TOKENS", "OLLAMA_CONTEXT_LENGTH"])
async def test_what_ollama_would_cut_silently_is_not_sent(name):
    with ChatDouble(Say("Hi.")) as double:
        environ = {**double.environ_of("OLLAMA", MODEL="qwen3:8b"), name: "4096"}
        model = load("ollama", environ=environ)
        with pytest.raises(ContextOverflow, match="4096"):
            await bound(model).ainvoke([*BRIEF, HumanMessage("word " * 5000)])
        assert double.requests == []
        assert (await bound(model).ainvoke(BRIEF)).text == "Hi."


async def test_every_setting_reaches_the_request():
    """A49."""
    settings = {
        "MODEL": "m",
        "TEMPERATURE": "0.2",
        "MAX_OUTPUT_TOKENS": "500",
        "REASONING_EFFORT": "low",
        "EXTRA_BODY": '{"top_k": 20}',
        "THINKING": "true",
    }
    with ChatDouble(Say("Hi."), vendor="vllm") as double:
        await model_of(double, "compatible", "COMPATIBLE", **settings).ainvoke(BRIEF)
    expected = {
        "model": "m",
        "temperature": 0.2,
        "max_tokens": 500,
        "reasoning_effort": "low",
        "top_k": 20,
        "chat_template_kwargs": {"enable_thinking": True},
    }
    assert expected.items() <= double.requests[0].body.items()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COMPATIBLE_TEMPERATURE", "warm"),
        ("COMPATIBLE_EXTRA_BODY", "[1]"),
        ("COMPATIBLE_CONTEXT_TOKENS", "0"),
        ("COMPATIBLE_THINKING", "deeply"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(name, value):
    environ = {"COMPATIBLE_BASE_URL": "http://127.0.0.1:1/v1", "COMPATIBLE_MODEL": "m", name: value}
    with pytest.raises(Invalid, match=name):
        load("compatible", environ=environ)


@pytest.mark.parametrize(
    ("vendor", "environ", "limit_s"),
    [
        ("openai", {"OPENAI_API_KEY": "sk-x"}, 120),
        ("ollama", {"OLLAMA_MODEL": "m"}, 600),
        ("ollama", {"OLLAMA_MODEL": "m", "OLLAMA_TIMEOUT_S": "30"}, 30),
    ],
)
def test_a_local_model_may_take_longer(vendor, environ, limit_s):
    model: Any = load(vendor, environ=environ)
    assert (model.request_timeout, model.stream_chunk_timeout) == (limit_s, limit_s)


@pytest.mark.parametrize("missing", ["COMPATIBLE_BASE_URL", "COMPATIBLE_MODEL"])
def test_the_compatible_server_needs_an_address_and_a_model(missing):
    environ = {"COMPATIBLE_BASE_URL": "http://127.0.0.1:1/v1", "COMPATIBLE_MODEL": "m"}
    with pytest.raises(Invalid, match=missing):
        load("compatible", environ=environ | {missing: ""})


async def test_the_compatible_server_is_called_by_its_own_name_and_needs_no_key():
    with ChatDouble(Fail(500, "down"), key="none") as double:
        environ = {"COMPATIBLE_BASE_URL": double.url, "COMPATIBLE_MODEL": "m", "COMPATIBLE_NAME": "Workshop"}
        with pytest.raises(Unavailable, match=r"Workshop failed \(500\)"):
            await load("compatible", environ=environ | {"COMPATIBLE_MAX_RETRIES": "0"}).ainvoke(BRIEF)


RESPONSES = {"OPENAI_RESPONSES": "true"}
"""A gateway that passes OpenAI's Responses API on."""


@pytest.mark.parametrize("stream", [True, False])
async def test_openai_s_reasoning_models_think_between_calls_and_nothing_is_stored_there(stream):
    """A40, X12: over the Responses API, whose rules the double enforces."""
    say = Say("Searching.", calls=[SEARCH, AGAIN], reasoning="encrypted-1")
    with ChatDouble(say, Say("Done."), Say("Half", finish="max_output_tokens")) as double:
        environ = double.environ | RESPONSES | {"OPENAI_MODEL": "gpt-5.6-terra", "OPENAI_TEMPERATURE": "0.5"}
        model = load("openai", environ=environ).bind_tools([search_voices], stream=stream)
        called: Any = await model.ainvoke(BRIEF)
        assert called.content == "Searching."
        assert [call["id"] for call in called.tool_calls] == [SEARCH[0], AGAIN[0]]
        assert called.tool_calls[0]["args"] == {"language": "thai"}
        assert called.usage_metadata["input_tokens"] == 11
        assert (await model.ainvoke(answered(called))).content == "Done."
        cut: Any = await model.ainvoke(BRIEF)
        assert cut.response_metadata["finish_reason"] == "length"
    first, second, _ = double.requests
    assert first.path == "/v1/responses"
    assert first.body["include"] == ["reasoning.encrypted_content"]
    kinds = [item.get("type") for item in second.body["input"]]
    assert kinds.index("reasoning") < kinds.index("function_call") < kinds.index("function_call_output")
    assert json.dumps(second.body["input"]).count("encrypted-1") == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_refusal_over_the_responses_api_is_kept_like_any_other(stream):
    with ChatDouble(Say(refusal="I cannot help with that.")) as double:
        model = load("openai/gpt-5.6-terra", environ=double.environ | RESPONSES)
        answer: Any = await model.bind_tools([search_voices], stream=stream).ainvoke(BRIEF)
    assert (answer.content, answer.additional_kwargs["refusal"]) == ("", "I cannot help with that.")


@pytest.mark.parametrize(
    ("code", "kind"), [("context_length_exceeded", ContextOverflow), ("server_error", Unavailable)]
)
async def test_a_stream_of_the_responses_api_that_fails_says_why(code, kind):
    failed = {"id": "resp_1", "status": "failed", "error": {"code": code, "message": "The engine stopped."}}
    event = {"type": "response.failed", "sequence_number": 0, "response": failed}
    body = f"event: response.failed\ndata: {json.dumps(event)}\n\n".encode()
    with ChatDouble(Raw(body, "text/event-stream")) as double:
        model = load("openai/gpt-5.6-terra", environ=double.environ | RESPONSES)
        with pytest.raises(kind, match="OpenAI"):
            await bound(model).ainvoke(BRIEF)


@pytest.mark.parametrize("model", ["gpt-4.1", "gpt-5-chat-latest"])
def test_models_that_do_not_reason_stay_with_chat_completions(model):
    loaded: Any = load(f"openai/{model}", environ={"OPENAI_API_KEY": "sk-x"})
    assert loaded.use_responses_api is False


@pytest.mark.parametrize(
    ("vendor", "body", "rule"),
    [
        ("qwen", {"enable_thinking": True}, "non-streaming"),
        ("qwen", {"enable_thinking": True, "stream": True, "tool_choice": "required"}, "thinking mode"),
        ("qwen", {"model": "qwen-max", "stream": True}, "incremental_output"),
        ("kimi", {"temperature": 0.3}, "only 1"),
        ("kimi", {"tool_choice": "required"}, "incompatible"),
        ("kimi", {}, "reasoning_content is missing"),
        ("vllm", {}, "Failed to parse"),
        ("llama.cpp", {}, "Failed to parse"),
    ],
)
def test_the_double_refuses_what_each_vendor_refuses(vendor, body, rule):
    """X12."""
    function = {"name": "search_voices", "arguments": "{language:"}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "1", "content": "{}"},
    ]
    tools = [{"type": "function", "function": {"name": "search_voices", "parameters": {"type": "object"}}}]
    assert rule in str(broken_rule({"model": "m", "messages": messages, "tools": tools, **body}, vendor))


@pytest.mark.parametrize("vendor", ["qwen", "vllm", "llama.cpp"])
def test_the_double_refuses_a_second_system_message_where_templates_do(vendor):
    messages = [{"role": "user", "content": "Hi"}, {"role": "system", "content": "Summary"}]
    assert "beginning" in str(broken_rule({"model": "m", "messages": messages}, vendor))
