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
    """Shorten the random wait before a retry."""
    monkeypatch.setattr("callsheet.providers.chat.random.uniform", lambda *_: 0.01)


def bind_search(model: BaseChatModel, choice: Any = "auto") -> Any:
    return model.bind_tools([search_voices], tool_choice=choice, stream=True)


def history_with_results(called: AIMessage) -> list[BaseMessage]:
    """Return the history with a result for each call of the answer."""
    return [*BRIEF, called, *(ToolMessage("[]", tool_call_id=call["id"]) for call in called.tool_calls)]


@pytest.mark.parametrize(
    ("vendor", "prefix", "rules", "settings"),
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
async def test_a_tool_loop_satisfies_the_rules_of_each_vendor(vendor, prefix, rules, settings):
    """A39, A40, A41, A44, A49: forced or free, with two system messages, and with unchanged ids."""
    replies = [Say("Searching.", calls=[SEARCH, AGAIN], reasoning="Thai first."), Say("Done.")] * 2
    with ChatDouble(*replies, vendor=rules) as double:
        model = model_of(double, vendor, prefix, **settings)
        for choice in ("auto", {"type": "function", "function": {"name": "search_voices"}}):
            answer = await bind_search(model, choice).ainvoke([*BRIEF, SystemMessage("Summary: none yet.")])
            assert answer.text == "Searching."
            assert [(call["id"], call["name"]) for call in answer.tool_calls] == [SEARCH[:2], AGAIN[:2]]
            assert (await bind_search(model).ainvoke(history_with_results(answer))).text == "Done."
        sent = double.requests[1].messages
        assert [call["id"] for call in sent[2]["tool_calls"]] == [SEARCH[0], AGAIN[0]]
        roles = [message["role"] for message in double.requests[0].messages]
        assert (roles.count("system"), roles[0]) == (1, "system")


@pytest.mark.parametrize(
    ("settings", "streams"),
    [({}, False), ({"MODEL": "qwen3.8-max"}, True), ({"MODEL": "qwen3.8-max", "THINKING": "true"}, True)],
)
async def test_qwen_streams_with_tools_only_for_models_that_can(settings, streams):
    """A41: the default model does not, even when streaming is asked for."""
    with ChatDouble(Say("Hi."), vendor="qwen") as double:
        await bind_search(model_of(double, "qwen", "DASHSCOPE", **settings)).ainvoke(BRIEF)
    assert double.requests[0].body["stream"] is streams


async def test_qwens_error_message_is_in_the_error():
    """A42."""
    error = r"Qwen failed \(500\): Qwen API is overloaded"
    with (
        ChatDouble(Fail(500, "Qwen API is overloaded"), vendor="qwen") as double,
        pytest.raises(Unavailable, match=error),
    ):
        await model_of(double, "qwen", "DASHSCOPE").ainvoke(BRIEF)


@pytest.mark.parametrize("indexes", [(0, 0), (1, 3), (None, None)])
async def test_parallel_calls_of_a_stream_keep_their_ids(indexes):
    """A44, A45."""
    with ChatDouble(Say(calls=[SEARCH, AGAIN], indexes=indexes), vendor="kimi") as double:
        answer = await bind_search(model_of(double, "kimi", "MOONSHOT")).ainvoke(BRIEF)
    assert [call["id"] for call in answer.tool_calls] == [SEARCH[0], AGAIN[0]]


@pytest.mark.parametrize("vendor", ["qwen", "kimi"])
async def test_a_thinking_model_that_cannot_be_forced_fills_in_a_form(vendor):
    """B7."""
    prefix, name = THINKING[vendor]
    with ChatDouble(Say(calls=[("call_1", "Title", '{"text": "Rain"}')]), vendor=vendor) as double:
        model = model_of(double, vendor, prefix, MODEL=name, THINKING="true")
        model.disable_streaming = True
        form = model.with_structured_output(Title, method="function_calling")
        assert await form.ainvoke(BRIEF) == Title(text="Rain")
        assert double.requests[0].messages[-1]["content"] == "Answer by calling the tool Title."


async def test_kimi_gets_its_own_reasoning_back_and_a_placeholder_for_another_vendors():
    """A48: a provider's reasoning is its own, its calls are not."""
    say = Say(calls=[SEARCH], reasoning="The bakery is in Bangkok.")
    with ChatDouble(say, Say("Done."), Say("Done."), vendor="kimi") as double:
        model = model_of(double, "kimi", "MOONSHOT", MODEL="kimi-k2.6")
        answer = await bind_search(model).ainvoke(BRIEF)
        assert answer.additional_kwargs["reasoning_content"] == "The bakery is in Bangkok."
        await bind_search(model).ainvoke(history_with_results(answer))
        assert double.requests[1].messages[2]["reasoning_content"] == "The bakery is in Bangkok."
        foreign = answer.model_copy(update={"response_metadata": {"model_provider": "dashscope"}})
        await bind_search(model).ainvoke(history_with_results(foreign))
        assert double.requests[2].messages[2]["reasoning_content"] == "."


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("stream", [True, False])
async def test_reasoning_is_stored_with_the_answer_and_not_sent_to_openai(field, stream):
    say = Say("It rains.", calls=[SEARCH], reasoning="Clouds.", reasoning_field=field)
    with ChatDouble(say, Say("Done.")) as double:
        model = model_of(double, "openai", "OPENAI", MODEL="qwen3").bind_tools([search_voices], stream=stream)
        answer: Any = await model.ainvoke(BRIEF)
        assert (answer.text, answer.additional_kwargs["reasoning_content"]) == ("It rains.", "Clouds.")
        assert (await model.ainvoke(history_with_results(answer))).text == "Done."


@pytest.mark.parametrize("piece", [1, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "shown", "reasoning"),
    [
        ("<think>Hm, <b>.</think>\n\nHello <3", "Hello <3", "Hm, <b>."),
        ("\n<think></think>Hello", "Hello", ""),
        ("<thinking about it>", "<thinking about it>", ""),
        ("<thinking>Hm.</thinking>Hello", "Hello", "Hm."),
        ("[THINK]Hm.[/THINK]Hello", "Hello", "Hm."),
        ("◁think▷Hm.◁/think▷Hello", "Hello", "Hm."),
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello",
            "Hello",
            "Hm.<|end|><|start|>assistant",
        ),
        ("Write <think>x</think> like this", "Write <think>x</think> like this", ""),
        ("<think>cut", "", "cut"),
        ("<th", "<th", ""),
        ("  indented", "  indented", ""),
    ],
)
async def test_a_think_block_at_the_beginning_is_reasoning_for_every_size_of_chunk(
    piece, text, shown, reasoning
):
    say = Say(text, piece=piece)
    with ChatDouble(say, say) as double:
        model = model_of(double, "openai", "OPENAI")
        pieces = [one async for one in model.astream(BRIEF)]
        complete = await model.ainvoke(BRIEF)
    total: Any = reduce(add, pieces)
    assert "<think>" not in "".join(one.text for one in pieces) or "<think>" in shown
    for message in (total, complete):
        assert message.content == shown
        assert message.additional_kwargs.get("reasoning_content", "") == reasoning


