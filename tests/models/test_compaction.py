"""Compaction of a long conversation in the model's input: when it starts, and the messages that remain."""

import re
from itertools import pairwise

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from callsheet.state.compaction import (
    KEPT_TURNS,
    LEFT_OUT,
    MAX_QUOTES,
    ContextTokens,
    View,
    compaction,
    limited_summary,
    lost_sentences,
    plain_summary,
    transcript,
)
from callsheet.state.conversation import turn_starts
from callsheet.state.model_input import model_input
from callsheet.state.tokens import estimate_messages, estimate_text, estimate_tools, shorten

ROOMY = ContextTokens(used=1_000, budget=100_000)
FULL = ContextTokens(used=8_000, budget=10_000)


def turns(count: int, look: str = "{}", wish: str = "word") -> list[AnyMessage]:
    """Turns with a look-up of the artefact, a draft and an answer each."""
    messages: list[AnyMessage] = []
    for i in range(count):
        calls = [
            {"id": f"l{i}", "name": "look", "args": {}},
            {"id": f"d{i}", "name": "draft", "args": {"text": "é"}},
        ]
        messages += [
            HumanMessage(f"wish {i} {wish}", id=f"h{i}"),
            AIMessage("", tool_calls=calls, id=f"m{i}"),
            ToolMessage(look, tool_call_id=f"l{i}", id=f"t{i}"),
            ToolMessage('{"versionId": "v1"}', tool_call_id=f"d{i}", id=f"u{i}"),
            AIMessage(f"done {i}", id=f"a{i}"),
        ]
    return messages


def test_up_to_ten_turns_that_fit_are_sent_in_full():
    """A65, A67: the prefix stays the same from turn to turn."""
    messages = turns(10)
    assert compaction(messages, View(), ROOMY, {"look"}) is None
    assert compaction([], View(), FULL, {"look"}) is None
    sent = model_input("prompt", messages)
    assert sent == [SystemMessage("prompt"), *messages]
    assert model_input("prompt", messages[:25]) == sent[:26]


@pytest.mark.parametrize("count", [11, 15])
def test_after_ten_turns_all_but_the_last_three_are_summarised(count):
    """A67, A-R12: cut at a person's turn, so that no answer is parted from its call."""
    messages = turns(count)
    compacted = compaction(messages, View(), ROOMY, {"look"})
    assert compacted is not None
    assert len(turn_starts(compacted.summarised)) == count - KEPT_TURNS
    assert compacted.summarised[-1].id == f"a{count - 4}"


def test_long_results_are_left_out_after_their_turn_where_a_workflow_wants_it():
    """A66: a workflow names the tokens of results that may stay; without it they stay while they fit."""
    messages = turns(2, look="word " * 2_000)
    assert compaction(messages, View(), ROOMY, {"look"}) is None
    compacted = compaction(messages, View(), ROOMY, {"look"}, 1_000)
    assert compacted is not None
    assert (compacted.summarised, compacted.cleared_upto) == ((), "a1")
    assert compaction(messages, View("", "", "a1"), ROOMY, {"look"}, 1_000) is None


def test_lookup_results_are_cleared_before_any_turn_is_summarised():
    """A66: the state block shows the current state, so old look-ups are not needed; draft results stay."""
    messages = turns(4, look="x" * 8_000)
    compacted = compaction(messages, View(), FULL, {"look"})
    assert compacted is not None
    assert (compacted.summarised, compacted.cleared_upto) == ((), "a3")
    sent = model_input("prompt", messages, View("", "", compacted.cleared_upto), lookups={"look"})
    results = [one.text for one in sent if isinstance(one, ToolMessage)]
    assert results == [LEFT_OUT, '{"versionId": "v1"}'] * 4
    later = [*messages, *turns(1, look="new")]
    assert "new" in [one.text for one in model_input("p", later, View("", "", "a3"), lookups={"look"})]


def test_compaction_starts_at_seventy_per_cent_of_the_budget_and_ends_below_forty():
    """A66: compaction happens once in many turns."""
    messages = turns(6, wish="word " * 900)
    tokens = estimate_messages(messages)
    assert compaction(messages, View(), ContextTokens(used=tokens, budget=int(tokens / 0.69)), ()) is None
    budget = int(tokens / 0.71)
    compacted = compaction(messages, View(), ContextTokens(used=tokens, budget=budget), ())
    assert compacted is not None
    left = messages[len(compacted.summarised) :]
    assert 0 < estimate_messages(left) <= 0.4 * budget
    assert compaction(messages, View("s", compacted.summarised[-1].id or ""), ROOMY, ()) is None


def test_the_last_turn_is_never_summarised():
    """A-R12."""
    assert compaction(turns(1, wish="word " * 9_000), View(), FULL, {"look"}) is None
    compacted = compaction(turns(2, wish="word " * 9_000), View(), FULL, {"look"})
    assert compacted is not None
    assert compacted.summarised[-1].id == "a0"


