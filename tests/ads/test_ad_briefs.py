"""A brief through the workflow: its format, its language, and what it wants spoken (A51, A77, A-R15)."""

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
    "duration": 20,
}
FULL = (
    "Oh eight hundred, one two three, four five six. Ride twenty. Valid for new customers only, this offer."
)
SHORT = "Harbour Bikes. Call oh eight hundred, one two three, four five six."
MISSING = ["legal line “Offer valid for new customers only.”", "code RIDE20"]


def script(number, text, voice=ENGLISH, **more):
    tracks = [{"voiceId": voice, "text": text}]
    return Say(calls=[call(f"v{number}", "create_voice_draft", adId="kopi", tracks=tracks, **more)])


async def turn(graph, model, *answers, **given):
    model.script(*answers)
    given = given or {"brief": BRIEF}
    return await graph.ainvoke({"ad_id": "kopi", **given}, config(), context={"provider": "openai"})


async def test_what_a_script_lacks_of_the_brief_is_told_to_the_model_which_writes_it_again(
    graph, model, opened
):
    """A51: the stored scripts are as the model wrote them."""
    state = await turn(graph, model, script(1, SHORT), script(2, FULL), Say("Done."))
    first, second = (result for _, result in tool_messages(state))
    assert first["missing"] == MISSING
    assert "Write the script again" in first["suggestion"]
    assert not {"missing", "check", "suggestion"} & set(second)
    assert state["messages"][-1].text == "Done."
    versions = (await stream(opened, "voices")).versions
    assert [version.data["voiceTracks"][0]["text"] for version in versions] == [SHORT, FULL]


async def test_after_two_rewrites_the_person_is_told_once_what_is_missing(graph, model):
    """A51, A64: at the end of the reply, whatever the model says of it; later turns are silent about it."""
    scripts = [script(number, f"{SHORT} {number}") for number in range(4)]
    claim = "The script says the code RIDE20."
    state = await turn(graph, model, *scripts, Say(claim))
    results = [result for _, result in tool_messages(state)]
    assert [result["missing"] for result in results] == [MISSING] * 4
    assert ["again with it" in result["suggestion"] for result in results] == [True, True, False, False]
    assert "end of your answer" in results[2]["suggestion"]
    note = f"(The script does not say: {', '.join(MISSING)}.)"
    assert state["messages"][-1].text == f"{claim}\n\n{note}"
    state = await turn(graph, model, Say("You are welcome."), messages=[HumanMessage("Thanks")])
    assert state["messages"][-1].text == "You are welcome.", "the next turn has no script"
    state = await turn(graph, model, script(5, f"{SHORT}!"), Say("Yes!"), messages=[HumanMessage("livelier")])
    assert state["messages"][-1].text == "Yes!"
    assert not {"missing", "check", "suggestion"} & set(tool_messages(state)[-1][1])


GYM = {"clientDescription": "Elm Gym. From $49 a month. Call 555 010 0199."}
NUMBER = "Call five five five, oh one oh, oh one nine nine."


async def test_a_later_message_changes_what_must_be_spoken(graph, model):
    """A51, A64: what it replaces is to be judged by the model, what it adds is compared."""

    async def ask(number, text, wish):
        said = [HumanMessage(wish)]
        state = await turn(graph, model, script(number, text), Say("Done."), messages=said)
        result = tool_messages(state)[-1][1]
        return result.get("missing", []), result.get("check", []), state["messages"][-1].text

    opened = await turn(graph, model, script(1, f"Elm. Forty-nine dollars. {NUMBER}"), Say("Ok."), brief=GYM)
    assert not {"missing", "check"} & set(tool_messages(opened)[-1][1])
    cheaper = f"Elm. Thirty-nine dollars. {NUMBER}"
    assert await ask(2, cheaper, "The price is now $39 instead.") == ([], ["price $49"], "Done.")
    lost = ["phone number 555 010 0199"]
    note = f"Done.\n\n(The script does not say: {lost[0]}.)"
    assert await ask(3, "Elm. Thirty-nine dollars.", "Take the phone number out") == (lost, [], note)
    assert await ask(4, "Elm! Thirty-nine dollars.", "more lively") == ([], [], "Done.")
    added = ["exact words “No fees”", "code FIT25"]
    missing, check, reply = await ask(5, "Elm! $39.", 'It must say "No fees" and the code FIT25')
    assert (missing, check) == (added, [])
    assert reply == f"Done.\n\n(The script does not say: {', '.join(added)}.)"


