"""Narrations that a model writes: unproven sentences are corrected or left out (B13-B15, B21, B22, B-R9)."""

import json
from typing import Any

import pytest

from callsheet.state.lessons.facts import Fact
from callsheet.state.lessons.narration import KINDS, slots
from callsheet.storage import Storage
from callsheet.tools.lessons.forms import SCRIPT_PROMPT, SENTENCES_PROMPT
from callsheet.tools.lessons.narration import NarrationBrief, WrittenNarration, write_narration
from tests.doubles.chat_double import ChatDouble, Say
from tests.lessons.lesson_chat import LessonChat, fact_ids, pending_question

FIRE = Fact(
    id="fire",
    concept="Great Fire",
    details="The Great Fire of London began on 2 September 1666 in a bakery in Pudding Lane.",
)
KING = Fact(
    id="king", concept="King Charles", details="King Charles had houses pulled down to stop the flames."
)
Sentences = dict[str, list[tuple[str, list[str]]]]
GOOD: Sentences = {
    "hook": [("Can you smell smoke?", [])],
    "concept_introduction": [("The Great Fire of London began in 1666.", ["fire"])],
    "process_explanation": [("Then King Charles had houses pulled down.", ["king"])],
    "conclusion": [("So remember the Great Fire!", ["fire"])],
}
LIE = "King Charles lit the fire himself in 1712."


def brief(**fields: Any) -> NarrationBrief:
    defaults = {"level": 4.5, "interests": ("football",), "age": 9, **fields}
    return NarrationBrief("The Great Fire", (FIRE, KING), 60, language="english", **defaults)


def narration_script(changes: Sentences | None = None, visual: str = "Show it.") -> Say:
    segments = [
        {
            "type": kind,
            "sentences": [{"text": text, "factIds": ids} for text, ids in sentences],
            "visual_guidance": visual,
            "key_concepts": ["Great Fire"],
            "educational_purpose": "Learn.",
        }
        for kind, sentences in {**GOOD, **(changes or {})}.items()
    ]
    return Say(calls=[("c1", "NarrationScript", json.dumps({"segments": segments, "notes": []}))])


def repairs(*sentences: tuple[int, str, list[str]]) -> Say:
    entries = [{"index": index, "text": text, "factIds": ids} for index, text, ids in sentences]
    return Say(calls=[("c1", "SentenceRepairs", json.dumps({"sentences": entries}))])


def form_input(model: ChatDouble, index: int = -1) -> dict[str, Any]:
    """Return the input of a form that the model was sent."""
    fields: dict[str, Any] = json.loads(model.requests[index].messages[1]["content"])
    return fields


async def write(model: ChatDouble, *replies: Say, **fields: Any) -> WrittenNarration:
    """Return the narration that is written when the model gives these replies."""
    model.script(*replies)
    return await write_narration(brief(**fields), model="openai")


def sentence_texts(written: WrittenNarration, kind: str) -> list[str]:
    return [sentence.text for sentence in written.narration.segment(kind).sentences]


UNPROVEN = [
    ("false number", ("It began in 1712 in a bakery.", ["fire"]), "says 1712, which its facts do not say"),
    (
        "false name",
        ("Later King Arthur pulled houses down.", ["king"]),
        "says Arthur, which its facts do not",
    ),
    ("false date", ("It began on 2 October 1666.", ["fire"]), "says October, which its facts do not say"),
    (
        "name at the start",
        ("Napoleon had houses pulled down.", ["king"]),
        "says Napoleon, which its facts do",
    ),
    ("date at the start", ("October 1666 saw a fire.", ["fire"]), "says October, which its facts do not say"),
    ("another fact's number", ("In 1666 King Charles pulled them down.", ["king"]), "says 1666, which its"),
    ("no proof at all", (LIE, []), "says 1712, and names no fact that says so"),
    ("unknown fact", ("It was very hot.", ["heat"]), "names heat, which are not among its facts"),
]


