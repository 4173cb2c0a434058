"""The offline model on ads, through the compiled graph: first drafts, each form, declined requests."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from callsheet.providers.offline.ads.edits import FORMS
from callsheet.providers.offline.ads.first_draft import BRIEFS
from callsheet.tools.ads import voices
from tests.doubles.ad_model import config, stream

BRIEF = (
    "Harbour Bikes rents e-bikes by the hour in Porto. For weekend visitors, 20 seconds. "
    "First hour free until 30 June. harbourbikes.example"
)
TEXT = [
    "Here comes Harbour Bikes. Harbour Bikes rents e-bikes by the hour in Porto.",
    "First hour free until 30 June. harbourbikes.example. Harbour Bikes. Come and see.",
]
MUSIC = "bright acoustic folk guitar, friendly, 96 BPM, instrumental, room for a voice-over"
SOUNDS = [("bicycle bell ringing twice", "start"), ("bicycle freewheel rolling past", "end")]
CAST = [voice.id for voice in voices.search("english", count=8)]
GENDERS = [str(voice.gender) for voice in voices.search("english", count=8)]
BRITISH = voices.search("english", accent="British", gender=GENDERS[1])[0].id
CHANGES: dict[str, dict[str, Any]] = {
    "music.wish": {"music": f"{MUSIC}, more upbeat"},
    "effect.add": {"sounds": [*SOUNDS, ("whoosh", "start")]},
    "effect.remove": {"sounds": []},
    "voice.change": {"cast": [CAST[0], BRITISH]},
    "voice.pace": {"pace": [0.91, 1.0]},
    "script.shorter": {"text": [TEXT[0], TEXT[1].removesuffix(" Come and see.")]},
    "script.replace": {"text": [TEXT[0], TEXT[1].replace("June", "July")]},
    "variations": {"cast": CAST[6:8]},
    "urgent": {
        "pace": [1.1, 1.1],
        "music": f"{MUSIC}, more urgent",
        "sounds": [*SOUNDS, ("countdown 5,4,3,2,1", "start")],
    },
    "undo": {"music": MUSIC},
    "reply": {},
}
STREAM = {"text": "voices", "cast": "voices", "pace": "voices", "music": "music", "sounds": "sfx"}


@pytest.fixture
def say(graph):
    """Return a function that plays a turn and returns its reply and its drafts."""

    async def say(text):
        turn_input = {"messages": [HumanMessage(text)]}
        state = await graph.ainvoke(turn_input, config(), context={"provider": "offline"})
        return state["messages"][-1].text, state["drafts"]

    return say


async def versions_by_stream(opened):
    streams = {name: await stream(opened, name) for name in ("voices", "music", "sfx")}
    return {name: [version.data for version in one.versions] for name, one in streams.items()}


async def current_ad(opened):
    newest = {name: datas[-1] for name, datas in (await versions_by_stream(opened)).items()}
    tracks, effects = newest["voices"]["voiceTracks"], newest["sfx"]["soundFxPrompts"]
    return {
        "text": [track["text"] for track in tracks],
        "cast": [track["voiceId"] for track in tracks],
        "pace": [track["speed"] for track in tracks],
        "music": newest["music"]["musicPrompt"],
        "sounds": [(effect["description"], effect["placement"]["type"]) for effect in effects],
    }


async def test_a_brief_becomes_two_voices_music_and_effects(say, opened, graph):
    """A50, A59, A63, A78: the plan precedes the cast; directions are not spoken; it suggests an edit."""
    reply, drafts = await say(BRIEF)
    assert drafts == {"voices": "v1", "music": "v1", "sfx": "v1"}
    expected = {"text": TEXT, "cast": CAST[:2], "pace": [1, 1], "music": MUSIC, "sounds": SOUNDS}
    assert await current_ad(opened) == expected
    assert "“For weekend visitors, 20 seconds.”" in reply
    messages = (await graph.aget_state(config())).values["messages"]
    assert messages[1].text.startswith("My plan: 20 seconds for Harbour Bikes")
    assert [len(message.tool_calls) for message in messages[1:4:2]] == [1, 3]
    assert reply.endswith("Should I make the music calmer?")
    assert (await say("yes"))[1] == {"music": "v2"}
    assert await current_ad(opened) == expected | {"music": f"{MUSIC}, calmer"}


@pytest.mark.parametrize(
    ("brief", "text", "absent"),
    [
        ("30 seconds for Miel, a bakery in Lyon", "Miel, a bakery in Lyon.", "30 seconds"),
        ("A 15-second radio ad for Crumb & Co. Free coffee.", "Crumb & Co", "radio"),
        ("Ledgerly: We sell. Dry humour. Two months free. 30 seconds", "Two months free.", "sell humour"),
        ("Hale and Sons, undertakers. No sales talk. Call 0113 496 0158.", "0113 496 0158", "No talk"),
        ("Vale Ale is sold in every pub in all of Leeds. Drink responsibly. 4 s", "responsibly", "pub"),
        ("Kawiarnia Pod Lipą, kawa w Krakowie. Kawa za 9 zł do maja.", "Kawa za 9 zł do maja.", "sekund"),
        ("An ad for Doi Chang Coffee in Thai. Young audience.", "Doi Chang Coffee", "ad audience"),
    ],
)
async def test_obligatory_sentences_are_in_the_script_and_directions_are_not(
    say, opened, brief, text, absent
):
    """A74: in the brief's language, with voices that speak it."""
    await say(brief)
    current = await current_ad(opened)
    assert text in " ".join(current["text"])
    assert not set(absent.split()) & set(" ".join(current["text"]).replace(".", " ").split())
    language = {"Kawiarnia": "polish", "An": "thai"}.get(brief.split()[0], "english")
    cast = [voices.find(voice) for voice in current["cast"]]
    assert {voice.language for voice in cast if voice} == {language}


