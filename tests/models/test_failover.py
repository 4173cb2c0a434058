"""The planner under outages and context overflows: another provider, or a shorter copy."""

from collections.abc import Iterator

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from callsheet.providers.routing import MAX_REST_S, MIN_REST_S, Outages, outages
from callsheet.state.errors import ContextOverflow, Limited, Unavailable
from callsheet.state.model_input import fit_conversation
from callsheet.state.state_block import with_state_block
from callsheet.state.tokens import estimate_messages, estimate_text
from tests.doubles.ad_model import call, config
from tests.doubles.chat_double import ChatDouble, Fail, Say

LOOK_CALL = call("c1", "get_current_state", adId="kopi")
RATE_LIMITED = Fail(429, "slow down", headers={"retry-after": "600"})
TOO_LONG = Fail(400, "too long", "context_length_exceeded")


@pytest.fixture(autouse=True)
def clear_outages() -> Iterator[None]:
    """Start without a recorded outage."""
    outages.cache_clear()
    yield
    outages.cache_clear()


@pytest.fixture
def kimi(model: ChatDouble, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatDouble]:
    """A second provider with a key, next to OpenAI."""
    with ChatDouble(vendor="kimi") as double:
        for name, value in double.environ_of("MOONSHOT", MODEL="kimi-k2.6").items():
            monkeypatch.setenv(name, value)
        yield double


def ad_input(text: str) -> dict[str, object]:
    return {"messages": [HumanMessage(text)], "ad_id": "kopi"}


async def test_the_next_provider_with_a_key_takes_over_and_the_state_has_the_reason(graph, model, kimi):
    """A48, A73, B65: also between two rounds of a turn; later turns do not try the first provider again."""
    model.script(Say("I look.", calls=[LOOK_CALL], reasoning="Mine alone."), RATE_LIMITED)
    kimi.script(Say("Nothing yet."), Say("Still nothing."))
    state = await graph.ainvoke(ad_input("Hi?"), config())
    assert state["messages"][-1].text.partition("\n\n")[0] == "Nothing yet."
    assert state["provider"] == "kimi"
    assert state["provider_reason"] == (
        "OpenAI is the default, but OpenAI limits the key in OPENAI_API_KEY (429): slow down, so Kimi answers"
    )
    [history] = [message for message in kimi.requests[0].messages if message.get("tool_calls")]
    assert history["reasoning_content"] == "."
    assert (await graph.ainvoke(ad_input("And now?"), config()))["messages"][-1].text.partition("\n\n")[
        0
    ] == "Still nothing."
    assert len(model.requests) == 2


async def test_a_provider_that_the_caller_named_is_not_replaced(graph, model, kimi):
    model.script(RATE_LIMITED)
    with pytest.raises(Limited, match="OpenAI"):
        await graph.ainvoke(ad_input("Hi"), config(), context={"provider": "openai"})
    assert kimi.requests == []


async def test_without_another_key_the_error_is_raised_and_the_offline_model_does_not_answer(graph, model):
    model.script(Fail(500, "down"), Say("Back again."))
    with pytest.raises(Unavailable, match="OpenAI failed"):
        await graph.ainvoke(ad_input("Hi?"), config())
    assert (await graph.ainvoke(None, config()))["messages"][-1].text.partition("\n\n")[0] == "Back again."


async def test_when_all_providers_fail_the_error_of_the_first_is_raised(graph, model, kimi):
    model.script(Fail(500, "down"))
    kimi.script(Fail(503, "busy"))
    with pytest.raises(Unavailable, match=r"OpenAI failed \(500\): down"):
        await graph.ainvoke(ad_input("Hi"), config())


def test_an_outage_ends_after_its_retry_time_within_limits():
    now = [0.0]
    tracker = Outages(clock=lambda: now[0])
    error, long_error = Unavailable("a fails"), Unavailable("b fails")
    long_error.retry_after_s = 9999
    tracker.report("a", error)
    tracker.report("b", long_error)
    assert tracker.current() == {"a": "a fails", "b": "b fails"}
    now[0] = MIN_REST_S + 1
    assert tracker.current() == {"b": "b fails"}
    now[0] = MAX_REST_S + 1
    assert tracker.current() == {}