@pytest.mark.parametrize(("name", "sentence", "reason"), UNPROVEN, ids=[case[0] for case in UNPROVEN])
async def test_an_unproven_sentence_is_corrected_without_changing_the_others(
    model: ChatDouble, name, sentence, reason
):
    """B22: it is sent with its neighbours and the reason."""
    first: tuple[str, list[str]] = ("It was a dry summer.", [])
    last: tuple[str, list[str]] = ("What then?", [])
    right = "The fire began in a bakery."
    written = await write(
        model, narration_script({"conclusion": [first, sentence, last]}), repairs((0, right, ["fire"]))
    )
    assert sentence_texts(written, "conclusion") == [first[0], right, last[0]]
    assert written.narration.warnings == ()
    [entry] = form_input(model)["sentences"]
    assert (entry["text"], entry["segment"], entry["before"], entry["after"]) == (
        sentence[0],
        "conclusion",
        first[0],
        last[0],
    )
    assert reason in entry["problem"]
    assert entry["words"] > 5
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    "answer",
    [
        repairs((0, "It began in 1713 in a bakery.", ["fire"])),
        repairs((0, "", [])),
        repairs(),
        Say("Sorry?"),
    ],
)
async def test_a_sentence_that_is_unproven_twice_is_left_out_with_a_warning(model: ChatDouble, answer):
    """B22: another warning names the fact that is no longer told."""
    wrong = ("King Charles had houses pulled down in 1712.", ["king"])
    written = await write(
        model, narration_script({"process_explanation": [("Run!", []), wrong]}), *[answer] * 3
    )
    assert sentence_texts(written, "process_explanation") == ["Run!"]
    warnings = "\n".join(written.narration.warnings)
    assert f"left out of the process explanation: “{wrong[0]}” says 171" in warnings
    assert "does not tell the fact “King Charles”" in warnings


@pytest.mark.parametrize("name", ["Napoleon had houses pulled down.", "They called it DNA.", "It burned."])
async def test_a_doubtful_sentence_is_kept_with_a_warning(model: ChatDouble, name):
    """B22: a name as the first word, an abbreviation, an unknown fact id."""
    wrong = (name, ["king"] if "Nap" in name else ["heat"])
    written = await write(
        model, narration_script({"conclusion": [wrong, ("Run!", [])]}), repairs((0, *wrong))
    )
    assert sentence_texts(written, "conclusion") == [name, "Run!"]
    assert any(
        warning.startswith(f"check the conclusion: “{name}” ") for warning in written.narration.warnings
    )


async def test_an_unproven_sentence_that_is_the_last_of_its_segment_is_kept_with_a_warning(model: ChatDouble):
    """B13, B22: a teacher corrects a wrong sentence more easily than a missing segment."""
    written = await write(
        model, narration_script({"hook": [("It began in 1713!", []), (LIE, [])]}), repairs()
    )
    assert sentence_texts(written, "hook") == [LIE]
    assert [warning.split(" says")[0] for warning in written.narration.warnings] == [
        "left out of the hook: “It began in 1713!”",
        f"check the hook: “{LIE}”",
    ]


@pytest.mark.parametrize(
    "sentence",
    ["Wooden roofs fed hungry rats.", "So the next time you sit by a candle, remember who put it out."],
)
async def test_a_sentence_that_says_nothing_of_its_fact_gets_a_warning_and_does_not_count(
    model: ChatDouble, sentence
):
    """B22: it may be a transition with one fact id too many."""
    written = await write(model, narration_script({"conclusion": [(sentence, ["fire"])]}))
    assert sentence_texts(written, "conclusion") == [sentence]
    assert written.narration.warnings == (
        f"check the conclusion: “{sentence}” says nothing of the facts it names",
    )
    assert written.narration.segment("conclusion").facts == set()


MOON = Fact(id="moon", concept="Distance", details="The Moon is 384,400 km from Earth.")
APOLLO = Fact(id="apollo", concept="Apollo 11", details="In 1969 Neil Armstrong walked on the Moon.")


async def test_rounded_numbers_decades_and_comparisons_are_proven_by_their_facts(model: ChatDouble):
    """B14, B22: a number or a name suffices to tell a fact."""
    moon: Sentences = {
        "hook": [("Dear Explorer, have you looked up, like Lionel Messi?", [])],
        "concept_introduction": [("The Moon is nearly 400,000 kilometres away.", ["moon"])],
        "process_explanation": [
            ("In the 1960s, people wanted to go there.", ["apollo"]),
            ("Neil Armstrong walked on it more than fifty years ago.", ["apollo"]),
        ],
        "conclusion": [("So tonight, wave to Armstrong's footprints!", ["apollo"])],
    }
    model.script(narration_script(moon))
    order = NarrationBrief("The Moon", (MOON, APOLLO), 60, 4.5, ("football",), "english", age=9)
    written = await write_narration(order, model="openai")
    assert written.narration.warnings == ()
    assert {kind: sentence_texts(written, kind) for kind in KINDS} == {
        kind: [text for text, _ in sentences] for kind, sentences in moon.items()
    }
    assert written.narration.says("apollo") == ["process_explanation", "conclusion"]


