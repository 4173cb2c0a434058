"""What a thread's messages say: open calls, turns, and what a reader sees."""

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from callsheet.state import conversation
from callsheet.state.workflow import Usage, add_usage


def asks(*ids, text=""):
    return AIMessage(text, tool_calls=[{"id": i, "name": "t", "args": {"é": 1}} for i in ids])


def answers(call_id):
    return ToolMessage("{}", tool_call_id=call_id)


def test_a_call_without_an_answer_is_open():
    messages = [HumanMessage("x"), asks("1", "2"), answers("1"), HumanMessage("y")]
    [(index, calls)] = conversation.unanswered_calls(messages)
    assert index == 1
    assert [call["id"] for call in calls] == ["2"]


def test_an_answer_counts_for_the_message_before_it_only():
    """C-R7: the same id may come again in a later message."""
    messages = [asks("0"), answers("0"), asks("0"), HumanMessage("y")]
    assert [index for index, _ in conversation.unanswered_calls(messages)] == [2]
    assert conversation.unanswered_calls([asks("0"), answers("0")]) == []


def test_a_call_with_broken_arguments_is_a_call_too():
    broken = AIMessage("", invalid_tool_calls=[{"id": "1", "name": None, "args": "{", "error": None}])
    assert [(call["id"], call["name"]) for call in conversation.calls_of(broken)] == [("1", "")]
    assert conversation.calls_of(HumanMessage("x")) == []


def test_a_reader_sees_roles_calls_and_the_cached_prompt():
    """A37."""
    shown = conversation.message_entries(
        "prompt", [HumanMessage("สวัสดี"), asks("1"), answers("1"), AIMessage("done")]
    )
    assert shown == [
        {"role": "system", "content": "prompt", "cached": True},
        {"role": "user", "content": "สวัสดี"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "t", "arguments": '{"é": 1}'}}
            ],
        },
        {"role": "tool", "content": "{}", "tool_call_id": "1"},
        {"role": "assistant", "content": "done"},
    ]
    assert conversation.message_entries("p", [SystemMessage("note")])[1] == {
        "role": "system",
        "content": "note",
    }


def test_usage_is_added_up():
    one = Usage(input_tokens=1, output_tokens=2, cached_tokens=3, calls=1)
    assert add_usage(one, one) == {"input_tokens": 2, "output_tokens": 4, "cached_tokens": 6, "calls": 2}
    assert add_usage(None, one) == add_usage(one, None) == one


def test_messages_after_an_unknown_one_are_all():
    messages = [HumanMessage("x", id="h")]
    assert conversation.messages_after(messages, "unknown") == messages
    assert conversation.messages_after(messages, "h") == []
