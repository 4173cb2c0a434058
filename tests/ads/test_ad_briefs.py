"""A brief through the workflow: its format, its language and its mandatory lines (A51, A77, A-R15)."""

import pytest
from langchain_core.messages import HumanMessage

from callsheet.tools.ads import voices
from tests.doubles.ad_model import THAI, call, config, stream, tool_messages
from tests.doubles.chat_double import Say

ENGLISH = voices.search("english", count=1)[0].id
BRIEF = {
    "clientDescription": "Harbour Bikes rents e-bikes. Call 0800 123 456. Code RIDE20.",
    "additionalContext": "Legal: Offer valid for new customers only.",
    "format": "Dialogue between two friends, then a jingle",
    "duration": 10,
}
FULL = (
    "Harbour Bikes. Oh eight hundred, one two three, four five six. Ride twenty. "
    "Valid for new customers only, this offer."
)
SHORT = "Harbour Bikes. Call oh eight hundred, one two three, four five six."
MISSING = ["legal line “Offer valid for new customers only.”", "code RIDE20"]


def voice_call(number, text, voice=ENGLISH, **more):
    """Return a reply of the model that drafts voices with one track."""
    tracks = [{"voiceId": voice, "text": text}]
    return Say(calls=[call(f"v{number}", "create_voice_draft", adId="kopi", tracks=tracks, **more)])


async def turn(graph, model, *replies, **graph_input):
    """Return the state after a turn in which the model gives these replies."""
    model.script(*replies)
    graph_input = graph_input or {"brief": BRIEF}
    return await graph.ainvoke({"ad_id": "kopi", **graph_input}, config(), context={"provider": "openai"})


async def test_the_model_is_sent_the_lines_of_the_brief_that_its_script_lacks(graph, model, opened):
    """A51: it writes the script again; the stored scripts are as the model wrote them."""
    state = await turn(graph, model, voice_call(1, SHORT), voice_call(2, FULL), Say("Done."))
    first, second = (result for _, result in tool_messages(state))
    assert first["missing"] == MISSING
    assert "Write the script again" in first["suggestion"]
    assert not {"missing", "check", "suggestion"} & set(second)
    assert state["messages"][-1].text == "Done."
    versions = (await stream(opened, "voices")).versions
    assert [version.data["voiceTracks"][0]["text"] for version in versions] == [SHORT, FULL]


async def test_after_two_rewrites_the_reply_names_the_missing_lines_once(graph, model):
    """A51, A64: at the end of the reply, whatever the model says; not in later turns."""
    scripts = [voice_call(number, f"{SHORT} {number}") for number in range(4)]
    claim = "The script says the code RIDE20."
    state = await turn(graph, model, *scripts, Say(claim))
    results = [result for _, result in tool_messages(state)]
    assert [result["missing"] for result in results] == [MISSING] * 4
    assert ["again with it" in result["suggestion"] for result in results] == [True, True, False, False]
    assert "end of your answer" in results[2]["suggestion"]
    note = f"The script does not say: {', '.join(MISSING)}."
    assert state["messages"][-1].text == f"{claim}\n\nChanged: voices v4. {note}"
    state = await turn(graph, model, Say("You are welcome."), messages=[HumanMessage("Fine?")])
    assert state["messages"][-1].text == "You are welcome.\n\nNothing was changed.", (
        "the next turn has no script"
    )
    state = await turn(
        graph, model, voice_call(5, f"{SHORT}!"), Say("Yes!"), messages=[HumanMessage("livelier")]
    )
    assert state["messages"][-1].text == "Yes!"
    assert not {"missing", "check", "suggestion"} & set(tool_messages(state)[-1][1])


GYM = {"clientDescription": "Elm Gym. From $49 a month. Call 555 010 0199."}
NUMBER = "Call five five five, oh one oh, oh one nine nine."


async def test_a_later_message_changes_the_mandatory_lines_of_the_brief(graph, model):
    """A51, A64: a replaced line is only to be checked, an added one is compared."""

    async def send(number, text, wish):
        messages = [HumanMessage(wish)]
        state = await turn(graph, model, voice_call(number, text), Say("Done."), messages=messages)
        result = tool_messages(state)[-1][1]
        return result.get("missing", []), result.get("check", []), state["messages"][-1].text

    state = await turn(
        graph, model, voice_call(1, f"Elm. Forty-nine dollars. {NUMBER}"), Say("Ok."), brief=GYM
    )
    assert not {"missing", "check"} & set(tool_messages(state)[-1][1])
    cheaper = f"Elm. Thirty-nine dollars. {NUMBER}"
    assert await send(2, cheaper, "The price is now $39 instead.") == ([], ["price $49"], "Done.")
    missing_phone = ["phone number 555 010 0199"]
    note = f"Done.\n\nChanged: voices v3. The script does not say: {missing_phone[0]}."
    assert await send(3, "Elm. Thirty-nine dollars.", "Take the phone number out") == (
        missing_phone,
        [],
        note,
    )
    assert await send(4, "Elm! Thirty-nine dollars.", "more lively") == ([], [], "Done.")
    added_lines = ["exact words “No fees”", "code FIT25"]
    missing, check, reply = await send(5, "Elm! $39.", 'It must say "No fees" and the code FIT25')
    assert (missing, check) == (added_lines, [])
    assert reply == f"Done.\n\nChanged: voices v5. The script does not say: {', '.join(added_lines)}."


