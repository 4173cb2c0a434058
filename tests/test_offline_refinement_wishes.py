"""Further ways people speak about an ad: speakers, facts, standing wishes, lists, second thoughts."""

from copy import deepcopy

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from state import conversation
from tests.offline_chat import Chat, bakery
from tests.test_offline_refinement import gender, told
from tools import voices


def retold(chat: Chat) -> str:
    """What a compaction keeps of the conversation."""
    return conversation.retold(
        [message for message in chat.messages if isinstance(message, (HumanMessage, AIMessage))]
    )


def test_the_number_of_speakers_can_be_asked_for():
    chat = bakery()
    old = chat.cast[:2]
    told(chat, "I want three different voices reading this", "voices")
    assert chat.cast[:2] == old
    assert len(set(chat.cast)) == 3
    told(chat, "one narrator is enough after all", "voices")
    assert set(chat.cast) == {old[0]}
    assert "only 3" in told(chat, "use 5 different speakers")


def test_the_original_voices_come_back_and_the_words_of_now_stay():
    chat = bakery()
    first = chat.cast
    chat.say("different voices please")
    chat.say("end with 'See you.'")
    texts = chat.texts
    told(chat, "use the original voices again", "voices")
    assert chat.cast == first
    assert chat.texts == texts
    chat.say("go back to the previous voices")
    assert chat.texts == texts


def test_all_speakers_change_places_and_tracks_change_places():
    chat = bakery()
    man, woman, _ = chat.cast
    told(chat, "swap the two voices", "voices")
    assert chat.cast == [woman, man, woman]
    first, second, third = chat.texts
    told(chat, "swap the order of tracks 1 and 3", "voices")
    assert chat.texts == [third, second, first]
    told(chat, "reverse the order", "voices")
    assert chat.texts == [first, second, third]
    told(chat, "let the last line come first", "voices", "sfx")
    assert chat.texts == [third, first, second]


def test_one_tracks_voice_is_used_for_another():
    chat = bakery()
    told(chat, "use the first voice for the second line as well", "voices")
    assert chat.cast[1] == chat.cast[0]


@pytest.mark.parametrize(
    ("text", "overlaps"),
    [
        ("start the second voice half a second later", [0.0, -0.5, 0.0]),
        ("let voice 3 come in a bit earlier", [0.0, 0.0, 0.5]),
        ("a 1 second pause before the first voice", [-1.0, 0.0, 0.0]),
        ("leave a 2 second gap after the first voice", [0.0, -2.0, 0.0]),
        ("a longer pause between voices 2 and 3", [0.0, 0.0, -0.5]),
    ],
)
def test_voices_start_later_or_earlier(text, overlaps):
    chat = bakery()
    told(chat, text, "voices")
    assert [track["overlap"] for track in chat.tracks] == overlaps


def test_a_shorter_pause_and_none_at_all():
    chat = bakery()
    chat.say("add a 2 second pause before the last line")
    told(chat, "make that pause shorter", "voices")
    assert chat.tracks[2]["overlap"] == -1.7
    told(chat, "remove the pauses", "voices")
    assert [track["overlap"] for track in chat.tracks] == [0.0, 0.0, 0.0]
    assert "already" in told(chat, "no pauses please")


def test_two_voices_speak_at_the_same_time():
    chat = bakery()
    told(chat, "voices 2 and 3 should speak at the same time", "voices")
    assert chat.tracks[2]["playAfter"] == "track-0"


def test_pauses_that_do_not_fit_are_shortened_or_refused():
    chat = bakery(spot_s=16.5)
    assert "does not fit" in told(chat, "add a 3 second pause before the last line", "voices")
    assert -0.7 < chat.tracks[2]["overlap"] < 0
    full = bakery(spot_s=16.05)
    assert "no room" in told(full, "add a 3 second pause before the last line")


@pytest.mark.parametrize(
    ("text", "has", "lacks"),
    [
        ("the price went up to $6", "$6", "$4"),
        ("our number is 555-222-3333 now", "555-222-3333", "555-123-4567"),
        (
            "sorry, I misspelled the name, it's Junipr Bakery, please correct it",
            "Junipr Bakery",
            "Juniper Bakery",
        ),
        ("remove every exclamation mark", "Come by today.", "!"),
        ("delete the second sentence", "Tired of stale bread?", "Meet Juniper"),
        ("cut the last sentence", "juniperbread.com", "Come by today"),
        ("drop 'It is baked every morning at 7.'", "$4", "baked"),
        ('new script, word for word: "Bread. Butter. Bliss."', "Bliss.", "stale"),
        ("our email bread@juniper.example must be in the ad", "bread@juniper.example", None),
        ("let the second voice say 'Psst!' first, then the rest", "Psst! Our new sourdough", None),
        ("start with 'Good morning, Mill Street.'", "Good morning, Mill Street. Tired", None),
        ("mention our phone number", "555", None),
    ],
)
def test_facts_and_sentences_change_as_they_are_told(text, has, lacks):
    chat = bakery()
    cast = chat.cast
    chat.say(text)
    script = " ".join(chat.texts)
    assert has in script
    assert lacks is None or lacks not in script
    assert set(chat.made) <= {"voices"}
    assert chat.cast == cast[: len(chat.cast)]