def test_the_summary_and_the_first_request_are_part_of_the_single_system_message():
    """A68: some templates accept one system message only."""
    messages = turns(4)
    sent = model_input("prompt", messages, View("they wished", "a0"), pinned="Call 555-0199.")
    assert [one.type for one in sent].count("system") == 1
    assert sent[0].text == (
        "prompt\n\nThe conversation began with this, word for word:\nCall 555-0199."
        "\n\nPrevious conversation summary: they wished"
    )
    assert sent[1].text.startswith("wish 1")
    assert "word for word" not in model_input("prompt", messages, View("they wished", "a0"))[0].text


def test_sentences_with_figures_missing_from_a_summary_are_quoted():
    """A66: phone numbers, prices, codes and addresses survive every summary."""
    messages: list[AnyMessage] = [
        HumanMessage("Call 020 555 0199 now! Be kind. Use code SPRING24 at shop.example/deal."),
        AIMessage("I used 99 words."),
        HumanMessage("It costs 12.50 euros."),
    ]
    assert lost_sentences(messages, "The price is 12.50 euros, call 020 555 0199.", MAX_QUOTES) == [
        "Use code SPRING24 at shop.example/deal.",
    ]
    long: list[AnyMessage] = [HumanMessage(f"{number} {'x' * 1_000}.") for number in range(5)]
    kept = lost_sentences(long, "", MAX_QUOTES)
    assert [one[0] for one in kept] == ["3", "4"]
    assert sum(map(estimate_text, kept)) <= MAX_QUOTES


def test_only_complete_sentences_at_the_ends_of_a_long_message_are_quoted():
    """A66, B42: pasted material in the middle is not quoted, nor is half a sentence."""
    material = " ".join(f"House {number} has {number} rooms." for number in range(1_000))
    kept = lost_sentences([HumanMessage(f"Call 555 0199. {material} Say code ELM24.")], "", MAX_QUOTES)
    assert kept[0] == "Call 555 0199."
    assert kept[-1] == "Say code ELM24."
    assert len(kept) < 60
    assert all(re.fullmatch(r"House (\d+) has \1 rooms\.", one) for one in kept[1:-1])


def test_a_transcript_has_texts_and_names_of_calls():
    assert transcript(turns(1), 4_000).splitlines() == [
        "Person: wish 0 word",
        "(The assistant called look.)",
        "(The assistant called draft.)",
        "Assistant: done 0",
    ]


def test_a_transcript_has_the_ends_of_a_long_message():
    """A66, B42: pasted material is not sent again to be summarised."""
    pasted = HumanMessage(f"A lesson for Mia. {'word ' * 40_000} No wolves.")
    text = transcript([pasted, *turns(1)], 4_000)
    assert text.startswith("Person: A lesson for Mia.")
    assert "characters left out" in text
    assert "No wolves." in text
    assert estimate_text(text) < 700


def test_a_long_summary_is_cut_at_the_end_of_a_sentence():
    """A68: also one without a space behind its dots, or without any sentence."""
    assert limited_summary("Calm music. A bell. A door.", 5) == "Calm music. A bell."
    assert limited_summary("甲乙。丙丁。", 4) == "甲乙。"
    assert limited_summary("word word word word", 2) == "word wor"
    assert limited_summary("Calm.", 5) == "Calm."


def test_the_middle_of_a_long_text_is_left_out():
    assert shorten("abcd", 1) == "abcd"
    assert shorten("a" * 40 + "b" * 40, 6) == f"{'a' * 16}\n[… 56 characters left out …]\n{'b' * 8}"
    assert shorten("字" * 10, 3) == "字字\n[… 7 characters left out …]\n字"


def test_compaction_is_rare_where_prompt_and_tools_fill_the_window():
    """A66: a summary at every turn would cost a call and the cache at every turn."""
    room = ContextTokens(used=2_900, budget=3_000)
    view, counts = View(), []
    for count in range(2, 19):
        messages = turns(count, wish="word " * 60)
        if compacted := compaction(messages, view, room, ()):
            view = View("s", str(compacted.summarised[-1].id))
            counts.append(count)
    assert counts
    assert all(later - before >= 3 for before, later in pairwise(counts))


def test_large_lookup_results_are_cleared_even_if_the_budget_stays_exceeded():
    """A66."""
    room = ContextTokens(used=2_900, budget=3_000)
    assert compaction(turns(1, look="x" * 4_000), View(), room, {"look"}) == ((), "a0")
    assert compaction(turns(1, look="x" * 400), View(), room, {"look"}) is None


def test_without_a_model_the_summary_lists_the_beginnings_of_requests_and_answers():
    assert plain_summary(turns(1)).splitlines() == ["- asked: wish 0 word", "  answered: done 0"]
    assert plain_summary([HumanMessage("x" * 400)]) == f"- asked: {'x' * 300}…"


def test_tokens_are_estimated_by_script():
    """A66: Thai and Chinese are not four characters a token."""
    assert (estimate_text("abcdefgh"), estimate_text("дом дома"), estimate_text("สวัสดี")) == (2, 5, 6)
    assert estimate_messages([HumanMessage("abcd")]) == 5
    assert estimate_tools([{"name": "look"}]) == 4
