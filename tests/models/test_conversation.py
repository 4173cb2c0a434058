"""The messages of a thread: unanswered calls, turns, and entries for readers."""

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from callsheet.state import conversation
from callsheet.state.workflow import Usage, add_usage


def call_message(*ids, text=""):
    return AIMessage(text, tool_calls=[{"id": i, "name": "t", "args": {"é": 1}} for i in ids])


def tool_result(call_id):
    return ToolMessage("{}", tool_call_id=call_id)


def test_a_call_without_a_result_is_unanswered():
    messages = [HumanMessage("x"), call_message("1", "2"), tool_result("1"), HumanMessage("y")]
    [(index, calls)] = conversation.unanswered_calls(messages)
    assert index == 1
    assert [call["id"] for call in calls] == ["2"]


def test_a_result_answers_only_the_message_before_it():
    """C-R7: the same id may come again in a later message."""
    messages = [call_message("0"), tool_result("0"), call_message("0"), HumanMessage("y")]
    assert [index for index, _ in conversation.unanswered_calls(messages)] == [2]
    assert conversation.unanswered_calls([call_message("0"), tool_result("0")]) == []


def test_a_call_with_invalid_arguments_counts_as_a_call():
    broken = AIMessage("", invalid_tool_calls=[{"id": "1", "name": None, "args": "{", "error": None}])
    assert [(call["id"], call["name"]) for call in conversation.calls_of(broken)] == [("1", "")]
    assert conversation.calls_of(HumanMessage("x")) == []


def test_message_entries_have_roles_calls_and_the_cached_prompt():
    """A37."""
    entries = conversation.message_entries(
        "prompt", [HumanMessage("สวัสดี"), call_message("1"), tool_result("1"), AIMessage("done")]
    )
    assert entries == [
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


def test_usage_of_two_calls_is_summed():
    one = Usage(input_tokens=1, output_tokens=2, cached_tokens=3, calls=1)
    assert add_usage(one, one) == {"input_tokens": 2, "output_tokens": 4, "cached_tokens": 6, "calls": 2}
    assert add_usage(None, one) == add_usage(one, None) == one


def test_all_messages_are_returned_after_an_unknown_id():
    messages = [HumanMessage("x", id="h")]
    assert conversation.messages_after(messages, "unknown") == messages
    assert conversation.messages_after(messages, "h") == []
