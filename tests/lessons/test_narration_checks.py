"""Narrations of a model: wrong sentences are corrected alone, or left out (B13-B15, B21, B22, B-R9)."""

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


def brief(**more: Any) -> NarrationBrief:
    given = {"level": 4.5, "interests": ("football",), "age": 9, **more}
    return NarrationBrief("The Great Fire", (FIRE, KING), 60, language="english", **given)


def script(changes: Sentences | None = None, visual: str = "Show it.") -> Say:
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
    found = [{"index": index, "text": text, "factIds": ids} for index, text, ids in sentences]
    return Say(calls=[("c1", "SentenceRepairs", json.dumps({"sentences": found}))])


def sent(model: ChatDouble, at: int = -1) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(model.requests[at].messages[1]["content"])
    return found


async def written(model: ChatDouble, *answers: Say, **more: Any) -> WrittenNarration:
    model.script(*answers)
    return await write_narration(brief(**more), model="openai")


def texts(made: WrittenNarration, kind: str) -> list[str]:
    return [sentence.text for sentence in made.narration.segment(kind).sentences]


WRONG = [
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


@pytest.mark.parametrize(("name", "sentence", "reason"), WRONG, ids=[one[0] for one in WRONG])
async def test_a_sentence_that_its_facts_do_not_prove_is_corrected_alone(
    model: ChatDouble, name, sentence, reason
):
    """B22: it is sent with its neighbours and the reason, and the rest stays as it is."""
    first: tuple[str, list[str]] = ("It was a dry summer.", [])
    last: tuple[str, list[str]] = ("What then?", [])
    right = "The fire began in a bakery."
    made = await written(
        model, script({"conclusion": [first, sentence, last]}), repairs((0, right, ["fire"]))
    )
    assert texts(made, "conclusion") == [first[0], right, last[0]]
    assert made.narration.warnings == ()
    [entry] = sent(model)["sentences"]
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
async def test_a_sentence_that_is_wrong_again_is_left_out_with_a_note(model: ChatDouble, answer):
    """B22: one that loses a fact is followed by a warning that names the fact."""
    wrong = ("King Charles had houses pulled down in 1712.", ["king"])
    made = await written(model, script({"process_explanation": [("Run!", []), wrong]}), *[answer] * 3)
    assert texts(made, "process_explanation") == ["Run!"]
    warnings = "\n".join(made.narration.warnings)
    assert f"left out of the process_explanation: “{wrong[0]}” says 171" in warnings
    assert "does not tell the fact “King Charles”" in warnings


@pytest.mark.parametrize("name", ["Napoleon had houses pulled down.", "They called it DNA.", "It burned."])
async def test_a_sentence_that_may_be_right_is_kept_with_a_warning(model: ChatDouble, name):
    """B22: a first word, an abbreviation, an id that is unknown."""
    wrong = (name, ["king"] if "Nap" in name else ["heat"])
    made = await written(model, script({"conclusion": [wrong, ("Run!", [])]}), repairs((0, *wrong)))
    assert texts(made, "conclusion") == [name, "Run!"]
    assert any(warning.startswith(f"check the conclusion: “{name}” ") for warning in made.narration.warnings)


async def test_the_last_sentence_of_a_segment_is_kept_with_a_warning(model: ChatDouble):
    """B13, B22: a teacher corrects a wrong sentence more easily than a missing segment."""
    made = await written(model, script({"hook": [("It began in 1713!", []), (LIE, [])]}), repairs())
    assert texts(made, "hook") == [LIE]
    assert [warning.split(" says")[0] for warning in made.narration.warnings] == [
        "left out of the hook: “It began in 1713!”",
        f"check the hook: “{LIE}”",
    ]


@pytest.mark.parametrize(
    "sentence",
    ["Wooden roofs fed hungry rats.", "So the next time you sit by a candle, remember who put it out."],
)
async def test_a_sentence_that_says_nothing_of_its_fact_is_named_and_proves_none(model: ChatDouble, sentence):
    """B22: an unproven claim is to be checked; it may be a bridge with an id too many."""
    made = await written(model, script({"conclusion": [(sentence, ["fire"])]}))
    assert texts(made, "conclusion") == [sentence]
    assert made.narration.warnings == (
        f"check the conclusion: “{sentence}” says nothing of the facts it names",
    )
    assert made.narration.segment("conclusion").facts == set()


MOON = Fact(id="moon", concept="Distance", details="The Moon is 384,400 km from Earth.")
APOLLO = Fact(id="apollo", concept="Apollo 11", details="In 1969 Neil Armstrong walked on the Moon.")


async def test_what_a_good_writer_makes_of_a_fact_is_proven(model: ChatDouble):
    """B14, B22: rounded, as a decade, as years ago, in a comparison; a number or a name says the fact."""
    moon: Sentences = {
        "hook": [("Dear Explorer, have you looked up, like Lionel Messi?", [])],
        "concept_introduction": [("The Moon is nearly 400,000 kilometres away.", ["moon"])],
        "process_explanation": [
            ("In the 1960s, people wanted to go there.", ["apollo"]),
            ("Neil Armstrong walked on it more than fifty years ago.", ["apollo"]),
        ],
        "conclusion": [("So tonight, wave to Armstrong's footprints!", ["apollo"])],
    }
    model.script(script(moon))
    order = NarrationBrief("The Moon", (MOON, APOLLO), 60, 4.5, ("football",), "english", age=9)
    made = await write_narration(order, model="openai")
    assert made.narration.warnings == ()
    assert {kind: texts(made, kind) for kind in KINDS} == {
        kind: [text for text, _ in sentences] for kind, sentences in moon.items()
    }
    assert made.narration.says("apollo") == ["process_explanation", "conclusion"]


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
    model.script(script(german), repairs())
    order = NarrationBrief("The Moon", (MOON, APOLLO), 60, 4.5, (), "german", same_language=False)
    made = await write_narration(order, model="openai")
    assert sent(model)["sentences"][0]["problem"] == "it says 1996, which its facts do not say"
    assert made.narration.says("apollo") == ["conclusion"]
    assert texts(made, "process_explanation") == ["Toll!"]


async def test_a_greeting_needs_no_fact_and_proves_none(model: ChatDouble):
    """B22: a fact counts as told only by a sentence that says it."""
    greeting = {"process_explanation": [("Hello there.", ["king"])]}
    made = await written(model, script(greeting), script(greeting))
    assert sent(model)["problems"] == ["no sentence that names these facts says them: king"]
    assert sent(model)["draft"][2]["sentences"] == [{"text": "Hello there.", "factIds": ["king"]}]
    assert made.narration.facts == {"fire"}
    assert "the narration does not tell the fact “King Charles”" in made.narration.warnings


def long(words: int) -> Sentences:
    """The process explanation, which has room for 44 words."""
    text = "Then King Charles had houses pulled down"
    return {"process_explanation": [(" ".join([text, *["so"] * (words - 7)]) + ".", ["king"])]}


async def test_a_segment_that_is_a_little_too_long_is_accepted_with_a_warning(model: ChatDouble):
    """B-R9: 47 words are 7 % more than 44."""
    assert [slot.budget for slot in slots(60, "english")] == [22, 33, 44, 33]
    made = await written(model, script(long(47)))
    assert made.narration.warnings == (
        "the process_explanation is too long: 47 words, and 20 s have room for 44",
    )
    assert len(model.requests) == 1


async def test_the_best_of_two_drafts_that_are_too_long_is_used_with_a_warning(model: ChatDouble):
    """B-R9, B65: 57 words are 30 % more than 44."""
    made = await written(model, script(long(57)), script(long(60)))
    assert made.narration.warnings == (
        "the process_explanation is too long by far: 57 words, and 20 s have room for 44",
    )
    assert sent(model)["problems"] == ["process_explanation says 57 words, but has room for 44"]
    assert len(sent(model)["draft"]) == 4


async def test_a_second_draft_that_fails_leaves_the_first(model: ChatDouble):
    """B65."""
    made = await written(model, script(long(57)), *[Say("Sorry?")] * 3)
    assert len(texts(made, "process_explanation")[0].split()) == 57


async def test_a_segment_that_one_draft_lacks_is_taken_from_the_other(model: ChatDouble):
    """B13."""
    first, second = script(), script()
    body = json.loads(first.calls[0][2])
    first = Say(calls=[("c1", "NarrationScript", json.dumps({"segments": body["segments"][:2]}))])
    second = Say(calls=[("c1", "NarrationScript", json.dumps({"segments": body["segments"][2:]}))])
    made = await written(model, first, second)
    assert [segment.type for segment in made.narration.segments] == list(KINDS)
    assert sent(model)["problems"][0] == "the segment process_explanation is missing"


async def test_empty_visual_guidance_is_asked_for_again_and_then_named(model: ChatDouble):
    """B21."""
    made = await written(model, script(visual=""), script(visual=" "))
    assert "hook has no visual_guidance" in sent(model)["problems"]
    assert "the hook has no visual guidance" in made.narration.warnings
    model.script(script(visual=""), script())
    made = await write_narration(brief(), model="openai")
    assert made.narration.segment("hook").visual_guidance == "Show it."


async def test_the_wrong_sentences_of_a_draft_are_named_when_it_is_asked_for_again(model: ChatDouble):
    made = await written(model, script({"hook": [(LIE, [])], **long(57)}), script())
    assert sent(model)["problems"][1].startswith(f"hook: “{LIE}” says 1712")
    assert made.narration.warnings == ()


async def test_the_audience_and_less_than_the_budget_are_asked_for(model: ChatDouble):
    """B14, B15, B-R9."""
    await written(model, script())
    request = sent(model)
    assert (request["age"], request["level"]) == (9, 4.5)
    assert "because and so" in request["reads_like"]
    assert [(segment["words"], segment["budget"]) for segment in request["segments"]] == [
        (17, 22),
        (26, 33),
        (35, 44),
        (26, 33),
    ]


async def test_what_a_person_likes_needs_no_fact(model: ChatDouble):
    """B14: names of the interests, the topic and the wish are no claims about the material."""
    hook: list[tuple[str, list[str]]] = [("Imagine you and Messi, both 9, smell smoke in Berlin!", [])]
    made = await written(model, script({"hook": hook}), interests=("Messi",), guidance="They visited Berlin")
    assert texts(made, "hook") == [hook[0][0]]


async def test_a_segment_that_is_written_again_is_shown_with_its_neighbours(model: ChatDouble):
    """B17: the neighbours stay, so they must be neither repeated nor contradicted."""
    earlier = (await written(model, script())).narration
    body = json.loads(script().calls[0][2])
    again = [
        segment for segment in body["segments"] if segment["type"] in {"concept_introduction", "conclusion"}
    ]
    model.script(Say(calls=[("c1", "NarrationScript", json.dumps({"segments": again}))]))
    await write_narration(
        brief(), model="openai", earlier=earlier, only=["concept_introduction", "conclusion"]
    )
    first, last = sent(model)["segments"]
    assert (first["was"], first["before"], first["after"]) == (
        GOOD["concept_introduction"][0][0],
        GOOD["hook"][0][0],
        GOOD["process_explanation"][0][0],
    )
    assert "after" not in last


def partly_false_lesson(fire: str, king: str) -> Sentences:
    """Sentences of which two are surely wrong and one may be right."""
    return {
        "hook": [(LIE, [])],
        "concept_introduction": [("The Great Fire of London began more than 350 years ago.", [fire])],
        "process_explanation": [("Napoleon had homes removed.", [king]), ("Mozart came in 1712.", [fire])],
        "conclusion": [("So remember who burned!", [fire])],
    }


async def test_a_lesson_names_the_facts_and_the_sentences_to_check(opened: Storage, model: ChatDouble):
    """B6, B10, B22, B-R10: through the graph."""
    text = f"{FIRE.details} {KING.details}"
    facts = [
        {
            "concept": one.concept,
            "details": details,
            "quote": one.details.rstrip(".") + "!",
            "confidence": 0.9,
        }
        for one, details in ((FIRE, FIRE.details), (KING, "A ruler removed homes, so that less could burn."))
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
    lesson = partly_false_lesson(*fact_ids(question, 1, 2))
    model.script(script(lesson), repairs())
    await chat.answer([1, 2])
    made = await chat.narration()
    assert [sentence.text for segment in made.segments for sentence in segment.sentences] == [
        LIE,
        lesson["concept_introduction"][0][0],
        "Napoleon had homes removed.",
        "So remember who burned!",
    ]
    assert [warning.split(" says")[0] for warning in made.warnings] == [
        f"check the hook: “{LIE}”",
        "check the process_explanation: “Napoleon had homes removed.”",
        "left out of the process_explanation: “Mozart came in 1712.”",
    ]


@pytest.mark.parametrize("prompt", [SCRIPT_PROMPT, SENTENCES_PROMPT])
def test_the_prompts_are_short(prompt: str):
    assert len(prompt) / 4 <= 1_200


def test_the_prompt_has_an_example_of_each_segment_and_says_how_to_use_an_interest():
    """B13, B14, B21."""
    for kind in KINDS:
        assert f"- {kind}: " in SCRIPT_PROMPT
    for words in ("once or twice", "visual_guidance", "for every segment", "conversational and enthusiastic"):
        assert words in SCRIPT_PROMPT
