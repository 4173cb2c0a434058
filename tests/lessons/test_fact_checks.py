"""Facts that a model proposes: each is checked, asked for again if it is wrong, or left out (B6, B-R10)."""

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


def sheet(*facts: dict[str, object]) -> Say:
    body = {"topic": "Bees", "learningObjective": "Explain how bees find food.", "facts": facts}
    return Say(calls=[("c1", "FactSheet", json.dumps(body))])


async def extraction(model: ChatDouble, *answers: Say | Fail) -> Extraction:
    model.script(*answers)
    return await extract_facts(TEXT, model="openai")


def concepts(made: Extraction) -> list[str]:
    return [fact.concept for fact in made.facts]


@pytest.mark.parametrize(
    ("wrong", "reason"),
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
async def test_a_fact_that_is_not_proven_is_asked_for_again_with_the_reason(model: ChatDouble, wrong, reason):
    """B6: in the same conversation; what comes back right keeps its place."""
    made = await extraction(
        model, sheet(wrong, HIVE) if "already" not in reason else sheet(HIVE, wrong), sheet(DANCE)
    )
    assert sorted(concepts(made)) == ["Dance", "Hive"]
    assert concepts(made)[0] == ("Hive" if "already" in reason else "Dance")
    assert not any("left out" in warning for warning in made.warnings)
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
async def test_a_fact_that_may_be_right_is_kept_with_a_warning_and_little_confidence(
    model: ChatDouble, details, warning
):
    """B6, B-R10."""
    made = await extraction(model, sheet(DANCE | {"details": details}, HIVE))
    assert [(fact.concept, fact.confidence) for fact in made.facts] == [("Dance", 0.5), ("Hive", 0.9)]
    assert warning in made.warnings
    assert len(model.requests) == 1


GERMAN = (
    "Die Spinne ist ein Tier und hat acht Beine, aber der Mensch hat nur zwei. Sie baut ein Netz aus einem "
    "Faden, der sehr fest ist. Im Jahr 1758 hat Linné sie beschrieben."
)


@pytest.mark.parametrize(
    ("details", "kept", "reason"),
    [
        ("Die Spinne hat 8 Beine, der Mensch hat 2.", True, "check Beine: the details say 8, 2, which the"),
        ("Krabbeltiere laufen viel.", True, "check Beine: the details use other words"),
        ("Die Spinne hat Beine, sagt ein Buch von 1712.", False, "left out Beine: the details say 1712"),
    ],
)
async def test_outside_english_a_number_in_words_is_no_error(model: ChatDouble, details, kept, reason):
    """B6, B-R10: a year is never in words."""
    fact = {
        "concept": "Beine",
        "details": details,
        "quote": "Die Spinne ist ein Tier und hat acht Beine, aber der Mensch hat nur zwei",
        "confidence": 0.9,
    }
    model.script(*[sheet(fact)] * (1 if kept else 2))
    made = await extract_facts(GERMAN, model="openai")
    assert made.language == "german"
    assert concepts(made) == (["Beine"] if kept else [])
    assert any(warning.startswith(reason) for warning in made.warnings)


async def test_a_quote_in_another_spelling_is_kept_as_the_material_spells_it(model: ChatDouble):
    """B6."""
    quote = '"**Bees** make honey from nectar [1]…"'
    made = await extraction(model, sheet({**HIVE, "details": "Bees make honey.", "quote": quote}))
    [source] = [fact.source for fact in made.facts]
    assert source is not None
    assert TEXT[source.start : source.end] == source.quote == "Bees make honey from nectar."


async def test_a_fact_that_is_wrong_again_is_left_out_with_the_reason(model: ChatDouble):
    """B-R10."""
    mars = HIVE | {"concept": "Mars", "quote": "Bees live on Mars."}
    venus = HIVE | {"concept": "Venus", "quote": "Bees live on Venus."}
    made = await extraction(model, sheet(mars, venus, DANCE), sheet(mars))
    assert concepts(made) == ["Dance"]
    assert "left out Mars, Venus: the quote is not in the material word for word" in made.warnings
    assert len(model.requests) == 2


async def test_proven_facts_are_kept_where_the_rest_cannot_be_asked_for(model: ChatDouble):
    """B65."""
    made = await extraction(model, sheet(HIVE, DANCE | {"quote": "…"}), *[Say("Sorry?")] * 3)
    assert concepts(made) == ["Hive"]
    assert any(warning.startswith("left out Dance: ") for warning in made.warnings)


async def test_facts_are_in_the_order_in_which_they_are_taught(model: ChatDouble):
    made = await extraction(model, sheet(DANCE, HIVE))
    assert concepts(made) == ["Dance", "Hive"]
    assert len(model.requests) == 1


async def test_the_age_of_the_student_is_sent_where_it_is_known(opened, model: ChatDouble):
    """B14."""
    school = LessonTools(opened, model="openai")
    await school.call("saveStudentInfoTool", child_age="9 years")
    model.script(sheet(HIVE))
    assert (await school.call("extractFactsTool", content=TEXT))["success"]
    sent = json.loads(model.requests[0].messages[-1]["content"])
    assert (sent["age"], sent["level"]) == (9, 4.5)


async def test_nothing_is_sent_about_an_unknown_student(model: ChatDouble):
    model.script(sheet(HIVE))
    await extract_facts(TEXT, model="openai", preferences=ExtractionPreferences())
    assert not {"age", "level"} & set(json.loads(model.requests[0].messages[-1]["content"]))


def test_the_prompt_asks_for_what_is_checked():
    """B6: and is short enough to send with every part."""
    for words in ("one unbroken passage", "several sentences", "age", "learningObjective", "taught"):
        assert words in FACTS_PROMPT
    assert len(FACTS_PROMPT) / 4 <= 1_200
