"""The first turn: plan and voices, three drafts in one message, then what was made (A54, A59, A63, A78)."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from providers.offline.model import OfflineModel
from tests.first_turn import TOOLS, draft, system, template

FAILED = {"error": "no such voice", "suggestion": "Retry", "type": "validation_error", "retryable": False}
BUSY = {"error": "try later", "suggestion": "Retry", "type": "timeout_error", "retryable": True}


def test_the_plan_comes_first_and_names_no_voice():
    """A63: concept, tone, structure and roles before any casting."""
    turn = draft("Fern & Fox, a plant shop", context="warm")
    plan = turn.answers[0].text
    assert [call["name"] for call in turn.answers[0].tool_calls] == ["search_voices"]
    for part in ("Fern & Fox", "Concept", "Tone: warm", "30 seconds", "Roles"):
        assert part in plan
    assert "Achernar" not in plan


def test_the_three_drafts_are_made_in_one_message():
    """A59"""
    turn = draft("Fern & Fox, a plant shop")
    assert [call["name"] for call in turn.answers[1].tool_calls] == [
        "create_voice_draft",
        "create_music_draft",
        "create_sfx_draft",
    ]
    assert len(turn.answers) == 3


def test_nothing_is_said_in_place_of_a_name_in_a_language_without_phrases():
    turn = draft("إعلان لمدة 20 ثانية لمخبز في القاهرة", language="arabic")
    texts = [track["text"] for track in turn.made["create_voice_draft"]["tracks"]]
    assert texts == ["إعلان لمدة 20 ثانية لمخبز في القاهرة."]


def test_the_last_word_names_the_versions_the_length_and_one_idea():
    """A78"""
    turn = draft("Fern & Fox, a plant shop")
    for part in ("voices v1 (3 tracks)", "music v1", "sound effects v1", "of 30 seconds", "One idea:"):
        assert part in turn.last
    assert turn.last.count("One idea:") == 1


def test_the_whole_ad_fits_with_its_effects():
    for seconds in (7, 15, 20, 30, 45, 60, 90):
        turn = draft("Fern & Fox, a plant shop in Bath", context="Open daily. fernfox.co.uk", seconds=seconds)
        length = float(turn.last.split("It runs ")[1].split(" ")[0])
        assert 0.6 * seconds <= length <= seconds, (seconds, turn.last)


def test_voices_are_searched_with_the_wishes_that_a_catalogue_publishes():
    """A2–A5; an age is not published, and that is said."""
    turn = draft("Fern & Fox", context="Older calm female voice, British accent")
    search = turn.called("search_voices")[0]
    assert (search["gender"], search["accent"]) == ("female", "British")
    assert "age" in turn.last
    cast = {track["voiceId"] for track in turn.made["create_voice_draft"]["tracks"]}
    assert len(cast) == 1
    assert "en-GB" in next(iter(cast))


def test_a_man_and_a_woman_take_turns_in_a_dialogue():
    turn = draft("Fern & Fox", context="dialogue between a man and a woman, two voices")
    genders = [search.get("gender") for search in turn.called("search_voices")]
    assert sorted(map(str, genders)) == ["female", "male"]
    tracks = turn.made["create_voice_draft"]["tracks"]
    assert len({track["voiceId"] for track in tracks}) == 2
    assert len(tracks) >= 4
    assert tracks[0]["voiceId"] != tracks[1]["voiceId"]
    assert "?" in tracks[0]["text"] or "tell me" in tracks[0]["text"]


def test_a_search_that_finds_nobody_is_made_broader_and_the_person_told():
    """A9"""
    turn = draft("Fern & Fox", language="polish", context="warm female voice")
    searches = turn.called("search_voices")
    assert "style" in searches[0]
    assert searches[-1].keys() == {"language", "gender", "count"}
    assert "searched more widely" in turn.last


def test_without_any_voice_nothing_is_pretended_and_the_script_is_shown():
    turn = draft("Fern & Fox, a plant shop", catalogue=[], context="female voice")
    assert turn.made == {}
    assert [sorted(search) for search in turn.called("search_voices")] == [
        ["count", "gender", "language"],
        ["count", "language"],
    ]
    assert "no voice" in turn.last
    assert "Fern & Fox" in turn.last


def test_a_draft_that_fails_is_corrected_and_made_again():
    """A70"""
    turn = draft("Fern & Fox", failing={"create_voice_draft": [FAILED], "create_music_draft": [FAILED]})
    first, second = turn.called("create_voice_draft")
    assert [track["text"] for track in first["tracks"]] == [track["text"] for track in second["tracks"]]
    assert [track["voiceId"] for track in first["tracks"]] != [track["voiceId"] for track in second["tracks"]]
    assert "duration" not in turn.called("create_music_draft")[1]
    assert len(turn.called("create_sfx_draft")) == 1
    assert "voices v1" in turn.last


def test_a_busy_tool_is_asked_the_same_again():
    turn = draft("Fern & Fox", failing={"create_music_draft": [BUSY]})
    first, second = turn.called("create_music_draft")
    assert first == second


def test_after_three_failures_it_says_what_could_not_be_made():
    turn = draft("Fern & Fox", failing={"create_sfx_draft": [FAILED] * 3})
    assert len(turn.called("create_sfx_draft")) == 3
    assert "no such voice" in turn.last
    assert "sound effects v1" not in turn.last
    assert "music v1" in turn.last


def test_music_is_a_bed_without_music_and_absent_where_none_at_all_is_wanted():
    bed = draft("Fern & Fox", context="no music")
    assert "barely audible" in bed.made["create_music_draft"]["prompt"]
    assert "inactive" in bed.last
    none = draft("Fern & Fox", context="No music at all, no sound effects.")
    assert none.called("create_music_draft") == []
    assert none.called("create_sfx_draft") == []
    assert "no music" in none.last
    assert "no sound effects" in none.last


def test_a_second_brief_in_the_conversation_gets_another_take():
    messages: list[Any] = [system(), HumanMessage(template("Fern & Fox, a plant shop"))]
    texts = []
    for _ in range(2):
        turn = _finish(messages)
        texts.append(turn)
        messages.append(HumanMessage(template("Fern & Fox, a plant shop")))
    assert texts[0] != texts[1]


def _finish(messages: list[Any]) -> list[str]:
    """Answer every call plainly until the last word; return the texts of the voice draft."""
    model = OfflineModel().bind_tools(TOOLS)
    texts: list[str] = []
    while True:
        told = model.invoke(messages)
        messages.append(told)
        if not told.tool_calls:
            return texts
        for call in told.tool_calls:
            messages.append(_plain(call))
            if call["name"] == "create_voice_draft":
                texts = [track["text"] for track in call["args"]["tracks"]]


def _plain(call: Any) -> ToolMessage:
    found = {"voices": [{"id": "a/b", "name": "B", "language": "english"}], "count": 1}
    result = found if call["name"] == "search_voices" else {"versionId": "v1", "status": "draft"}
    return ToolMessage(json.dumps(result), tool_call_id=call["id"])


def test_a_first_message_in_free_words_is_a_brief_too():
    model = OfflineModel().bind_tools(TOOLS)
    told = model.invoke([system(), HumanMessage("Make a 15s radio ad for Fern & Fox, a flower shop in Bath")])
    assert isinstance(told, AIMessage)
    assert told.tool_calls[0]["name"] == "search_voices"
    assert "Fern & Fox" in told.text


@pytest.mark.parametrize(
    ("context", "word"),
    [("jazz music please", "jazz"), ("upbeat electronic music", "electronic"), ("None", "instrumental")],
)
def test_the_music_prompt_is_what_was_wished(context: str, word: str):
    prompt = draft("Fern & Fox", context=context).made["create_music_draft"]["prompt"]
    assert word in prompt
    assert "no vocals" in prompt


def test_wished_effects_come_where_they_were_wished():
    turn = draft(
        "Fern & Fox", context="Sound effects: birds singing at the start and a gate closing at the end."
    )
    placed = {
        one["description"]: one["placement"]["type"] for one in turn.made["create_sfx_draft"]["prompts"]
    }
    assert placed == {"birds singing": "start", "a gate closing": "end"}


def test_effects_suit_the_client():
    turn = draft("Lumen, a coffee shop")
    described = " ".join(one["description"] for one in turn.made["create_sfx_draft"]["prompts"])
    assert "espresso" in described
    assert all(0 < one["duration"] <= 2 for one in turn.made["create_sfx_draft"]["prompts"])


def test_a_script_given_word_for_word_is_read_word_for_word():
    given = "Rain again. Your roof knows it first. Fern and Fox. Ask us."
    turn = draft("Fern & Fox, a roofer", context=f'Use exactly this script: "{given}" Male voice.')
    assert turn.texts == [given]


def test_a_script_of_several_lines_has_a_track_for_each_without_the_speakers_names():
    turn = draft("Fern & Fox", context="Script:\nAnna: Is that a new fern?\nTom: It is. From Fern & Fox.")
    assert turn.texts == ["Is that a new fern?", "It is. From Fern & Fox."]
    assert len({track["voiceId"] for track in turn.made["create_voice_draft"]["tracks"]}) == 2


def test_several_takes_are_announced_made_and_offered_for_review():
    """A77"""
    turn = draft("Fern & Fox, a plant shop", context="Give me 3 variations with different voice tones.")
    takes = turn.called("create_voice_draft")
    assert len(takes) == 3
    assert len({"\n".join(track["text"] for track in take["tracks"]) for take in takes}) == 3
    assert len({take["tracks"][0]["voiceId"] for take in takes}) == 3
    assert turn.answers[0].text.count(" / ") == 2
    assert "variations" not in turn.script
    assert "Takes to compare: " in turn.last


def test_one_failed_take_among_several_is_made_again():
    turn = draft("Fern & Fox", context="Give me two versions.", failing={"create_voice_draft": [FAILED]})
    takes = turn.called("create_voice_draft")
    assert len(takes) == 3
    assert len({"\n".join(track["text"] for track in take["tracks"]) for take in takes}) == 2


def test_too_few_voices_are_searched_for_more_widely():
    """A9: a style only one voice has is given up rather than a role."""
    turn = draft("Fern & Fox", language="thai", context="Two speakers: a nervous one and a calm friend.")
    cast = {track["voiceId"] for track in turn.made["create_voice_draft"]["tracks"]}
    assert len(cast) == 2
    assert all("th-TH" in voice for voice in cast)


def test_a_music_provider_asked_for_by_name_is_used():
    music = draft("Fern & Fox", context="Music from Mubert, ambient.").made["create_music_draft"]
    assert music["provider"] == "mubert"
    assert "ambient" in music["prompt"]
    assert "mubert" not in music["prompt"].lower()


def test_a_sound_the_ad_opens_with_is_an_effect_and_no_word():
    turn = draft("Fern & Fox", context="Open with seagulls. Male narrator, gravelly. No guilt tripping.")
    effects = turn.made["create_sfx_draft"]["prompts"]
    assert [(one["description"], one["placement"]["type"]) for one in effects] == [("seagulls", "start")]
    for word in ("seagulls", "gravelly", "guilt"):
        assert word not in turn.script.lower()