@pytest.mark.parametrize(
    ("brief", "offer"),
    [
        ("Miel, a bakery in Lyon. Croissants for one euro all week.", "Croissants for one euro all week."),
        ("Rosa's Salon is in Leeds. Mention the code ROSA10 for 10% off.", "The code ROSA10 for 10% off."),
        ("Greenfield Vets is in Bristol. New customers get a free check-up.", "get a free check-up."),
        ("Tide Surf School is in Newquay. Two lessons for the price of one.", "for the price of one."),
        (
            "Oak Gym is in Derby. Join now and pay nothing until May. Energetic music.",
            "pay nothing until May.",
        ),
        ("Lumen Dental is in Cork. Everyone who wants a smile saves 50 euros.", "saves 50 euros."),
        ("Bean There is in Hull. From Monday, a second coffee costs 99p.", "a second coffee costs 99p."),
        ("Solo Optics is in Lille. Include our offer: second pair free.", "Second pair free."),
        ("Green Leaf is in Porto. Delivery is free. Not available on Sundays.", "Not available on Sundays."),
        ("Nova Kids sells toys. Toys from 5 euros. Add a laugh.", "Nova Kids sells toys."),
        ("Brew Lab in Porto roasts coffee. Students pay 20 percent less.", "Students pay 20 percent less."),
    ],
)
async def test_the_offer_of_a_brief_is_in_the_script(say, opened, brief, offer):
    await say(brief)
    assert offer in " ".join((await current_ad(opened))["text"])