async def test_what_only_may_be_wanted_is_never_claimed_missing(graph, model):
    """A51."""
    form = (
        "A shop.\nBudget: $5,000\nLegal: none\nSales grew 12% last year.\nMandatory: mention the brand twice"
    )
    spoken = "Minimum spend twenty dollars. Over eighteens only. Ends May thirty-first, twenty twenty-six."
    given = {"brief": {"clientDescription": form}}
    state = await turn(graph, model, script(1, "A shop."), Say("Done."), **given)
    [(_, result)] = tool_messages(state)
    assert result["check"] == ["legal line “mention the brand twice”", "price $5,000", "price 12%"]
    assert "missing" not in result
    assert "again" not in result["suggestion"]
    assert state["messages"][-1].text == "Done."
    legal = "Elm Wine. Legal: Minimum spend $20. Over 18s only. Ends 31 May 2026."
    state = await turn(graph, model, script(2, spoken), Say("Done."), brief={"clientDescription": legal})
    assert not {"missing", "check"} & set(tool_messages(state)[-1][1])


async def test_what_is_to_be_checked_is_said_once_in_a_turn(graph, model):
    """A51: an obedient model writes no script after script in another language."""
    given = {"brief": {"clientDescription": "Ulmen Buch. Nur 19,99 €.", "language": "german"}}
    spoken = "Nur neunzehn Euro neunundneunzig."
    scripts = [script(number, f"{spoken} Los{'!' * number}") for number in range(3)]
    state = await turn(graph, model, *scripts, Say("Fertig."), **given)
    assert [result.get("check") for _, result in tool_messages(state)] == [["price 19,99 €"], None, None]


async def test_variations_are_compared_with_the_script_before_them_all(graph, model):
    """A51, A77."""
    calls = [call for number in (1, 2) for call in script(number, f"{SHORT} {number}").calls]
    state = await turn(graph, model, Say(calls=calls), Say("Done."))
    assert [result["missing"] for _, result in tool_messages(state)] == [MISSING, MISSING]


async def test_the_suggestion_names_length_and_missing_lines_together(graph, model):
    long = f"{SHORT} {'We ride on and on and on. ' * 20}"
    state = await turn(graph, model, script(1, long), Say("Too long, without legal line and code RIDE20."))
    [(_, result)] = tool_messages(state)
    assert result["overBySeconds"] > 0
    assert "so that it fits" in result["suggestion"]
    assert "wants `missing` spoken" in result["suggestion"]


async def test_what_may_be_said_in_another_language_is_to_be_checked_and_never_claimed_missing(graph, model):
    given = {"brief": {"clientDescription": "A coffee bar, 20% off", "language": "thai"}}
    state = await turn(graph, model, script(1, "ลดยี่สิบเปอร์เซ็นต์", THAI[0]), Say("Done."), **given)
    [(_, result)] = tool_messages(state)
    assert result["check"] == ["price 20%"]
    assert "missing" not in result
    assert state["messages"][-1].text == "Done."


async def test_a_request_without_a_brief_is_compared_too(graph, model):
    asked = [HumanMessage("A 15 second spot for Elm Books, www.elm.example")]
    state = await turn(graph, model, script(1, "Elm Books."), Say("Done."), messages=asked)
    assert state["messages"][-1].text == "Done.\n\n(The script does not say: address www.elm.example.)"


async def test_a_failed_draft_says_nothing_of_what_is_missing(graph, model):
    state = await turn(graph, model, script(1, FULL), script(2, SHORT, "nobody"), Say("Done."))
    assert state["messages"][-1].text == "Done."


async def test_the_format_of_a_brief_reaches_the_model(graph, model):
    """A51."""
    await turn(graph, model, Say("What is your budget?"), Say("What is your budget?"))
    assert f"Format: {BRIEF['format']}" in model.requests[0].messages[1]["content"].splitlines()


@pytest.mark.parametrize("language", ["thai", "th-TH", "ภาษาไทย"])
async def test_the_model_says_the_language_that_a_message_asks_for(graph, model, opened, language):
    """A51, A-R15: it decides the speaking rate, whatever the voice, and is kept with the version."""
    wish = [HumanMessage("Create a 30s Spotify Premium ad in Thai")]
    text = "ฟังเพลงโปรดของคุณได้ทุกที่ทุกเวลา"
    look = Say(calls=[call("look", "get_current_state", adId="kopi")])
    answers = (script(1, text), script(2, text, language=language), look, script(3, text), Say("Done."))
    state = await turn(graph, model, *answers, messages=wish)
    results = dict(tool_messages(state))
    lengths = [results[name]["timeline"]["durationSeconds"] for name in ("v1", "v2", "v3")]
    assert lengths[0] != lengths[1] == lengths[2]
    assert results["look"]["ad"]["language"] == "thai"
    kept = [version.data.get("language") for version in (await stream(opened, "voices")).versions]
    assert kept == [None, "thai", "thai"]
    assert "Spot: 30 s, thai" in str(model.requests[-1].messages)


async def test_an_unknown_language_is_refused_with_the_known_ones(graph, model):
    """A10, A12."""
    state = await turn(graph, model, script(1, FULL, language="klingon"), Say("Sorry."), Say("Sorry."))
    [(_, result)] = tool_messages(state)
    assert "'klingon' is not known" in result["error"]
