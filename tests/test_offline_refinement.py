"""Chat turns about music, effects, voices and words: what is asked changes, all else stays."""

from copy import deepcopy

import pytest

from tests.offline_chat import Chat, bakery
from tools import voices


def others_kept(chat: Chat, before: dict[str, list[object]], *changed: str) -> None:
    for stream, known in before.items():
        now = chat.versions[stream]
        assert now[: len(known)] == known, f"{stream}: an old version was changed"
        if stream not in changed:
            assert len(now) == len(known), f"{stream} was written, and nobody asked for that"


def told(chat: Chat, text: str, *changed: str) -> str:
    before = deepcopy(chat.versions)
    reply = chat.say(text)
    others_kept(chat, before, *changed)  # type: ignore[arg-type]
    assert set(chat.made) == set(changed), (text, chat.made, reply)
    for stream in changed:
        assert f"v{len(chat.versions[stream])}" in reply, "the reply names the version that was made"
    return reply


@pytest.mark.parametrize(
    ("text", "has", "lacks"),
    [
        ("Please make the music more upbeat", ["upbeat"], ["calm", "relaxed"]),
        ("could the background track be livelier?", ["lively"], ["calm"]),
        ("the tune is too slow", ["faster"], []),
        ("a jazz feel for the soundtrack", ["jazz"], ["folk"]),
        ("music: less calm", [], ["calm"]),
        ("use electro swing instead of folk for the music", ["swing"], ["folk"]),
        ("I'd like the song to sound like a rainy afternoon in Lisbon", ["rainy afternoon in Lisbon"], []),
        ("music at 140 bpm", ["140 BPM"], ["90 BPM"]),
        ("no ukulele in the music please", ["no ukulele"], ["soft ukulele"]),
        ("make the musci more dramtic", ["dramatic"], []),
        ("add some cello to the music", ["cello", "folk"], []),
        ("the music shouldn't be so relaxed", [], ["relaxed"]),
    ],
)
def test_what_is_said_about_the_music_reaches_its_description_and_nothing_else_changes(text, has, lacks):
    """A58."""
    chat = bakery()
    told(chat, text, "music")
    for words in has:
        assert words in chat.music
    for words in lacks:
        assert words not in chat.music.replace(f"no {words}", "")
    assert "instrumental, no vocals" in chat.music, "what was not spoken of stays in the description"


def test_a_quality_asked_for_again_grows_stronger():
    chat = bakery()
    chat.say("make the music more upbeat")
    chat.say("make the music even more upbeat")
    assert "very upbeat" in chat.music


def test_music_can_be_replaced_wholly_and_come_from_another_provider():
    chat = bakery()
    told(chat, "replace the music with slow blues with harmonica", "music")
    assert chat.music == "slow blues with harmonica, instrumental, no vocals"
    told(chat, "take mubert for the music", "music")
    assert chat.versions["music"][-1]["musicProvider"] == "mubert"
    assert chat.music.startswith("slow blues")


def test_no_music_is_near_silence_and_the_reply_says_that_music_cannot_be_deleted():
    chat = bakery()
    reply = told(chat, "remove the music", "music")
    assert "silence" in chat.music
    assert "cannot delete" in reply


def test_disliked_music_is_described_differently_each_time():
    chat = bakery()
    seen = [chat.music]
    for text in ("I don't like the music", "still not my thing, I hate the music", "different music please"):
        told(chat, text, "music")
        assert chat.music not in seen
        seen.append(chat.music)