async def test_a_conversation_that_is_too_long_is_sent_shortened_and_stored_in_full(graph, model):
    """A66: the system prompt, the brief and the last turn are sent; calls keep their results.

    Afterwards the turns are summarised, so that the next request fits.
    """
    for number in range(4):
        model.script(Say(calls=[LOOK_CALL]), Say(f"Answer {number}. " + "word " * 200))
        await graph.ainvoke(ad_input(f"Wish {number}?"), config())
    before = len(model.requests)
    model.script(TOO_LONG, Say("Short."), Say("They talked."))
    state = await graph.ainvoke(ad_input("Last wish?"), config())
    assert state["messages"][-1].text.partition("\n\n")[0] == "Short."
    full, shortened, _ = (request.messages for request in model.requests[before:])
    assert state["summary"].startswith("They talked.")
    assert len(shortened) < len(full)
    assert [one["content"] for one in shortened if one["role"] == "user"][:1] == ["Wish 0?"]
    assert shortened[0] == full[0]
    assert shortened[-1]["content"].startswith("Last wish?\n\n<state>\n")
    assert len(state["messages"]) > len(shortened)


async def test_a_turn_that_is_too_long_is_refused_and_the_next_is_answered(graph, model):
    model.script(Say("Hello."), TOO_LONG, TOO_LONG, TOO_LONG, Say("Fine."), Say("They talked."))
    await graph.ainvoke(ad_input("Hi?"), config())
    with pytest.raises(ContextOverflow) as raised:
        await graph.ainvoke(ad_input("word " * 5000), config())
    assert "start a new conversation" in raised.value.remedy
    assert (await graph.ainvoke(ad_input("Shorter?"), config()))["messages"][-1].text.partition("\n\n")[
        0
    ] == "Fine."
    assert "word word" not in str(model.requests[-2].messages)


def test_a_conversation_that_fits_is_sent_unchanged():
    messages: list[AnyMessage] = [SystemMessage("s" * 999), HumanMessage("x" * 99), AIMessage("y")]
    assert fit_conversation(messages, 1_000) == messages
    assert fit_conversation(messages, 1) == messages


def test_a_long_first_message_is_shortened_before_the_newest_turns_are_dropped():
    """A66: both ends of the brief are sent."""
    turns: list[AnyMessage] = [SystemMessage("s"), HumanMessage(f"Ad for Elm. {'x' * 99_999} Be kind.")]
    turns += [AIMessage("Ready."), HumanMessage("livelier"), AIMessage("Done."), HumanMessage("thanks")]
    sent = fit_conversation(turns, 1_000)
    assert len(sent) == len(turns)
    assert sent[1].text.startswith("Ad for Elm. xxx")
    assert "characters left out" in sent[1].text
    assert sent[1].text.endswith("xxx Be kind.")
    assert sent[2:] == turns[2:]
    assert estimate_messages(sent) <= 1_000


def test_older_tool_results_are_shortened_before_the_newest():
    """A66: images and the state block stay, and every call keeps its result (X12)."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    turns: list[AnyMessage] = [HumanMessage([{"type": "text", "text": "w " * 2_000}, picture])]
    for number in range(2):
        calls = [{"id": f"c{number}", "name": "look", "args": {}}]
        turns += [AIMessage("", tool_calls=calls), ToolMessage("x" * 4_000, tool_call_id=f"c{number}")]
    sent = fit_conversation(with_state_block(turns, "music v2"), 1_400)
    assert len(sent) == len(turns)
    old, new = (one.text for one in sent if isinstance(one, ToolMessage))
    assert estimate_text(old) < 50
    assert 500 < estimate_text(new) < 800
    assert new.endswith("xxx\n\n<state>\nmusic v2\n</state>")
    assert sent[0].content[-1] == picture
    assert estimate_messages(sent) <= 1_400


def test_the_newest_turns_that_fit_are_kept():
    turns: list[AnyMessage] = [SystemMessage("s"), HumanMessage("brief")]
    for number in range(6):
        calls = [{"id": f"c{number}", "name": "look", "args": {}}]
        turns += [HumanMessage(f"wish {number} " + "x" * 400)]
        turns += [
            AIMessage("", tool_calls=calls),
            ToolMessage("{}", tool_call_id=f"c{number}"),
            AIMessage("a"),
        ]
    sent = fit_conversation(turns, estimate_messages(turns) // 2)
    assert [one.text[:6] for one in sent if isinstance(one, HumanMessage)] == ["brief", "wish 4", "wish 5"]
