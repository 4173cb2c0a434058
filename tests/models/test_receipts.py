"""Receipts of turns over REST, LangGraph's wire and in streams: versions and errors, no model's words.

A vendor's model is scripted at the wire; it may claim what it likes.
"""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.doubles.ad_model import call
from tests.doubles.chat_double import ChatDouble, Fail, Reply, Say
from tests.doubles.served import app_client, parse_events, started_app

OPENAI = {"provider": "openai"}


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatDouble]:
    with ChatDouble() as one:
        for name, value in one.environ.items():
            monkeypatch.setenv(name, value)
        yield one


@pytest.fixture
async def http(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with started_app(valkey_url) as app, app_client(app) as client:
        yield client


def recolour(element: str, call_id: str = "c1") -> tuple[str, str, str]:
    changes = {"style": {"color": "#1d4ed8"}}
    arguments = json.dumps({"elementId": element, "modifications": changes})
    return call_id, "modify_element", arguments


async def chat(http: httpx.AsyncClient, text: str, **more: Any) -> dict[str, Any]:
    reply = await http.post("/api/pages/shop/chat", json={"message": text, **OPENAI, **more})
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


async def test_a_reply_names_each_change_with_its_version_and_keeps_the_models_words(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(Say(calls=[recolour("heading-1")]), Say("It is blue, as a sky of v9."))
    body = await chat(http, "Make the headline blue.")
    assert body["message"] == "It is blue, as a sky of v9."
    [change] = body["receipt"]["changed"]
    assert (change["stream"], change["versionId"]) == ("page", "v1")
    assert "(heading-1)" in change["name"]
    assert body["receipt"]["text"] == f"Changed: {change['name']} v1."


async def test_a_reply_names_a_failed_edit_with_its_reason_in_the_persons_language(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(Say(calls=[recolour("card-99")]), *[Say("Die Karte ist jetzt blau.")] * 2)
    body = await chat(http, "Mach bitte die Karte mit dem Preis blau.")
    assert body["message"].startswith("Die Karte ist jetzt blau.\n\nEs wurde nichts geändert: ")
    assert "card-99" in body["receipt"]["text"]
    assert body["receipt"]["changed"] == []


async def test_the_wire_and_the_stream_carry_the_receipt_behind_the_models_words(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    """The model is not shown the line in the next turn: it is not to learn to write one."""
    double.script(Say(calls=[recolour("card-99")]), *[Say("It is blue.")] * 2)
    accept = {"Accept": "text/event-stream"}
    body = {"message": "Make the card blue.", **OPENAI}
    reply = await http.post("/api/pages/shop/chat", json=body, headers=accept)
    events = parse_events(reply.text)
    [sent] = [data for name, data in events if name == "receipt"]
    assert sent["text"].startswith("Nothing was changed: ")
    last = [data for name, data in events if name == "aiResponseChunk"][-1]
    assert (last["isLastChunk"], last["content"]) == (True, f"\n\n{sent['text']}")
    values = (await http.get("/threads/shop/state")).json()["values"]
    message = values["messages"][-1]
    assert message["content"] == [
        {"type": "text", "text": "It is blue."},
        {"type": "text", "text": f"\n\n{sent['text']}"},
    ]
    assert message["additional_kwargs"]["receipt"] == values["receipt"]
    double.script(Say("Hello."))
    await chat(http, "Is it blue?")
    assert {"role": "assistant", "content": "It is blue."} in double.requests[-1].messages


async def test_a_failed_edit_is_not_made_good_by_the_edit_of_another_part(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    both = [Say(calls=[recolour("card-99")]), Say(calls=[recolour("heading-1", "c2")])]
    double.script(*both, Say("Both are changed."))
    body = await chat(http, "Make the card and the headline blue.")
    [problem] = body["receipt"]["problems"]
    assert "card-99" in problem
    assert body["message"].startswith("Both are changed.\n\nChanged: ")
    assert "Not done: " in body["message"]


@pytest.mark.parametrize(
    "rounds",
    [
        [[recolour("heading-1"), recolour("heading-1", "c2")]],
        [[recolour("heading-1")], [recolour("heading-1")]],
    ],
)
async def test_a_call_that_repeats_the_one_before_it_is_no_failure(
    http: httpx.AsyncClient, double: ChatDouble, rounds: Any
) -> None:
    double.script(*[Say(calls=calls) for calls in rounds], Say("It is blue."))
    body = await chat(http, "Make the headline blue.")
    assert body["message"] == "It is blue."
    assert body["receipt"]["problems"] == []
    assert [one["versionId"] for one in body["receipt"]["changed"]] == ["v1"]


async def test_a_claim_in_a_turn_without_a_call_is_followed_by_the_line_of_the_receipt(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    """A polite request has the mark of a question, so it is not doubted at the cost of another call."""
    double.script(Say("Done! The headline is blue now. Anything else?"))
    body = await chat(http, "Can you make the headline blue?")
    assert body["message"].endswith("Anything else?\n\nNothing was changed.")
    double.script(Say("Which blue do you mean?"))
    assert (await chat(http, "Can you make it blue?"))["message"] == "Which blue do you mean?"


async def test_plain_talk_after_a_change_costs_one_call(http: httpx.AsyncClient, double: ChatDouble) -> None:
    double.script(Say(calls=[recolour("heading-1")]), Say("It is blue."), Say("You're welcome!"))
    await chat(http, "Make the headline blue.")
    body = await chat(http, "Thanks, that looks great.")
    assert body["message"] == "You're welcome!\n\nNothing was changed."
    assert len(double.requests) == 3


async def test_a_quoted_question_is_no_question_of_the_person(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(*[Say("It is Why us?")] * 2)
    await chat(http, 'Make the headline "Why us?", as on https://example.org/?p=1.')
    assert len(double.requests) == 2


@pytest.mark.parametrize("failure", [Fail(429, "slow down"), Fail(500, "down"), Fail(400, "no")])
async def test_a_failed_nudge_leaves_the_first_answer(
    http: httpx.AsyncClient, double: ChatDouble, failure: Fail
) -> None:
    double.script(Say("I made the headline blue."), failure)
    body = await chat(http, "Make the headline blue.")
    assert body["message"] == "I made the headline blue.\n\nNothing was changed."


async def test_an_answer_counts_though_its_deletion_has_become_impossible(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(Say(calls=[recolour("heading-1")]), Say("It is blue."))
    await chat(http, "Make the headline blue.")
    double.script(Say(calls=[call("c1", "delete_element", elementId="heading-1")]))
    assert (await chat(http, "Delete the headline."))["question"]
    assert (await http.put("/api/pages/shop/locks/heading-1")).status_code == 200
    double.script(*[Say("It stays.")] * 2)
    no = {"decisions": [{"type": "reject", "message": "no, I like it"}], **OPENAI}
    reply = await http.post("/api/pages/shop/decisions", json=no)
    assert reply.status_code == 200, reply.text
    assert "no, I like it" in json.dumps(double.requests[-1].messages)


async def test_a_turn_without_a_call_gets_one_nudge_and_its_text_then_stands(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(Say("I made the headline blue."), Say("The headline is blue now."))
    body = await chat(http, "Make the headline blue.")
    assert body["message"] == "The headline is blue now.\n\nNothing was changed."
    assert (body["drafts"], len(double.requests)) == ({}, 2)
    assert "Nothing was changed in this turn" in double.requests[1].messages[-1]["content"]


async def test_a_nudged_model_may_call_its_tool(http: httpx.AsyncClient, double: ChatDouble) -> None:
    done = Say("Now it is blue.")
    double.script(Say("I made the headline blue."), Say(calls=[recolour("heading-1")]), done)
    body = await chat(http, "Make the headline blue.")
    assert (body["message"], body["drafts"]) == ("Now it is blue.", {"page": "v1"})


@pytest.mark.parametrize("text", ["Is the headline blue?", "标题是蓝色的吗", "هل العنوان أزرق؟"])
async def test_the_answer_to_a_question_is_not_requested_again(
    http: httpx.AsyncClient, double: ChatDouble, text: str
) -> None:
    double.script(Say("It is black."))
    await chat(http, text)
    assert len(double.requests) == 1


async def test_an_invented_version_is_nudged_in_the_answer_to_a_question_too(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(Say("Yes, it is blue in v7."), Say("No, I have not changed it."))
    body = await chat(http, "Is the headline blue?")
    assert body["message"] == "No, I have not changed it.\n\nNothing was changed."


async def test_an_empty_answer_to_the_nudge_leaves_the_first_one(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(Say("You are welcome."), Say(""))
    body = await chat(http, "Thanks for the page.")
    assert body["message"] == "You are welcome.\n\nNothing was changed."


async def test_a_deletion_that_cannot_succeed_leads_to_no_question(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    """The call goes back to the model with the reason, and the one that can succeed is asked about."""
    wrong = call("c1", "delete_element", elementId="card-99")
    right = call("c2", "delete_element", elementId="heading-1")
    double.script(Say(calls=[wrong]), Say(calls=[right]))
    body = await chat(http, "Delete the headline.")
    [action] = body["question"]["actions"]
    assert action["args"] == {"elementId": "heading-1"}
    assert "the heading “" in body["message"]
    assert "card-99" in double.requests[1].messages[-1]["content"]
    double.script(*[Say("It is gone.")] * 2)
    no = {"decisions": [{"type": "reject"}], **OPENAI}
    reply = (await http.post("/api/pages/shop/decisions", json=no)).json()
    assert reply["receipt"]["changed"] == []


async def test_the_deletion_of_a_locked_element_leads_to_no_question(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(Say(calls=[recolour("heading-1")]), Say("It is blue."))
    await chat(http, "Make the headline blue.")
    assert (await http.put("/api/pages/shop/locks/heading-1")).status_code == 200
    double.script(Say(calls=[call("c1", "delete_element", elementId="heading-1")]), *[Say("It is gone.")] * 2)
    body = await chat(http, "Delete the headline.")
    assert body["question"] is None
    assert body["message"].startswith("It is gone.\n\nNothing was changed: ")
    assert "is locked" in body["receipt"]["text"]


async def test_an_equal_failing_call_gets_another_answer_and_the_third_ends_the_turn(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(*[Say(calls=[recolour("card-99", f"c{number}")]) for number in (1, 2, 3)])
    body = await chat(http, "Make the card blue.")
    first, second = (double.requests[at].messages[-1]["content"] for at in (1, 2))
    assert "not carried out again" in second
    assert "not carried out again" not in first
    assert body["message"].startswith("I stopped, because the same step failed again and again: ")
    assert (double.unused, body["drafts"]) == (0, {})


async def test_a_failed_call_that_a_later_write_makes_possible_is_carried_out(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    new = call(
        "c2", "create_element", parentId="heading-1", elementType="divider", properties={}, position="after"
    )
    double.script(
        Say(calls=[recolour("divider-1", "c1")]),
        Say(calls=[new]),
        Say(calls=[recolour("divider-1", "c3")]),
        Say("Done."),
    )
    body = await chat(http, "Add a blue line.")
    assert [one["status"] for one in body["toolCalls"]] == ["error", "completed", "completed"]
    assert body["receipt"]["problems"] == []


@pytest.mark.parametrize(
    "closing",
    [
        Fail(400, "tool_choice none is not supported"),
        Say(calls=[recolour("heading-1", "c9")]),
        Fail(500, "the engine has stopped"),
    ],
)
async def test_the_limit_of_rounds_ends_in_an_answer_from_the_results(
    http: httpx.AsyncClient, double: ChatDouble, closing: Reply
) -> None:
    """E-R5: whatever the closing call brings, the turn ends with an answer, and says that it was cut."""
    reads = [Say(calls=[call(f"c{at}", "find_elements", query=f"word{at}")]) for at in range(9)]
    double.script(*reads, Say(calls=[recolour("heading-1", "c10")]), *[closing] * 3)
    body = await chat(http, "Make the headline blue.")
    assert (body["truncated"], body["drafts"]) == (True, {"page": "v1"})
    assert body["message"].startswith("This turn ended at its limit of rounds.")
    assert "#1d4ed8" in body["message"]
    double.clear()
    double.script(Say("It is blue."))
    assert (await chat(http, "Is it blue?"))["truncated"] is False


async def test_a_model_that_cannot_call_tools_is_named_with_a_remedy(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(Fail(400, "registry.ollama.ai/library/gemma:2b does not support tools"))
    reply = await http.post("/api/pages/shop/chat", json={"message": "Make it blue.", **OPENAI})
    assert (reply.status_code, reply.json()["type"]) == (422, "invalid"), reply.text
    assert "cannot call tools" in reply.json()["error"]
    assert "OPENAI_MODEL" in reply.json()["remedy"]