def test_a_fact_that_nobody_knows_is_asked_for():
    chat = bakery()
    chat.say("remove the website")
    assert "Tell me the words" in told(chat, "mention our email address")


def test_the_script_can_open_with_a_question_and_be_written_anew():
    chat = bakery()
    chat.say("rewrite the first line to: Bread is here.")
    told(chat, "start the script with a question", "voices")
    assert chat.texts[0].split("?")[0] + "?" in chat.texts[0]
    before = chat.texts
    told(chat, "write me a different script", "voices")
    assert all(new != old for new, old in zip(chat.texts, before, strict=False))
    kept = chat.texts[0]
    told(chat, "rewrite the second line", "voices")
    assert chat.texts[0] == kept


@pytest.mark.parametrize("text", ["make the script longer", "make it 20% longer", "extend the text a bit"])
def test_the_script_grows_from_the_brief(text):
    chat = bakery(
        client="Juniper Bakery: sourdough, cinnamon buns, rye. Open since 1987. Seats outside. Dogs welcome."
    )
    before = len(" ".join(chat.texts))
    chat.say(text)
    assert chat.made == [] or len(" ".join(chat.texts)) > before


@pytest.mark.parametrize(
    ("text", "shorter_by"),
    [("cut 3 seconds", 2.5), ("make it half as long", 4.0), ("make the second track shorter", 0.5)],
)
def test_the_script_shrinks_by_what_was_asked(text, shorter_by):
    chat = bakery()
    before = chat._time()["durationSeconds"]
    told(chat, text, "voices")
    assert chat._time()["durationSeconds"] <= before - shorter_by


def test_a_condition_on_the_length_is_checked():
    chat = bakery()
    told(chat, "if it is longer than 30 seconds cut it, otherwise leave it alone")
    told(chat, "if it's longer than 12 seconds, cut it to 12 seconds", "voices")
    assert chat._time()["durationSeconds"] <= 12.05


def test_what_shall_never_change_stays_until_it_may():
    chat = bakery()
    chat.say("From now on, never change the music.")
    told(chat, "make the whole ad more energetic", "voices")
    told(chat, "you may touch the music again, make it slower", "music")
    told(chat, "make the ad more urgent", "voices", "music", "sfx")


def test_one_track_and_the_last_sentence_can_be_held():
    chat = bakery()
    first = chat.tracks[0]
    told(chat, "new words for the second voice. Leave the first voice untouched!", "voices")
    assert chat.tracks[0] == first
    chat.say("shorten the text but keep the last sentence as it is")
    assert chat.texts[-1].endswith("Come by today!")


def test_after_a_compaction_the_brief_and_the_standing_wishes_are_still_known():
    chat = bakery()
    chat.say("The music must never change from now on.")
    told_so_far = retold(chat)
    chat.messages[1:] = [SystemMessage(f"Previous conversation summary: {told_so_far}")]
    told(chat, "make the whole ad funnier", "voices")
    assert "Juniper" in " ".join(chat.texts)


def test_a_brief_that_the_summary_cut_short_gives_no_half_number():
    long = (
        "Juniper Bakery on Mill Street. " + "Bread of every kind, every day. " * 8 + "Call 555-123-4567 now."
    )
    chat = bakery(client=long)
    chat.messages[1:] = [SystemMessage(f"Previous conversation summary: {retold(chat)}")]
    chat.say("write me a different script")
    assert "555-12" not in " ".join(chat.texts) or "555-123-4567" in " ".join(chat.texts)


@pytest.mark.parametrize(
    ("text", "descriptions"),
    [
        ("swap the bell and the sizzle", [("shop door bell", "afterVoice"), ("oven sizzle", "start")]),
        ("only keep the bell", [("shop door bell", "start")]),
        ("replace all effects with a single ding at the end", [("ding", "end")]),
        ("the sizzle is too long, halve it", [("shop door bell", "start"), ("oven sizzle", "afterVoice")]),
        ("make the sizzle softer", [("shop door bell", "start"), ("soft oven sizzle", "afterVoice")]),
    ],
)
def test_effects_change_together(text, descriptions):
    chat = bakery()
    told(chat, text, "sfx")
    assert [(one["description"], one["placement"]["type"]) for one in chat.effects] == descriptions


def test_what_follows_an_effect_completes_it_and_another_one_is_like_the_last():
    chat = bakery()
    told(chat, "add a church bell. Maybe 4 seconds, at the start", "sfx")
    assert chat.effects[2] == chat.effects[2] | {"duration": 4, "placement": {"type": "start"}}
    told(chat, "another one at the end", "sfx")
    assert chat.effects[3]["description"] == "church bell"
    assert chat.effects[3]["placement"] == {"type": "end"}
    told(chat, "remove it", "sfx")
    assert len(chat.effects) == 3


def test_a_removed_effect_is_brought_back_by_name():
    chat = bakery()
    old = deepcopy(chat.effects[1])
    chat.say("remove the sizzle")
    told(chat, "bring back the sizzle", "sfx")
    assert {key: chat.effects[1][key] for key in ("description", "placement", "duration")} == {
        key: old[key] for key in ("description", "placement", "duration")
    }