async def test_a_line_that_may_not_be_mandatory_is_to_be_checked_and_not_missing(graph, model):
    """A51."""
    description = (
        "A shop.\nBudget: $5,000\nLegal: none\nSales grew 12% last year.\nMandatory: mention the brand twice"
    )
    script_text = (
        "Minimum spend twenty dollars. Over eighteens only. Ends May thirty-first, twenty twenty-six."
    )
    brief_input = {"brief": {"clientDescription": description}}
    state = await turn(graph, model, voice_call(1, "A shop."), Say("Done."), **brief_input)
    [(_, result)] = tool_messages(state)
    assert result["check"] == ["legal line “mention the brand twice”", "price $5,000", "price 12%"]
    assert "missing" not in result
    assert "again" not in result["suggestion"]
    assert state["messages"][-1].text == "Done."
    legal = "Elm Wine. Legal: Minimum spend $20. Over 18s only. Ends 31 May 2026."
    state = await turn(
        graph, model, voice_call(2, script_text), Say("Done."), brief={"clientDescription": legal}
    )
    assert not {"missing", "check"} & set(tool_messages(state)[-1][1])


async def test_lines_to_check_are_sent_to_the_model_once_in_a_turn(graph, model):
    """A51: otherwise an obedient model rewrites a script in another language again and again."""
    brief_input = {"brief": {"clientDescription": "Ulmen Buch. Nur 19,99 €.", "language": "german"}}
    script_text = "Nur neunzehn Euro neunundneunzig."
    scripts = [voice_call(number, f"{script_text} Los{'!' * number}") for number in range(3)]
    state = await turn(graph, model, *scripts, Say("Fertig."), **brief_input)
    assert [result.get("check") for _, result in tool_messages(state)] == [["price 19,99 €"], None, None]


async def test_variations_of_one_round_are_compared_with_the_script_before_the_round(graph, model):
    """A51, A77."""
    calls = [each for number in (1, 2) for each in voice_call(number, f"{SHORT} {number}").calls]
    state = await turn(graph, model, Say(calls=calls), Say("Done."))
    assert [result["missing"] for _, result in tool_messages(state)] == [MISSING, MISSING]


async def test_one_suggestion_names_the_excess_length_and_the_missing_lines(graph, model):
    long_text = f"{SHORT} {'We ride on and on and on. ' * 20}"
    state = await turn(
        graph, model, voice_call(1, long_text), Say("Too long, without legal line and code RIDE20.")
    )
    [(_, result)] = tool_messages(state)
    assert result["overBySeconds"] > 0
    assert "so that it fits" in result["suggestion"]
    assert "wants `missing` spoken" in result["suggestion"]


async def test_a_price_in_a_script_of_another_language_is_to_be_checked_and_not_missing(graph, model):
    brief_input = {"brief": {"clientDescription": "A coffee bar, 20% off", "language": "thai"}}
    state = await turn(graph, model, voice_call(1, "ลดยี่สิบเปอร์เซ็นต์", THAI[0]), Say("Done."), **brief_input)
    [(_, result)] = tool_messages(state)
    assert result["check"] == ["price 20%"]
    assert "missing" not in result
    assert state["messages"][-1].text == "Done."


async def test_a_script_is_compared_with_a_message_if_there_is_no_brief(graph, model):
    messages = [HumanMessage("A 15 second spot for Elm Books, www.elm.example")]
    state = await turn(graph, model, voice_call(1, "Elm Books."), Say("Done."), messages=messages)
    line = "Changed: voices v1. The script does not say: address www.elm.example."
    assert state["messages"][-1].text == f"Done.\n\n{line}"


async def test_a_failed_draft_adds_no_missing_lines_to_the_reply(graph, model):
    state = await turn(graph, model, voice_call(1, FULL), voice_call(2, ""), Say("Done."))
    assert state["messages"][-1].text.startswith("Done.\n\nChanged: voices v1. Not done: ")
    assert "does not say" not in state["messages"][-1].text


async def test_the_format_of_a_brief_is_sent_to_the_model(graph, model):
    """A51."""
    await turn(graph, model, Say("What is your budget?"), Say("What is your budget?"))
    assert f"Format: {BRIEF['format']}" in model.requests[0].messages[1]["content"].splitlines()


