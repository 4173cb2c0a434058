"""Statements of a scripted model: no false one reaches the person, and the true ones do (E-R9, E27)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml  # type: ignore[import-untyped]  # ships no types

from tests.doubles.chat_double import ChatDouble, Say

CASES: Final = yaml.safe_load(Path(__file__).with_name("statements.yaml").read_text("utf-8"))
FALSE: Final = [(case, statement) for case in CASES for statement in case["false"]]
ANSWER: Final = "answer"


def _say(name: str, call: str, args: Mapping[str, Any]) -> Say:
    return Say(calls=[(call, name, json.dumps(args))])


async def _ask(
    api: httpx.AsyncClient, model: ChatDouble, case: Mapping[str, Any], *answers: Say
) -> dict[str, Any]:
    """Return the reply to the question of a case, after its searches and these answers."""
    searches = [_say("search", f"call_{number}", args) for number, args in enumerate(case["searches"])]
    model.script(*searches, *answers)
    body = {"message": case["question"], "provider": "openai"}
    reply = await api.post("/api/chat", json=body)
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


def test_the_file_has_forty_false_statements_and_twenty_true_ones():
    assert len(FALSE) >= 40
    assert sum(len(case["true"]) for case in CASES) >= 20


@pytest.mark.parametrize("case", CASES, ids=lambda one: one["question"])
async def test_false_statements_are_left_out_and_true_ones_stay(
    api: httpx.AsyncClient, model: ChatDouble, case: Mapping[str, Any]
):
    """E-R9: with fields and without; each false one goes back to the model once, by its words."""
    false = [*case["false"], *case.get("false_in_fields", ())]
    answer = _say(ANSWER, "call_9", {"statements": [*false, *case["true"]]})
    reply = await _ask(api, model, case, answer, answer)
    refusal = json.dumps(json.loads(model.requests[-1].messages[-1]["content"].partition("\n\n<state>")[0]))
    lines = reply["response"].splitlines()
    assert [one["text"] for one in false if one["text"] in lines] == []
    assert [one["text"] for one in case["true"] if one["text"] not in lines] == []
    assert f"({len(false)} statements were left out: no result proves them.)" in lines
    assert [one["text"] for one in false if json.dumps(one["text"])[1:9] not in refusal] == []


@pytest.mark.parametrize("case", CASES, ids=lambda one: one["question"])
async def test_false_sentences_of_a_plain_text_are_left_out(
    api: httpx.AsyncClient, model: ChatDouble, case: Mapping[str, Any]
):
    """A model that answers without `answer` is checked sentence by sentence, fields or none."""
    text = Say("\n".join(one["text"] for one in case["false"]))
    reply = await _ask(api, model, case, text, text)
    assert [one["text"] for one in case["false"] if one["text"] in reply["response"]] == []
    history = json.dumps(reply["steps"])
    assert "left out" not in history


async def test_an_answer_without_a_search_is_proven_by_the_last_result(
    api: httpx.AsyncClient, model: ChatDouble
):
    """E-R4: its counts and groups last over turns; what it does not say is left out."""
    first = await _ask(
        api,
        model,
        {"question": "by channel?", "searches": [{"group_by": "channel"}]},
        _say(ANSWER, "call_8", {"statements": [{"text": "Twitter has 76 campaigns."}]}),
    )
    assert first["response"] == "Twitter has 76 campaigns."
    right, wrong = "Email has 74 campaigns.", "Email has 80 campaigns."
    model.script(Say(right))
    more = {"provider": "openai", "conversationId": first["conversationId"]}
    reply = (await api.post("/api/chat", json={"message": "and email?", **more})).json()
    assert reply["response"] == right
    model.script(Say(wrong), Say(wrong))
    reply = (await api.post("/api/chat", json={"message": "surely more?", **more})).json()
    assert wrong not in reply["response"]


BOTH: Final = [
    {"company": ["Juniper Street"], "channel": ["twitter"]},
    {"company": ["Bluewren Bank"], "channel": ["email"]},
]


@pytest.mark.parametrize(
    ("before", "true", "false"),
    [
        ("c-0246 is an ad of Bluewren Bank.", "It ran by email.", "It ran on Twitter."),
        ("c-0246 is an ad of Bluewren Bank.", "Its tone is aspirational.", "Its tone is urgent."),
        ("c-0246 is the one.", "- **Channel:** email", "- **Channel:** Twitter"),
        ("## Bluewren Bank", "- 6.00% APY on every dollar", "- 4.30% APY on every dollar"),
        ("Bluewren Bank has three.", "They promise 6.00% APY on every dollar.", "They promise 4.30% APY."),
    ],
)
async def test_a_sentence_that_goes_on_is_about_the_campaign_or_company_before_it(
    api: httpx.AsyncClient, model: ChatDouble, before: str, true: str, false: str
):
    case = {"question": "And?", "searches": BOTH}
    reply = await _ask(api, model, case, *[Say(f"{before}\n{true}\n{false}")] * 2)
    assert reply["response"].splitlines()[:2] == [before, true]
    assert false not in reply["response"]


async def test_every_sentence_of_a_long_plain_text_is_checked(api: httpx.AsyncClient, model: ChatDouble):
    """A text of very many sentences is left out from the place on where it is not read any more."""
    false = "There are 500 email campaigns."
    lines = [f"Twitter has 76 campaigns{'.' * (at % 3 + 1)}" for at in range(90)]
    text = Say("\n".join([*lines, false, *lines, false, "x" * 9_000 + f" {false}"]))
    reply = await _ask(
        api, model, {"question": "by channel?", "searches": [{"group_by": "channel"}]}, text, text
    )
    assert lines[-1] in reply["response"]
    assert false not in reply["response"]


async def test_questions_that_could_follow_claim_nothing_false(api: httpx.AsyncClient, model: ChatDouble):
    """E-R9: a person reads them as the product's words, too; a value may be new."""
    true = ["What about TikTok?", "Which of the 74 email campaigns have an offer?"]
    false = ["Why are there 412 email campaigns?", "Zenith Bank has 500 campaigns."]
    answer = {"statements": [{"text": "Email has 74 campaigns."}], "suggestions": [*false, *true]}
    case = {"question": "by channel?", "searches": [{"group_by": "channel"}]}
    reply = await _ask(api, model, case, _say(ANSWER, "call_9", answer))
    assert reply["suggestions"] == true