@pytest.mark.parametrize(
    ("text", "description", "placement"),
    [
        ("add a whoosh at the start", "whoosh", {"type": "start"}),
        ("put the sound of a pepper grinder at the very end", "pepper grinder", {"type": "end"}),
        ("a drum roll before the last voice please", "drum roll", {"type": "afterVoice", "index": 1}),
        ("throw in some rain under the first voice", "rain", {"type": "withFirstVoice"}),
        ("add a cash register after voice 2", "cash register", {"type": "afterVoice", "index": 1}),
        (
            "insert a goat bleating between voices 1 and 2",
            "goat bleating",
            {"type": "afterVoice", "index": 0},
        ),
        ("add a ding before the voices", "ding", {"type": "beforeVoices"}),
        ("add applause after the woman", "applause", {"type": "afterVoice", "index": 1}),
    ],
)
def test_an_added_effect_is_placed_where_it_was_asked_and_the_others_stay(text, description, placement):
    """A60, A-R5."""
    chat = bakery()
    old = deepcopy(chat.effects)
    told(chat, text, "sfx")
    assert chat.effects[:2] == old
    assert chat.effects[2]["description"] == description
    assert chat.effects[2]["placement"] == placement


def test_two_effects_of_one_sentence_get_their_own_places_and_lengths():
    chat = bakery()
    told(chat, "add a 3 second crowd cheer at the end and a click at the start", "sfx")
    assert [(one["description"], one["placement"]["type"]) for one in chat.effects[2:]] == [
        ("crowd cheer", "end"),
        ("click", "start"),
    ]
    assert chat.effects[2]["duration"] == 3


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("get rid of the sizzle", ["shop door bell"]),
        ("I hate the bell", ["oven sizzle"]),
        ("remove effect 2", ["shop door bell"]),
        ("drop the first sound effect", ["oven sizzle"]),
        ("delete the effect at the start", ["oven sizzle"]),
        ("no sound effects", []),
        ("swap the door bell for a bicycle bell", ["bicycle bell", "oven sizzle"]),
        ("use a gong instead of the sizzle", ["shop door bell", "gong"]),
    ],
)
def test_effects_are_removed_and_exchanged_by_name_number_or_place(text, left):
    chat = bakery()
    told(chat, text, "sfx")
    assert [one["description"] for one in chat.effects] == left


def test_an_effect_is_moved_and_made_longer_and_it_means_the_last_one():
    chat = bakery()
    told(chat, "move the sizzle to the end", "sfx")
    assert chat.effects[1] == chat.effects[1] | {"description": "oven sizzle", "placement": {"type": "end"}}
    told(chat, "make it longer", "sfx")
    assert chat.effects[1]["duration"] == 3.2
    told(chat, "make the bell half a second", "sfx")
    assert chat.effects[0]["duration"] == 0.5


def gender(voice: str) -> str | None:
    found = voices.find(voice)
    return str(found.public().get("gender")) if found else None


def test_another_voice_is_cast_for_one_track_and_the_texts_stay():
    """A64."""
    chat = bakery()
    texts, cast = chat.texts, chat.cast
    told(chat, "Change the second voice to be more energetic", "voices")
    assert chat.texts == texts
    assert [new == old for new, old in zip(chat.cast, cast, strict=True)] == [True, False, True]


@pytest.mark.parametrize(
    ("text", "genders"),
    [
        ("use a woman for the first voice", ["female", "female", "male"]),
        ("I want all female voices", ["female", "female", "female"]),
        ("a man instead of the woman", ["male", "male", "male"]),
        ("change the male voice to a female one", ["female", "female", "female"]),
        ("make the last line female and the first one too", ["female", "female", "female"]),
    ],
)
def test_voices_are_cast_by_gender(text, genders):
    chat = bakery()
    told(chat, text, "voices")
    assert [gender(voice) for voice in chat.cast] == genders


def test_a_british_woman_is_british():
    chat = bakery()
    told(chat, "let a British lady read track 2", "voices")
    voice = voices.find(chat.cast[1])
    assert voice is not None
    assert str(voice.public()["accent"]).startswith("Brit")
    assert gender(chat.cast[1]) == "female"


def test_a_voice_is_cast_by_name_and_an_unknown_name_is_said_to_be_unknown():
    chat = bakery()
    name = next(one for one in voices.search("english", count=50) if one.id not in chat.cast).name.split()[0]
    told(chat, f"use {name} for voice 3", "voices")
    cast = voices.find(chat.cast[2])
    assert cast is not None
    assert cast.name.startswith(name)
    reply = told(chat, "use Zebulon for voice 1")
    assert "Zebulon" in reply


