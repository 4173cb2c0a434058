"""What a thread's messages say: open calls, what is sent, when it is summarised, what a reader sees."""

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from callsheet.state import conversation
from callsheet.state.workflow import Usage, add_usage


def asks(*ids, text=""):
    return AIMessage(text, tool_calls=[{"id": i, "name": "t", "args": {"é": 1}} for i in ids])


def answers(call_id):
    return ToolMessage("{}", tool_call_id=call_id)


def turns(count, size=3):
    made = []
    for i in range(count):
        made += [HumanMessage(f"wish {i} " + "word " * size, id=f"h{i}"), asks(f"c{i}"), answers(f"c{i}")]
        made.append(AIMessage(f"done {i}", id=f"a{i}"))
    return made


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


def test_everything_is_sent_until_it_grows_long():
    """A65: the prefix stays the same from turn to turn."""
    messages = turns(3)
    assert conversation.compaction_index(messages) is None
    assert conversation.model_input("prompt", messages) == [SystemMessage("prompt"), *messages]


@pytest.mark.parametrize("count", [11, 15])
def test_after_ten_turns_all_but_the_last_three_are_summarised(count):
    """A67, A-R12: cut at a person's turn, so that no answer is parted from its call."""
    messages = turns(count)
    index = conversation.compaction_index(messages)
    assert messages[index].text.startswith(f"wish {count - 3}")


def test_ten_turns_are_sent_in_full_unless_they_are_very_long():
    assert conversation.compaction_index(turns(10)) is None
    long = turns(5, size=4000)
    assert conversation.compaction_index(long) == conversation.turn_starts(long)[2]


def test_only_long_results_of_look_ups_are_omitted_and_keep_their_place():
    messages: list[AnyMessage] = [
        ToolMessage("x" * 501, tool_call_id="1", name="look", id="m1"),
        ToolMessage("x" * 500, tool_call_id="2", name="look", id="m2"),
        ToolMessage("x" * 501, tool_call_id="3", name="write", id="m3"),
        HumanMessage("x" * 501, name="look", id="m4"),
    ]
    [omitted] = conversation.omit_look_ups(messages, {"look"})
    assert isinstance(omitted, ToolMessage)
    assert (omitted.id, omitted.tool_call_id, omitted.name) == ("m1", "1", "look")
    assert "501 characters" in omitted.text
    assert conversation.omit_look_ups([omitted], {"look"}) == []


def test_three_turns_are_never_summarised_however_long():
    assert conversation.compaction_index(turns(3, size=20_000)) is None


def test_the_summary_stands_for_what_it_covers():
    """A68."""
    messages = turns(4)
    sent = conversation.model_input("prompt", messages, "they wished", "a0")
    assert sent[1].text == "Previous conversation summary: they wished"
    assert sent[2].text.startswith("wish 1")
    assert conversation.messages_after(messages, "unknown") == messages


def test_turns_are_retold_in_the_persons_own_words():
    told = conversation.summarize_turns(turns(2))
    assert told.splitlines() == [
        "- asked: wish 0 word word word",
        "  answered: done 0",
        "- asked: wish 1 word word word",
        "  answered: done 1",
    ]


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
