from typing import Any

import pytest

from tests.doubles.chat_rules import broken_rule


def call(call_id: str = "call_1", name: str = "search_voices") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def history(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "Hi"}, *messages]}


def with_tool(**parameters: object) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}, **parameters}
    return {**history(), "tools": [{"type": "function", "function": {"name": "cut", "parameters": schema}}]}


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"model": "m", "messages": []}, "minimum length 1"),
        ({"messages": [{"role": "user", "content": "Hi"}]}, "model parameter"),
        ({**history(), "colour": "red"}, "Unrecognized request argument"),
        ({"model": "m", "messages": [{"role": "user", "content": ""}]}, "must not be empty"),
        (history({"role": "narrator", "content": "Hi"}), "role"),
        (history({"role": "assistant", "content": None}), "must not be empty"),
        (history({"role": "assistant", "content": None, "tool_calls": [call()]}), "did not have response"),
        (
            history(
                {"role": "assistant", "content": None, "tool_calls": [call(), call("call_2")]},
                {"role": "tool", "tool_call_id": "call_1", "content": "{}"},
                {"role": "user", "content": "and?"},
            ),
            "call_2",
        ),
        (history({"role": "tool", "tool_call_id": "call_1", "content": "{}"}), "preceding message"),
        (
            history(
                {"role": "assistant", "content": None, "tool_calls": [call()]},
                {"role": "tool", "tool_call_id": "call_1", "content": "{}"},
                {"role": "tool", "tool_call_id": "call_1", "content": "{}"},
            ),
            "preceding message",
        ),
        (history({"role": "assistant", "content": "x", "tool_calls": []}), "empty array"),
        (history({"role": "assistant", "content": None, "tool_calls": [call(), call()]}), "different"),
        (history({"role": "assistant", "content": None, "tool_calls": [call(name="a b")]}), "function.name"),
        (
            history({"role": "assistant", "content": None, "tool_calls": [call("c" * 41)]}),
            "maximum length 40",
        ),
        ({**history(), "tools": []}, "expected an array"),
        ({**history(), "tool_choice": "auto"}, "only allowed when 'tools'"),
        ({**history(), "stream_options": {"include_usage": True}}, "only allowed when 'stream'"),
        (with_tool(type="array"), 'type: "object"'),
        (with_tool(required=["seconds"]), "'required'"),
        (with_tool(properties={"cuts": {"type": "array"}}), "missing items"),
        (with_tool(properties={"cut": {"type": "seconds"}}), "not a type"),
        (
            {**with_tool(), "tool_choice": {"type": "function", "function": {"name": "paste"}}},
            "not in 'tools'",
        ),
        ({**with_tool(), "tool_choice": "maybe"}, "Supported values"),
    ],
)
def test_the_scripted_endpoint_refuses_requests_that_openai_refuses(body, rule):
    """X12: otherwise a test could pass with a history that no vendor accepts."""
    assert rule in (broken_rule(body) or "")


def test_the_scripted_endpoint_accepts_requests_that_openai_accepts():
    body = history(
        {"role": "assistant", "content": None, "tool_calls": [call(), call("call_2")]},
        {"role": "tool", "tool_call_id": "call_2", "content": ""},
        {"role": "tool", "tool_call_id": "call_1", "content": "{}"},
        {"role": "assistant", "content": "Done."},
    )
    assert broken_rule(body) is None
    assert broken_rule({**with_tool(), "tool_choice": "required"}) is None