def test_the_two_speakers_swap_and_one_voice_reads_everything():
    chat = bakery()
    man, woman, _ = chat.cast
    told(chat, "swap voices 1 and 2", "voices")
    assert chat.cast[:2] == [woman, man]
    told(chat, "same voice for all tracks", "voices")
    assert len(set(chat.cast)) == 1


@pytest.mark.parametrize(
    ("text", "speeds"),
    [
        ("slow down the second voice a bit", [1.0, 0.93, 1.0]),
        ("make voice 1 20% faster", [1.2, 1.0, 1.0]),
        ("the last voice is too slow", [1.0, 1.0, 1.14]),
        ("set the speed of voice 3 to 0.9", [1.0, 1.0, 0.9]),
        ("speed up all voices", [1.14, 1.14, 1.14]),
    ],
)
def test_pace_changes_for_the_voices_that_are_named(text, speeds):
    """A78."""
    chat = bakery()
    texts = chat.texts
    told(chat, text, "voices")
    assert [track["speed"] for track in chat.tracks] == speeds
    assert chat.texts == texts


def test_a_voice_is_slowed_only_as_far_as_the_spot_allows():
    chat = bakery(spot_s=17.0)
    texts = chat.texts
    reply = told(chat, "make all voices much slower", "voices")
    assert "as slow as the spot allows" in reply
    assert chat.texts == texts, "no word is cut for a slower pace"
    assert all(0.8 < track["speed"] < 1.0 for track in chat.tracks)


def test_pauses_and_overlaps_are_set_between_tracks():
    """A-R6."""
    chat = bakery()
    told(chat, "add a one second pause before the last line", "voices")
    assert [track["overlap"] for track in chat.tracks] == [0.0, 0.0, -1.0]
    told(chat, "let the voices overlap by half a second", "voices")
    assert [track["overlap"] for track in chat.tracks] == [0.0, 0.5, 0.5]


def test_tracks_change_their_order_and_effects_follow_their_track():
    chat = bakery()
    first, second, third = chat.texts
    told(chat, "move the second track to the start", "voices", "sfx")
    assert chat.texts == [second, first, third]
    assert [track["playAfter"] for track in chat.tracks] == ["start", "track-0", "track-1"]
    assert chat.effects[1]["placement"] == {"type": "afterVoice", "index": 0}


def test_a_removed_track_leaves_no_effect_pointing_at_nothing():
    chat = bakery()
    told(chat, "remove track 2", "voices", "sfx")
    assert len(chat.tracks) == 2
    assert chat.effects[1]["placement"] == {"type": "end"}


@pytest.mark.parametrize(
    ("text", "has", "lacks"),
    [
        ("say 'aged' instead of 'stale'", "aged bread", "stale"),
        ("replace 'sourdough' with 'rye'", "new rye costs", "sourdough"),
        ("change the phone number to 555-777-8888", "Call 555-777-8888 or", "123"),
        ("change the price to $5", "costs $5.", "$4"),
        ("call it Juniper Bakehouse not Juniper Bakery", "Meet Juniper Bakehouse.", "Bakery"),
        ("mention free parking", "Free parking.", None),
        ("tell people that we have a garden", "We have a garden.", None),
        ("end with 'See you on Mill Street'", "today! See you on Mill Street.", None),
        ("add our website juniper.example.com at the end", "Visit juniper.example.com.", None),
        ("drop the part about the price", "It is baked every morning at 7.", "$4"),
        ("don't mention the morning", "costs $4.", "morning"),
        ("rewrite the first line to: Bread, but better.", "Bread, but better.", "stale"),
        ('the second voice should say "Sourdough for four dollars"', "Sourdough for four dollars", "baked"),
        ("remove the word new", "Our sourdough costs", "new"),
    ],
)
def test_words_are_changed_as_dictated_and_the_cast_stays(text, has, lacks):
    chat = bakery()
    cast = chat.cast
    told(chat, text, "voices")
    script = " ".join(chat.texts)
    assert has in script
    assert lacks is None or lacks not in script
    assert chat.cast == cast


