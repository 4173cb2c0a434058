"""Facts that a model proposes are checked; a wrong one is requested again or left out (B6, B-R10)."""

import json

import pytest

from callsheet.tools.lessons.fact_finding import Extraction, ExtractionPreferences, extract_facts
from callsheet.tools.lessons.forms import FACTS_PROMPT
from tests.doubles.chat_double import ChatDouble, Fail, Say
from tests.lessons.lesson_tools import LessonTools

TEXT = (
    "Honey bees live in a hive with up to 60,000 workers. A bee that has found flowers dances in a figure "
    "of eight. From the dance the others learn how far away the flowers are. Karl von Frisch described it "
    "in 1927. Bees make honey from nectar."
)
HIVE = {
    "concept": "Hive",
    "details": "Honey bees live in a hive. It has up to 60,000 workers.",
    "quote": "Honey bees live in a hive with up to 60,000 workers.",
    "confidence": 0.9,
}
DANCE = {
    "concept": "Dance",
    "details": "A bee dances in a figure of eight. The others learn how far away flowers are.",
    "quote": "A bee that has found flowers dances in a figure of eight. From the dance the others learn "
    "how far away the flowers are.",
    "confidence": 0.8,
}


def fact_sheet(*facts: dict[str, object]) -> Say:
    body = {"topic": "Bees", "learningObjective": "Explain how bees find food.", "facts": facts}
    return Say(calls=[("c1", "FactSheet", json.dumps(body))])


async def extract(model: ChatDouble, *replies: Say | Fail) -> Extraction:
    """Return the facts of the text when the model gives these answers."""
    model.script(*replies)
    return await extract_facts(TEXT, model="openai")


def concepts(extraction: Extraction) -> list[str]:
    return [fact.concept for fact in extraction.facts]


@pytest.mark.parametrize(
    ("unproven", "reason"),
    [
        (
            DANCE | {"quote": "A bee dances … From the dance the others learn"},
            "not in the material word for word",
        ),
        (DANCE | {"quote": HIVE["quote"]}, "the quote already proves Hive"),
        (DANCE | {"details": "A bee dances in a figure of eight, as seen in 1712."}, "say 1712"),
        (DANCE | {"details": "A bee dances in a figure of eight, says Darwin."}, "say Darwin"),
    ],
)
async def test_an_unproven_fact_is_requested_again_with_the_reason(model: ChatDouble, unproven, reason):
    """B6: in the same conversation; the corrected fact keeps its place."""
    extraction = await extract(
        model,
        fact_sheet(unproven, HIVE) if "already" not in reason else fact_sheet(HIVE, unproven),
        fact_sheet(DANCE),
    )
    assert sorted(concepts(extraction)) == ["Dance", "Hive"]
    assert concepts(extraction)[0] == ("Hive" if "already" in reason else "Dance")
    assert not any("left out" in warning for warning in extraction.warnings)
    first, second = (request.messages for request in model.requests)
    assert second[: len(first)] == first
    assert json.loads(second[-2]["content"])["topic"] == "Bees"
    assert "Dance: " in second[-1]["content"]
    assert reason in second[-1]["content"]
    assert "Hive:" not in second[-1]["content"]


@pytest.mark.parametrize(
    ("details", "warning"),
    [
        ("Ants carry leaves.", "check Dance: the details use other words than the quote"),
        (
            "A bee dances in a figure of eight. Darwin had seen the others learn how far flowers are.",
            "check Dance: the details say Darwin, which the material may not say",
        ),
    ],
)
async def test_a_doubtful_fact_is_kept_with_a_warning_and_less_confidence(
    model: ChatDouble, details, warning
):
    """B6, B-R10."""
    extraction = await extract(model, fact_sheet(DANCE | {"details": details}, HIVE))
    assert [(fact.concept, fact.confidence) for fact in extraction.facts] == [("Dance", 0.5), ("Hive", 0.9)]
    assert warning in extraction.warnings
    assert len(model.requests) == 1


GERMAN = (
    "Die Spinne ist ein Tier und hat acht Beine, aber der Mensch hat nur zwei. Sie baut ein Netz aus einem "
    "Faden, der sehr fest ist. Im Jahr 1758 hat Linné sie beschrieben."
)