@pytest.mark.parametrize("language", ["thai", "th-TH", "ภาษาไทย"])
async def test_a_language_in_a_draft_call_sets_the_speaking_rate_and_is_stored(
    graph, model, opened, language
):
    """A51, A-R15: whatever the language of the voice."""
    messages = [HumanMessage("Create a 30s Spotify Premium ad in Thai")]
    text = "ฟังเพลงโปรดของคุณได้ทุกที่ทุกเวลา"
    look_call = Say(calls=[call("look", "get_current_state", adId="kopi")])
    replies = (
        voice_call(1, text),
        voice_call(2, text, language=language),
        look_call,
        voice_call(3, text),
        Say("Done."),
    )
    state = await turn(graph, model, *replies, messages=messages)
    results = dict(tool_messages(state))
    lengths = [results[name]["timeline"]["durationSeconds"] for name in ("v1", "v2", "v3")]
    assert lengths[0] != lengths[1] == lengths[2]
    assert results["look"]["ad"]["language"] == "thai"
    languages = [version.data.get("language") for version in (await stream(opened, "voices")).versions]
    assert languages == [None, "thai", "thai"]
    assert "Spot: 30 s, thai" in str(model.requests[-1].messages)


async def test_a_draft_in_an_unknown_language_is_refused(graph, model):
    """A10, A12."""
    state = await turn(graph, model, voice_call(1, FULL, language="klingon"), Say("Sorry."), Say("Sorry."))
    [(_, result)] = tool_messages(state)
    assert "'klingon' is not known" in result["error"]


BAKERY = {"clientDescription": "Miel, a bakery in Lyon. Only twelve dollars a box.", "duration": 10}


async def test_names_that_nobody_gave_are_named_to_the_model_and_then_to_the_person(graph, model):
    """A51, A64: the client's name and a price in words are wanted; what nobody gave is named."""
    text = "You smell that? Welcome to Nordlys Bakery, at Harbour Street. Call 555 010 0199 now."
    state = await turn(graph, model, voice_call(1, text), Say("It is ready."), brief=BAKERY)
    [(_, result)] = tool_messages(state)
    assert result["missing"] == ["client's name Miel"]
    assert {"Nordlys", "Harbour", "Street", "555 010 0199"} <= {*result["foreign"]}
    assert "without what you made up" in result["suggestion"]
    notes = state["receipt"]["notes"]
    assert [note.partition(":")[0] for note in notes] == [
        "The script does not say",
        "Neither the brief nor the conversation has",
    ]
    assert state["messages"][-1].text.startswith(
        "It is ready.\n\nChanged: voices v1. The script does not say"
    )


async def test_a_price_in_words_that_is_left_out_is_missing(graph, model):
    """A51: digits and words are one price."""
    replies = voice_call(1, "Miel. Warm bread, and a smile for everyone."), Say("Ready.")
    state = await turn(graph, model, *replies, brief=BAKERY)
    assert tool_messages(state)[-1][1]["missing"] == ["price 12 dollars"]


async def test_what_brief_or_conversation_have_is_not_foreign(graph, model):
    text = "Miel, in Lyon. Twelve dollars a box. Say hello to Anna, the baker."
    state = await turn(graph, model, voice_call(1, text), Say("Ready."), brief=BAKERY)
    assert tool_messages(state)[-1][1]["foreign"] == ["Anna"]
    text = "Miel, in Lyon. Twelve dollars a box. And here comes Anna, the baker."
    wish = [HumanMessage("Let Anna speak, she is the baker.")]
    state = await turn(graph, model, voice_call(2, text), Say("Ready."), messages=wish)
    assert "foreign" not in tool_messages(state)[-1][1]


async def test_a_script_with_a_place_of_the_prompts_example_is_refused(graph, model):
    text = "<answer with the client's name and the offer>"
    state = await turn(graph, model, voice_call(1, text), *[Say("Sorry.")] * 2, brief=BAKERY)
    [(_, result)] = tool_messages(state)
    assert "stands for something of the brief" in result["error"]
    assert state["drafts"] == {}


async def test_a_nearly_empty_spot_is_short_and_the_result_says_how_many_words_fit(graph, model):
    """A51: `fits` alone would be praise for one word in thirty seconds."""
    brief = {**BAKERY, "duration": 30}
    state = await turn(graph, model, voice_call(1, "Miel. Twelve dollars a box."), Say("Ready."), brief=brief)
    [(_, result)] = tool_messages(state)
    assert (result["timeline"]["fits"], result["timeline"]["short"]) == (True, True)
    assert "% of the spot; about " in result["suggestion"]
    assert "% of the spot" in model.requests[-1].messages[-1]["content"].partition("<state>")[2]