@pytest.mark.parametrize(
    ("text", "placement"),
    [
        ("add a click in the middle", {"type": "afterVoice", "index": 1}),
        ("add birdsong in the background", {"type": "withFirstVoice"}),
        ("add a ding at the start of the second voice", {"type": "afterVoice", "index": 0}),
        ("add a ding at the end of the first line", {"type": "afterVoice", "index": 0}),
        ("add a ding after 'baked every morning'", {"type": "afterVoice", "index": 1}),
        ("add a ding under voice 3", {"type": "afterVoice", "index": 1}),
        ("add a ding after the script", {"type": "end"}),
        ("add a ding between the voices", {"type": "afterVoice", "index": 0}),
    ],
)
def test_an_effect_finds_its_place(text, placement):
    chat = bakery()
    told(chat, text, "sfx")
    assert chat.effects[2]["placement"] == placement


def test_a_list_of_requests_is_worked_through():
    chat = bakery()
    told(
        chat,
        "1) music: ukulele and hand claps\n"
        "2) sfx: phone buzzing at the start\n"
        "3) text: end with 'Ask for Jo.'",
        "music",
        "sfx",
        "voices",
    )
    assert "hand claps" in chat.music
    assert chat.effects[2]["description"] == "phone buzzing"
    assert chat.texts[2].endswith("Ask for Jo.")


@pytest.mark.parametrize(
    ("first", "then", "check"),
    [
        ("make voice 2 slower", "that's too much", lambda chat: 0.86 < chat.tracks[1]["speed"] < 1),
        ("make the music more upbeat", "tone it down a little", lambda chat: "slightly upbeat" in chat.music),
        ("make the music faster", "again", lambda chat: "118 BPM" in chat.music),
        ("remove the bell", "not that much", lambda chat: len(chat.effects) == 2),
    ],
)
def test_second_thoughts_are_about_the_last_change(first, then, check):
    chat = bakery()
    chat.say(first)
    chat.say(then)
    assert check(chat)


def test_again_without_anything_before_is_not_understood():
    chat = bakery()
    assert "did not understand" in told(chat, "a bit more")


@pytest.mark.parametrize(
    ("text", "genders"),
    [
        ("one version with a man and one with a woman please", {"male", "female"}),
    ],
)
def test_versions_by_gender(text, genders):
    chat = bakery()
    chat.say(text)
    assert chat.made == ["voices", "voices"]
    made = chat.versions["voices"][1:]
    assert {gender(str(one["voiceTracks"][0]["voiceId"])) for one in made} == genders


def test_variations_of_effects_and_of_everything_when_nobody_is_left():
    chat = bakery()
    chat.say("create 2 variations of the sound effects")
    assert chat.made == ["sfx", "sfx"]
    czech = Chat(
        [{"voiceId": voices.search("czech")[0].id, "text": "Dobrý den."}], "calm piano", [], language="czech"
    )
    for _ in range(8):
        czech.say("create 3 variations with different voices")
    assert czech.made


def test_a_part_of_a_script_gets_its_own_voice():
    chat = bakery()
    told(chat, "add a female voice", "voices")
    assert len(set(chat.cast)) == 3
    same = Chat([{"voiceId": chat.cast[0], "text": "Only this"}], "calm piano", [])
    assert "Tell me the words" in told(same, "add a third voice")
    assert "at least one" in told(same, "remove track 1")
    told(same, "add a male voice at the start saying 'Listen up.'", "voices")
    assert same.texts == ["Listen up.", "Only this"]


def test_other_lengths_of_the_music_and_a_limit_of_pace():
    chat = bakery()
    told(chat, "make the music 45 seconds long", "music")
    assert chat.versions["music"][-1]["duration"] == 45
    chat.say("set the speed of voice 1 to 2x")
    assert "limit" in told(chat, "make voice 1 even faster")


def test_the_requests_own_changes_are_carried_out():
    chat = bakery()
    chat.language = "polish"
    chat.say("add a bell at the end\n(Ad language now: polish)")
    assert set(chat.made) == {"voices", "sfx"}
    assert all(voices.find(voice).language == "polish" for voice in chat.cast)  # type: ignore[union-attr]
    shorter = bakery()
    shorter.spot_s = 12.0
    shorter.say("thanks\n(Spot now: 12 s)")
    assert shorter.made == ["voices"]
    assert shorter._time()["durationSeconds"] <= 12.05


def test_who_else_there_is_and_what_one_track_says():
    chat = bakery()
    assert "Other voices in English" in chat.say("which other voices are there?")
    reply = chat.say("what does track 2 say?")
    assert "sourdough" in reply
    assert "stale" not in reply


def test_stories_questions_and_remarks_change_nothing():
    chat = bakery()
    for text in (
        "I used to play slow music in a band",
        "do you think the voice is too fast?",
        "haha, the bell reminds me of school",
        "music voice effect music",
        "what time is it?",
        "ok cool",
    ):
        told(chat, text)