@pytest.mark.parametrize(
    ("request_of_brief", "absent", "words"),
    [
        ("No music please.", {"music"}, "without music."),
        ("We don't want any music, just voices.", {"music", "sfx"}, "without music and sound effects."),
        ("Energetic, but no sound effects.", {"sfx"}, "without sound effects."),
        ("Music: none.", {"music"}, "without music."),
        ("Female voice please.", set(), "not done unless"),
        ("No sales talk, gentle music.", set(), "done in the music alone"),
        ("Make it warm and a bit funny.", set(), "done in the music alone"),
        ("Make it warm.", set(), "not done unless"),
    ],
)
async def test_a_brief_can_refuse_music_and_effects_and_other_directions_are_reported(
    say, request_of_brief, absent, words
):
    reply, drafts = await say(f"Miel, a bakery in Lyon. {request_of_brief}")
    assert set(drafts) == {"voices", "music", "sfx"} - absent
    assert words in reply
    assert f"“{request_of_brief}”" in reply
    assert reply.endswith("Should I make the music calmer?") == ("music" not in absent)


@pytest.mark.parametrize(
    ("brief", "absent"),
    [
        ("Tide Surf School gives lessons in Newquay. Nothing aggressive.", "electronic rock"),
        ("Puddle Nursery looks after children in Hull. Nothing childish, please.", "glockenspiel"),
    ],
)
async def test_a_mood_that_a_brief_excludes_does_not_choose_the_music(say, opened, brief, absent):
    await say(brief)
    assert absent not in (await current_ad(opened))["music"]


@pytest.mark.parametrize(
    "text",
    [
        "Harbour Bikes is not what I want, delete it.",
        "Harbour Bikes needs a cheaper plan, what do you suggest?",
        "Don't make an ad for Miel.",
        "Stop the ad for Miel",
    ],
)
async def test_a_question_or_complaint_is_no_brief(say, text):
    reply, drafts = await say(text)
    assert drafts == {}
    assert "made nothing" in reply or "changed nothing" in reply


async def test_a_question_about_the_offer_is_not_in_the_script(say, opened):
    reply, _ = await say("Zen Spa offers massages in Ghent. Is a discount possible?")
    assert "discount" not in " ".join((await current_ad(opened))["text"])
    assert "“Is a discount possible?”" in reply


@pytest.mark.parametrize("form", BRIEFS, ids=lambda form: form.name)
async def test_the_example_of_each_brief_becomes_a_first_draft(say, form):
    _, drafts = await say(form.example)
    assert drafts == {"voices": "v1", "music": "v1", "sfx": "v1"}


@pytest.mark.parametrize("text", ["a bakery in Lyon", "hello", "Make the music calmer"])
async def test_a_request_without_a_client_makes_no_draft(say, text):
    reply, drafts = await say(text)
    assert drafts == {}
    assert "made nothing" in reply or "There is no ad yet" in reply


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
async def test_the_example_of_each_form_changes_only_the_parts_that_it_names(say, opened, form):
    """A56–A60, A64, A77, A79."""
    await say(BRIEF)
    if form.name in {"reply", "undo"}:
        await say("make the music louder")
    old_ad, old_versions = await current_ad(opened), await versions_by_stream(opened)
    reply, drafts = await say(form.example)
    assert set(drafts) == {STREAM[key] for key in CHANGES[form.name]}
    assert await current_ad(opened) == old_ad | CHANGES[form.name]
    new_versions = await versions_by_stream(opened)
    count = 3 if form.name == "variations" else 1
    assert {name: new_versions[name][: len(old_versions[name])] for name in new_versions} == old_versions
    assert all(
        len(new_versions[name]) == len(old_versions[name]) + count * (name in drafts) for name in new_versions
    )
    assert form.name == "undo" or all(version in reply for version in drafts.values())


@pytest.mark.parametrize("gender", ["male", "female"])
async def test_another_voice_has_the_gender_of_the_one_before_and_the_reply_names_both(say, opened, gender):
    """A60: a person who wants another gender names it."""
    await say(BRIEF)
    await say(f"use a {gender} voice for the second track")
    reply, _ = await say("use a British voice for the second track")
    assert reply.startswith("Ready to review: voices v")
    speaker = voices.find((await current_ad(opened))["cast"][1])
    assert speaker is not None
    assert (speaker.gender, speaker.accent) == (gender, "British")
    assert f"\nVoice 2 is {speaker.words()} in place of " in reply
    other = {"male": "female", "female": "male"}[gender]
    assert f", {other}" in (await say(f"use a {other} voice for the second track"))[0]
    none, drafts = await say("use a Brazilian voice for the first track")
    absent = f"The catalogue has no other {GENDERS[0]} Brazilian voice for English."
    assert (none, drafts) == (f"{absent} I changed nothing.", {})