async def test_a_narration_in_another_language_than_the_facts_is_proven_by_its_digits(model: ChatDouble):
    """B22."""
    german: Sentences = {
        "hook": [("Hast du dich je gefragt, wer den Mond besucht hat?", [])],
        "concept_introduction": [("Der Mond ist 384.400 Kilometer weit weg.", ["moon"])],
        "process_explanation": [
            ("Im Jahr 1996 ging Neil dort spazieren.", ["apollo"]),
            ("Toll!", ["apollo"]),
        ],
        "conclusion": [("Wink heute Abend den Spuren im Staub!", ["apollo"])],
    }
    model.script(narration_script(german), repairs())
    order = NarrationBrief("The Moon", (MOON, APOLLO), 60, 4.5, (), "german", same_language=False)
    written = await write_narration(order, model="openai")
    assert form_input(model)["sentences"][0]["problem"] == "it says 1996, which its facts do not say"
    assert written.narration.says("apollo") == ["conclusion"]
    assert sentence_texts(written, "process_explanation") == ["Toll!"]


async def test_a_greeting_needs_no_fact_and_tells_none(model: ChatDouble):
    """B22: a fact counts as told only by a sentence that says it."""
    greeting = {"process_explanation": [("Hello there.", ["king"])]}
    written = await write(model, narration_script(greeting), narration_script(greeting))
    assert form_input(model)["problems"] == ["no sentence that names these facts says them: king"]
    assert form_input(model)["draft"][2]["sentences"] == [{"text": "Hello there.", "factIds": ["king"]}]
    assert written.narration.facts == {"fire"}
    assert "the narration does not tell the fact “King Charles”" in written.narration.warnings


def long_explanation(words: int) -> Sentences:
    """Return a process explanation of this many words; it has room for 44."""
    text = "Then King Charles had houses pulled down"
    return {"process_explanation": [(" ".join([text, *["so"] * (words - 7)]) + ".", ["king"])]}


async def test_a_segment_that_is_a_little_too_long_is_accepted_with_a_warning(model: ChatDouble):
    """B-R9: 47 words are 7 % more than 44."""
    assert [slot.budget for slot in slots(60, "english")] == [22, 33, 44, 33]
    written = await write(model, narration_script(long_explanation(47)))
    assert written.narration.warnings == (
        "the process explanation is too long: 47 words, and 20 s have room for 44",
    )
    assert len(model.requests) == 1


async def test_the_best_of_two_drafts_that_are_too_long_is_used_with_a_warning(model: ChatDouble):
    """B-R9, B65: 57 words are 30 % more than 44."""
    written = await write(
        model, narration_script(long_explanation(57)), narration_script(long_explanation(60))
    )
    assert written.narration.warnings == (
        "the process explanation is too long by far: 57 words, and 20 s have room for 44",
    )
    assert form_input(model)["problems"] == ["process_explanation says 57 words, but has room for 44"]
    assert len(form_input(model)["draft"]) == 4


async def test_the_first_draft_is_kept_if_the_second_fails(model: ChatDouble):
    """B65."""
    written = await write(model, narration_script(long_explanation(57)), *[Say("Sorry?")] * 3)
    assert len(sentence_texts(written, "process_explanation")[0].split()) == 57


async def test_a_segment_missing_in_one_draft_is_taken_from_the_other(model: ChatDouble):
    """B13."""
    first, second = narration_script(), narration_script()
    body = json.loads(first.calls[0][2])
    first = Say(calls=[("c1", "NarrationScript", json.dumps({"segments": body["segments"][:2]}))])
    second = Say(calls=[("c1", "NarrationScript", json.dumps({"segments": body["segments"][2:]}))])
    written = await write(model, first, second)
    assert [segment.type for segment in written.narration.segments] == list(KINDS)
    assert form_input(model)["problems"][0] == "the segment process_explanation is missing"


async def test_missing_visual_guidance_is_requested_again_and_then_a_warning(model: ChatDouble):
    """B21."""
    written = await write(model, narration_script(visual=""), narration_script(visual=" "))
    assert "hook has no visual_guidance" in form_input(model)["problems"]
    assert "the hook has no visual guidance" in written.narration.warnings
    model.script(narration_script(visual=""), narration_script())
    written = await write_narration(brief(), model="openai")
    assert written.narration.segment("hook").visual_guidance == "Show it."


async def test_a_second_request_for_a_draft_names_its_unproven_sentences(model: ChatDouble):
    written = await write(
        model, narration_script({"hook": [(LIE, [])], **long_explanation(57)}), narration_script()
    )
    assert form_input(model)["problems"][1].startswith(f"hook: “{LIE}” says 1712")
    assert written.narration.warnings == ()