def test_a_sentence_more_in_a_full_spot_makes_room_and_says_what_went():
    chat = bakery(spot_s=16.5)
    reply = told(chat, "mention that kids eat free on Sundays", "voices")
    script = " ".join(chat.texts)
    assert "Kids eat free on Sundays." in script
    assert "left out" in reply or all(track["speed"] > 1 for track in chat.tracks)
    assert chat._time()["fits"]


def test_the_script_gets_shorter_and_fits_the_seconds_it_is_given():
    chat = bakery()
    length = len(" ".join(chat.texts))
    told(chat, "the script is too long", "voices")
    assert len(" ".join(chat.texts)) < length
    told(chat, "make it fit 10 seconds", "voices")
    assert chat._time()["durationSeconds"] <= 10.05
    assert len(chat.tracks) == 3


def test_a_track_more_gets_its_words_and_a_voice_of_its_own():
    chat = bakery()
    told(chat, 'add a third voice at the end that says "Juniper. Bread as it should be."', "voices")
    assert chat.texts[3] == "Juniper. Bread as it should be."
    assert chat.cast[3] not in chat.cast[:3]


def test_another_tone_of_the_script_keeps_what_the_person_had_put_in():
    chat = bakery()
    chat.say("mention free parking")
    before = chat.texts
    told(chat, "make the script funnier", "voices")
    assert chat.texts != before
    assert "Free parking." in " ".join(chat.texts)


def test_urgency_moves_voices_music_and_effects_together():
    """A79."""
    chat = bakery()
    told(chat, "Make the ad feel more urgent", "voices", "music", "sfx")
    assert "urgent" in chat.music
    assert any("countdown" in one["description"] for one in chat.effects)
    assert all(track["speed"] > 1 for track in chat.tracks)
    assert "five" in " ".join(chat.texts).lower()


def test_another_language_means_a_new_script_and_a_cast_that_speaks_it():
    chat = bakery()
    chat.say("do it in Polish")
    assert chat.made == ["voices"]
    assert all(voices.find(voice).language == "polish" for voice in chat.cast)  # type: ignore[union-attr]
    assert any(char in "ąćęłńóśźż" for char in " ".join(chat.texts))


def test_several_requests_in_one_message_are_all_carried_out_and_what_means_nothing_is_named():
    chat = bakery()
    reply = told(
        chat,
        "Make the music a bit slower, add a whoosh at the start and use a British woman for voice 2. "
        "Also frobnicate the quux.",
        "voices",
        "music",
        "sfx",
    )
    assert "slower tempo" in chat.music or "slow tempo" in chat.music
    assert chat.effects[-1]["description"] == "whoosh"
    assert "frobnicate the quux" in reply


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("leave the voices alone but make the music faster", ["music"]),
        ("make everything more urgent but don't touch the music", ["voices", "sfx"]),
        ("only change the music: more upbeat", ["music"]),
        ("keep everything else as it is, just remove the bell", ["sfx"]),
        ("make it funnier without changing the voices", ["music"]),
        ("add a bell at the end and keep the script", ["sfx"]),
    ],
)
def test_what_shall_stay_is_never_written(text, changed):
    chat = bakery()
    told(chat, text, *changed)


def test_it_means_what_was_spoken_of_last():
    chat = bakery()
    chat.say("make the music more modern")
    told(chat, "make it a bit faster", "music")
    told(chat, "slow down voice 2", "voices")
    told(chat, "a bit more", "voices")
    assert chat.tracks[0]["speed"] == 1.0


def test_an_edit_made_outside_the_chat_is_kept():
    chat = bakery()
    edited = deepcopy(chat.versions["voices"][-1])
    edited["voiceTracks"][0]["text"] = "Written by hand."
    chat.versions["voices"].append(edited)
    told(chat, "make voice 2 slower", "voices")
    assert chat.texts[0] == "Written by hand."