@pytest.mark.parametrize(
    "text",
    [
        *("make the music calmer but not slower", "make the music louder and email it to Dan"),
        *("don't add a whoosh", "add a testimonial from a customer named Rob", "haz la música más alegre"),
        *("add a whoosh after the ninth voice", "change the fifth voice to a man", "make it nicer", "no"),
        *('replace "Lisbon" with "Braga"', "remove the gong", "undo"),
        *("create 9 variations", "give me the script as a Word file"),
    ],
)
async def test_an_unclear_or_impossible_request_changes_nothing(say, opened, text):
    await say(BRIEF)
    before = await versions_by_stream(opened)
    reply, drafts = await say(text)
    assert (drafts, await versions_by_stream(opened)) == ({}, before)
    assert "chang" in reply


async def test_a_yes_is_answered_by_what_it_means_and_no_refusal_offers_it(say):
    """A78: only the question of the answer before it is open."""
    await say(BRIEF)
    refused, _ = await say("give me the script as a Word file")
    assert "“make the music more upbeat”" in refused
    assert "“yes”" not in refused
    reply, drafts = await say("yes")
    assert reply.startswith(
        "No question is open, so I changed nothing; you can say “make the music more upbeat”."
    )
    assert (drafts, (await say("no"))[0]) == ({}, reply)


async def test_a_no_to_a_suggestion_changes_nothing(say):
    await say(BRIEF)
    assert await say("no") == ("Then I change nothing.", {})


async def test_an_edit_after_a_summary_starts_from_the_current_ad(say, opened, graph):
    """A69, A-R12."""
    await say(BRIEF)
    for wish in ("louder", "quieter") * 5:
        await say(f"make the music {wish}")
    assert (await graph.aget_state(config())).values["summary"]
    before = await current_ad(opened)
    assert (await say("make the second voice slower"))[1] == {"voices": "v2"}
    assert await current_ad(opened) == before | {"pace": [1.0, 0.91]}


async def test_an_ad_over_its_length_is_shortened_when_the_person_agrees(say):
    await say(BRIEF)
    reply, _ = await say("add the sound of a horn at the start, add a gong, add a bell and add a pop")
    assert "the spot has 20 s" in reply
    assert reply.endswith("Should I make the script shorter?")
    reply, drafts = await say("yes")
    assert drafts == {"voices": "v2"}
    assert "the spot has" not in reply


async def test_one_voice_can_be_made_shorter(say, opened):
    await say(BRIEF)
    before = (await current_ad(opened))["text"]
    reply, drafts = await say("make the second voice shorter")
    assert drafts == {"voices": "v2"}, reply
    after = (await current_ad(opened))["text"]
    assert after[0] == before[0]
    assert 0 < len(after[1]) < len(before[1])
    assert "did not understand" in (await say("make the second voice longer"))[0]


async def test_a_wish_about_the_kind_of_voice_drops_neither_music_nor_effects(say):
    """A5: "voice only" alone means no music."""
    reply, drafts = await say("Miel is a bakery in Lyon. A calm female voice only.")
    assert drafts.keys() == {"voices", "music", "sfx"}
    assert "“A calm female voice only.”" in reply


async def test_a_brief_of_which_no_language_is_recognized_is_read_as_english(api):
    """A1: it had searched for voices of "the brief's language" and then missed the client's name."""
    brief = "20 second commercial for Café Lindo. We open at 6 am. Do not mention coffee."
    reply = await api.post("/api/ai/generate", json={"adId": "cafe", "brief": brief, "provider": "offline"})
    assert reply.json()["drafts"].keys() == {"voices", "music", "sfx"}, reply.text