async def test_the_model_is_sent_the_audience_and_a_word_count_below_the_budget(model: ChatDouble):
    """B14, B15, B-R9."""
    await write(model, narration_script())
    request = form_input(model)
    assert (request["age"], request["level"]) == (9, 4.5)
    assert "because and so" in request["reads_like"]
    assert [(segment["words"], segment["budget"]) for segment in request["segments"]] == [
        (17, 22),
        (26, 33),
        (35, 44),
        (26, 33),
    ]


async def test_a_sentence_about_the_students_interests_needs_no_fact(model: ChatDouble):
    """B14: names of the interests, the topic and the wish are no claims about the material."""
    hook: list[tuple[str, list[str]]] = [("Imagine you and Messi, both 9, smell smoke in Berlin!", [])]
    written = await write(
        model, narration_script({"hook": hook}), interests=("Messi",), guidance="They visited Berlin"
    )
    assert sentence_texts(written, "hook") == [hook[0][0]]


async def test_a_segment_is_regenerated_with_its_neighbours_in_the_request(model: ChatDouble):
    """B17: the neighbours stay, so they must be neither repeated nor contradicted."""
    earlier = (await write(model, narration_script())).narration
    body = json.loads(narration_script().calls[0][2])
    regenerated = [
        segment for segment in body["segments"] if segment["type"] in {"concept_introduction", "conclusion"}
    ]
    model.script(Say(calls=[("c1", "NarrationScript", json.dumps({"segments": regenerated}))]))
    await write_narration(
        brief(), model="openai", earlier=earlier, only=["concept_introduction", "conclusion"]
    )
    first, last = form_input(model)["segments"]
    assert (first["was"], first["before"], first["after"]) == (
        GOOD["concept_introduction"][0][0],
        GOOD["hook"][0][0],
        GOOD["process_explanation"][0][0],
    )
    assert "after" not in last


def partly_false_lesson(fire: str, king: str) -> Sentences:
    """Return sentences of which two are surely wrong and one may be right."""
    return {
        "hook": [(LIE, [])],
        "concept_introduction": [("The Great Fire of London began more than 350 years ago.", [fire])],
        "process_explanation": [("Napoleon had homes removed.", [king]), ("Mozart came in 1712.", [fire])],
        "conclusion": [("So remember who burned!", [fire])],
    }


async def test_a_lesson_has_warnings_about_doubtful_facts_and_sentences(opened: Storage, model: ChatDouble):
    """B6, B10, B22, B-R10: through the graph."""
    text = f"{FIRE.details} {KING.details}"
    facts = [
        {
            "concept": fact.concept,
            "details": details,
            "quote": fact.details.rstrip(".") + "!",
            "confidence": 0.9,
        }
        for fact, details in ((FIRE, FIRE.details), (KING, "A ruler removed homes, so that less could burn."))
    ]
    form = json.dumps({"topic": "The Great Fire", "learningObjective": "Explain it.", "facts": facts})
    model.script(
        Say(calls=[("call_extract", "extractFactsTool", json.dumps({"content": text}))]),
        Say(calls=[("call_form", "FactSheet", form)]),
    )
    chat = LessonChat(opened, {"provider": "openai"})
    question = pending_question(await chat.send(f"Make a lesson of this: {text}"))
    assert [fact["confidence"] for fact in question["facts"]] == [0.9, 0.5]
    assert [fact["source"]["quote"] for fact in question["facts"]] == [FIRE.details, KING.details]
    assert any("check King Charles" in warning for warning in (await chat.newest_data("facts"))["warnings"])
    sentences = partly_false_lesson(*fact_ids(question, 1, 2))
    model.script(narration_script(sentences), repairs())
    await chat.answer([1, 2])
    narration = await chat.narration()
    assert [sentence.text for segment in narration.segments for sentence in segment.sentences] == [
        LIE,
        sentences["concept_introduction"][0][0],
        "Napoleon had homes removed.",
        "So remember who burned!",
    ]
    assert [warning.split(" says")[0] for warning in narration.warnings] == [
        f"check the hook: “{LIE}”",
        "check the process explanation: “Napoleon had homes removed.”",
        "left out of the process explanation: “Mozart came in 1712.”",
    ]


@pytest.mark.parametrize("prompt", [SCRIPT_PROMPT, SENTENCES_PROMPT])
def test_the_prompts_have_under_1200_tokens(prompt: str):
    assert len(prompt) / 4 <= 1_200


def test_the_prompt_has_an_example_of_each_segment_and_says_how_to_use_an_interest():
    """B13, B14, B21."""
    for kind in KINDS:
        assert f"- {kind}: " in SCRIPT_PROMPT
    for words in ("once or twice", "visual_guidance", "for every segment", "conversational and enthusiastic"):
        assert words in SCRIPT_PROMPT