@pytest.mark.parametrize(
    ("details", "is_kept", "reason"),
    [
        ("Die Spinne hat 8 Beine, der Mensch hat 2.", True, "check Beine: the details say 8, 2, which the"),
        ("Krabbeltiere laufen viel.", True, "check Beine: the details use other words"),
        ("Die Spinne hat Beine, sagt ein Buch von 1712.", False, "left out Beine: the details say 1712"),
    ],
)
async def test_a_german_number_in_words_is_only_a_warning_but_a_wrong_year_an_error(
    model: ChatDouble, details, is_kept, reason
):
    """B6, B-R10: a year is never in words."""
    fact = {
        "concept": "Beine",
        "details": details,
        "quote": "Die Spinne ist ein Tier und hat acht Beine, aber der Mensch hat nur zwei",
        "confidence": 0.9,
    }
    model.script(*[fact_sheet(fact)] * (1 if is_kept else 2))
    extraction = await extract_facts(GERMAN, model="openai")
    assert extraction.language == "german"
    assert concepts(extraction) == (["Beine"] if is_kept else [])
    assert any(warning.startswith(reason) for warning in extraction.warnings)


async def test_a_quote_is_stored_in_the_spelling_of_the_material(model: ChatDouble):
    """B6."""
    quote = '"**Bees** make honey from nectar [1]…"'
    extraction = await extract(model, fact_sheet({**HIVE, "details": "Bees make honey.", "quote": quote}))
    [source] = [fact.source for fact in extraction.facts]
    assert source is not None
    assert TEXT[source.start : source.end] == source.quote == "Bees make honey from nectar."


async def test_a_fact_that_is_unproven_twice_is_left_out_with_the_reason(model: ChatDouble):
    """B-R10."""
    mars = HIVE | {"concept": "Mars", "quote": "Bees live on Mars."}
    venus = HIVE | {"concept": "Venus", "quote": "Bees live on Venus."}
    extraction = await extract(model, fact_sheet(mars, venus, DANCE), fact_sheet(mars))
    assert concepts(extraction) == ["Dance"]
    assert "left out Mars, Venus: the quote is not in the material word for word" in extraction.warnings
    assert len(model.requests) == 2


async def test_proven_facts_are_kept_if_the_model_fails_to_correct_the_others(model: ChatDouble):
    """B65."""
    extraction = await extract(model, fact_sheet(HIVE, DANCE | {"quote": "…"}), *[Say("Sorry?")] * 3)
    assert concepts(extraction) == ["Hive"]
    assert any(warning.startswith("left out Dance: ") for warning in extraction.warnings)


async def test_facts_keep_the_order_of_the_models_sheet(model: ChatDouble):
    extraction = await extract(model, fact_sheet(DANCE, HIVE))
    assert concepts(extraction) == ["Dance", "Hive"]
    assert len(model.requests) == 1


async def test_a_known_age_of_the_student_is_sent_to_the_model(opened, model: ChatDouble):
    """B14."""
    lesson_tools = LessonTools(opened, model="openai")
    await lesson_tools.call("saveStudentInfoTool", child_age="9 years")
    model.script(fact_sheet(HIVE))
    assert (await lesson_tools.call("extractFactsTool", content=TEXT))["success"]
    form_input = json.loads(model.requests[0].messages[-1]["content"])
    assert (form_input["age"], form_input["level"]) == (9, 4.5)


async def test_no_age_is_sent_for_an_unknown_student(model: ChatDouble):
    model.script(fact_sheet(HIVE))
    await extract_facts(TEXT, model="openai", preferences=ExtractionPreferences())
    assert not {"age", "level"} & set(json.loads(model.requests[0].messages[-1]["content"]))


def test_the_prompt_names_the_rules_that_are_checked_and_is_short():
    """B6: it is sent with every part of a material."""
    for words in ("one unbroken passage", "several sentences", "age", "learningObjective", "taught"):
        assert words in FACTS_PROMPT
    assert len(FACTS_PROMPT) / 4 <= 1_200