async def test_amounts_of_a_table_reach_the_model_in_full_digits(api: httpx.AsyncClient, model: ChatDouble):
    await _ask(api, model, {"question": "by channel?", "searches": [{"group_by": "channel"}]}, Say("Here."))
    assert "twitter: 76 campaigns, spend 19,067,500" in model.requests[-1].messages[-1]["content"]


async def test_words_are_not_streamed_before_they_are_checked(api: httpx.AsyncClient, model: ChatDouble):
    """E-R9: neither a plain answer nor words beside a call reach a reader of the stream unchecked."""
    wrong, right = "There are 500 email campaigns.", "There are 74 email campaigns."
    call = ("call_1", "search", json.dumps({"channel": ["email"]}))
    model.script(Say(wrong, [call]), Say(right))
    body = {"message": "how many?", "provider": "openai"}
    stream = await api.post("/api/chat", json=body, headers={"Accept": "text/event-stream"})
    assert wrong not in stream.text
    assert right in stream.text


MODES: Final = ("values", "updates", "messages", "messages-tuple", "events", "custom", "tasks", "debug")


@pytest.mark.parametrize("mode", MODES)
async def test_a_false_statement_is_in_no_stream_of_the_wire(
    api: httpx.AsyncClient, model: ChatDouble, mode: str
):
    """E-R9: neither the answer that is sent back nor the corrected one is streamed with its false words."""
    false = Say("There are 500 email campaigns.")
    model.script(false, false)
    body = {
        "assistant_id": "campaign_search",
        "input": {"messages": [{"role": "user", "content": "How many campaigns are by email?"}]},
        "context": {"provider": "openai"},
        "stream_mode": [mode],
    }
    reply = await api.post("/runs/stream", json=body)
    assert (reply.status_code, model.unused) == (200, 0), reply.text
    assert '"content":"There are 500' not in reply.text.replace('": "', '":"')