async def test_text_before_a_closing_think_tag_is_reasoning():
    with ChatDouble(Say("Hm.</think>Hello")) as double:
        answer = await model_of(double, "openai", "OPENAI").ainvoke(BRIEF)
    assert (answer.content, answer.additional_kwargs["reasoning_content"]) == ("Hello", "Hm.")


def _chunk(finish: str = "", **delta: Any) -> dict[str, Any]:
    return {"id": "1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish or None}]}


def _piece(name: str | None = None, arguments: str | None = None, **fields: Any) -> dict[str, Any]:
    """A part of a call as it stands in a chunk."""
    return _chunk(
        tool_calls=[{"type": "function", "function": {"name": name, "arguments": arguments}, **fields}]
    )


END = _chunk("tool_calls")
ODD_STREAMS: dict[str, list[dict[str, Any]]] = {
    "no choices first": [{"id": "1", "choices": []}, _piece("look", "{}", index=0, id="a"), END],
    "null for choices": [{"id": "1", "choices": None}, _piece("look", "{}", index=0, id="a"), END],
    "no index": [_piece("look", "{}", id="a"), END],
    "null for the id": [_piece("look", "{}", index=0, id=None), END],
    "null for the arguments": [_piece("look", None, index=0, id="a"), _piece(None, "{}", index=0), END],
    "a name in pieces": [_piece("lo", "", index=0, id="a"), _piece("ok", "{}", index=0), END],
    "an id in each piece": [_piece("look", "{", index=0, id="a"), _piece(None, "}", index=0, id="a"), END],
    "the end of a text": [_piece("look", "{}", index=0, id="a"), _chunk("stop")],
    "no usage": [_piece("look", "{}", index=0, id="a"), END, {"id": "1", "choices": [], "usage": None}],
    "usage without numbers": [
        _piece("look", "{}", index=0, id="a"),
        END,
        {"id": "1", "choices": [], "usage": {"prompt_tokens": None, "completion_tokens": None}},
    ],
}


@pytest.mark.parametrize("name", ODD_STREAMS)
async def test_a_call_in_an_odd_stream_is_read_once(name):
    events = "".join(f"data: {json.dumps(one)}\n\n" for one in ODD_STREAMS[name])
    with ChatDouble(Raw(f"{events}data: [DONE]\n\n".encode(), "text/event-stream")) as double:
        answer = await model_of(double, "openai", "OPENAI").ainvoke(BRIEF, stream=True)
    assert [(one["name"], one["args"]) for one in answer.tool_calls] == [("look", {})]
    assert answer.invalid_tool_calls == []


FAILED_REPLIES: list[Reply] = [
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


@pytest.mark.parametrize("reply", FAILED_REPLIES)
@pytest.mark.parametrize("stream", [True, False])
async def test_an_interrupted_or_invalid_reply_is_retried(reply, stream):
    """A-R20: streamed or not."""
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
async def test_the_vendors_error_message_is_kept_for_a_stream(reply, words):
    with ChatDouble(reply, reply) as double:
        model = model_of(double, "openai", "OPENAI", MAX_RETRIES="1")
        with pytest.raises(Unavailable) as raised:
            await bind_search(model).ainvoke(BRIEF)
    assert words in raised.value.message
    assert len(raised.value.message) < 500


async def test_a_retry_after_beyond_the_patience_is_raised_at_once():
    limit = Fail(429, "slow down", headers={"retry-after": "90"})
    with ChatDouble(limit) as double:
        model = model_of(double, "openai", "OPENAI", MAX_RETRIES="2", PATIENCE_S="5")
        with pytest.raises(Limited) as raised:
            await bind_search(model).ainvoke(BRIEF)
    assert (raised.value.retry_after_s, len(double.requests)) == (90, 1)


@pytest.mark.parametrize("reply", [Fail(401), Fail(402), Fail(429, "pay", "insufficient_quota")])
async def test_errors_of_key_and_payment_are_not_retried(reply):
    with ChatDouble(reply) as double, pytest.raises(Unavailable) as raised:
        await bind_search(model_of(double, "openai", "OPENAI", MAX_RETRIES="2")).ainvoke(BRIEF)
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
async def test_a_content_policy_error_becomes_a_refusal(reply, stream):
    with ChatDouble(reply) as double:
        model = model_of(double, "openai", "OPENAI").bind_tools([search_voices], stream=stream)
        answer: Any = await model.ainvoke(BRIEF)
    assert reply.message in answer.text
    assert answer.additional_kwargs["refusal"] == answer.text
    assert answer.response_metadata["finish_reason"] == "content_filter"


@pytest.mark.parametrize("stream", [True, False])
async def test_the_text_of_a_refusal_is_kept(stream):
    with ChatDouble(Say(refusal="I cannot help with that.")) as double:
        model = model_of(double, "openai", "OPENAI").bind_tools([search_voices], stream=stream)
        answer: Any = await model.ainvoke(BRIEF)
    assert answer.additional_kwargs["refusal"] == "I cannot help with that."


@pytest.mark.parametrize("arguments", ['"{\\"language\\": \\"thai\\"}"', '{"language": "thai"}'])
@pytest.mark.parametrize("stream", [True, False])
async def test_arguments_encoded_twice_are_decoded(arguments, stream):
    """A71."""
    with ChatDouble(Say(calls=[("call_1", "search_voices", arguments)])) as double:
        model = model_of(double, "openai", "OPENAI").bind_tools([search_voices], stream=stream)
        answer: Any = await model.ainvoke(BRIEF)
    assert answer.tool_calls[0]["args"] == {"language": "thai"}


@pytest.mark.parametrize("arguments", ['{"language": "th', '{"language": "thai",}', "[1]", '"thai"', "thai"])
@pytest.mark.parametrize("stream", [True, False])
async def test_invalid_arguments_are_never_repaired_by_a_guess(arguments, stream):
    """A26, A71: streamed or not; valid calls of the same answer are read."""
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
async def test_every_vendors_context_overflow_is_recognised(status, message, code, stream):
    with ChatDouble(Fail(status, message, code)) as double:
        model = model_of(double, "openai", "OPENAI", MAX_RETRIES="2")
        with pytest.raises(ContextOverflow) as raised:
            await model.bind_tools([search_voices], stream=stream).ainvoke(BRIEF)
    assert "conversation" in raised.value.remedy


@pytest.mark.parametrize("name", ["OLLAMA_CONTEXT_TOKENS", "OLLAMA_CONTEXT_LENGTH"])
async def test_a_request_that_ollama_would_truncate_is_not_sent(name):
    with ChatDouble(Say("Hi.")) as double:
        environ = {**double.environ_of("OLLAMA", MODEL="qwen3:8b"), name: "4096"}
        model = load("ollama", environ=environ)
        with pytest.raises(ContextOverflow, match="4096"):
            await bind_search(model).ainvoke([*BRIEF, HumanMessage("word " * 5000)])
        assert double.requests == []
        assert (await bind_search(model).ainvoke(BRIEF)).text == "Hi."


async def test_every_setting_is_sent_in_the_request():
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
def test_an_invalid_setting_is_refused_by_name(name, value):
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
def test_a_local_model_has_a_longer_timeout(vendor, environ, limit_s):
    model: Any = load(vendor, environ=environ)
    assert (model.request_timeout, model.stream_chunk_timeout) == (limit_s, limit_s)


@pytest.mark.parametrize("missing", ["COMPATIBLE_BASE_URL", "COMPATIBLE_MODEL"])
def test_the_compatible_server_needs_a_url_and_a_model(missing):
    environ = {"COMPATIBLE_BASE_URL": "http://127.0.0.1:1/v1", "COMPATIBLE_MODEL": "m"}
    with pytest.raises(Invalid, match=missing):
        load("compatible", environ=environ | {missing: ""})


async def test_errors_of_the_compatible_server_have_its_name_and_no_key_is_needed():
    with ChatDouble(Fail(500, "down"), key="none") as double:
        environ = {"COMPATIBLE_BASE_URL": double.url, "COMPATIBLE_MODEL": "m", "COMPATIBLE_NAME": "Workshop"}
        with pytest.raises(Unavailable, match=r"Workshop failed \(500\)"):
            await load("compatible", environ=environ | {"COMPATIBLE_MAX_RETRIES": "0"}).ainvoke(BRIEF)


RESPONSES = {"OPENAI_RESPONSES": "true"}
"""A gateway that passes OpenAI's Responses API on."""


@pytest.mark.parametrize("stream", [True, False])
async def test_openai_reasoning_is_sent_back_encrypted_between_calls(stream):
    """A40, X12: over the Responses API, whose rules the double enforces."""
    say = Say("Searching.", calls=[SEARCH, AGAIN], reasoning="encrypted-1")
    with ChatDouble(say, Say("Done."), Say("Half", finish="max_output_tokens")) as double:
        environ = double.environ | RESPONSES | {"OPENAI_MODEL": "gpt-5.6-terra", "OPENAI_TEMPERATURE": "0.5"}
        model = load("openai", environ=environ).bind_tools([search_voices], stream=stream)
        answer: Any = await model.ainvoke(BRIEF)
        assert answer.content == "Searching."
        assert [call["id"] for call in answer.tool_calls] == [SEARCH[0], AGAIN[0]]
        assert answer.tool_calls[0]["args"] == {"language": "thai"}
        assert answer.usage_metadata["input_tokens"] == 11
        assert (await model.ainvoke(history_with_results(answer))).content == "Done."
        cut: Any = await model.ainvoke(BRIEF)
        assert cut.response_metadata["finish_reason"] == "length"
    first, second, _ = double.requests
    assert first.path == "/v1/responses"
    assert first.body["include"] == ["reasoning.encrypted_content"]
    kinds = [item.get("type") for item in second.body["input"]]
    assert kinds.index("reasoning") < kinds.index("function_call") < kinds.index("function_call_output")
    assert json.dumps(second.body["input"]).count("encrypted-1") == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_refusal_of_the_responses_api_is_kept(stream):
    with ChatDouble(Say(refusal="I cannot help with that.")) as double:
        model = load("openai/gpt-5.6-terra", environ=double.environ | RESPONSES)
        answer: Any = await model.bind_tools([search_voices], stream=stream).ainvoke(BRIEF)
    assert (answer.content, answer.additional_kwargs["refusal"]) == ("", "I cannot help with that.")


@pytest.mark.parametrize(
    ("code", "kind"), [("context_length_exceeded", ContextOverflow), ("server_error", Unavailable)]
)
async def test_a_failed_stream_of_the_responses_api_raises_its_error(code, kind):
    failed = {"id": "resp_1", "status": "failed", "error": {"code": code, "message": "The engine stopped."}}
    event = {"type": "response.failed", "sequence_number": 0, "response": failed}
    body = f"event: response.failed\ndata: {json.dumps(event)}\n\n".encode()
    with ChatDouble(Raw(body, "text/event-stream")) as double:
        model = load("openai/gpt-5.6-terra", environ=double.environ | RESPONSES)
        with pytest.raises(kind, match="OpenAI"):
            await bind_search(model).ainvoke(BRIEF)


@pytest.mark.parametrize("model", ["gpt-4.1", "gpt-5-chat-latest"])
def test_models_without_reasoning_use_chat_completions(model):
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
def test_the_scripted_endpoint_refuses_requests_that_each_vendor_refuses(vendor, body, rule):
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
def test_the_scripted_endpoint_refuses_a_second_system_message_for_strict_templates(vendor):
    messages = [{"role": "user", "content": "Hi"}, {"role": "system", "content": "Summary"}]
    assert "beginning" in str(broken_rule({"model": "m", "messages": messages}, vendor))
