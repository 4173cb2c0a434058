"""The offline model's facts of a material, and its narrations of them."""

import random
import re

import pytest

from callsheet.providers.offline.lessons.facts import sheet
from callsheet.state.errors import Invalid
from callsheet.state.languages import detect
from callsheet.state.lessons.facts import find_passage, new_fact
from callsheet.state.lessons.narration import length, slots
from callsheet.tools.lessons.fact_finding import extract_facts
from callsheet.tools.lessons.narration import NarrationBrief, write_narration
from callsheet.tools.lessons.reflow import reflow
from tests.lessons.lesson_material import all_materials, material


@pytest.mark.parametrize("example", all_materials(), ids=lambda example: example.file)
async def test_the_facts_of_a_material_are_the_expected_ones(example):
    """B6, B-R10: each is a quotation of the material, named by words of it."""
    text = reflow(example.text)
    extraction = await extract_facts(text, model="offline")
    quotes = [fact.source.quote for fact in extraction.facts if fact.source]
    names = [fact.concept for fact in extraction.facts]
    assert example.failures(extraction.topic, quotes, list(extraction.warnings)) == []
    assert (example.wrong_concepts(names), extraction.language, len(set(names))) == (
        [],
        example.language,
        len(names),
    )
    assert all(quote in text for quote in quotes)
    assert [fact.details for fact in extraction.facts] == quotes
    assert extraction.facts == (await extract_facts(text, model="offline")).facts


def test_every_fact_of_a_random_text_quotes_that_text():
    """B-R10: thirty texts of noise in ten scripts."""
    draw = random.Random(6)
    letters = "aeiou nrst.,;:!?-—()“”\n\n'\"0123456789 漢字。、ไทย ขก. हिंदी। العربية؟ 한국어 Übung é"
    for _ in range(30):
        text = reflow("".join(draw.choice(letters) for _ in range(draw.randrange(400))))
        for fact in sheet({"material": text, "language": detect(text) or "english"})["facts"]:
            assert find_passage(fact["quote"], text)
            assert fact["concept"].strip()


def words(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]{4,}", text.casefold()))


@pytest.mark.parametrize("example", all_materials(), ids=lambda example: example.file)
@pytest.mark.parametrize(("total_s", "level"), [(60, 2.5), (180, 8.5)])
async def test_a_narration_has_every_fact_once_in_its_own_words_within_its_time(example, total_s, level):
    """B12, B13, B15, B22, B-R9."""
    extraction = await extract_facts(reflow(example.text), model="offline")
    brief = NarrationBrief(
        extraction.topic, extraction.facts, total_s, level, ("chess",), extraction.language
    )
    narration = (await write_narration(brief, model="offline")).narration
    assert narration.facts == {fact.id for fact in extraction.facts}
    for slot, segment in zip(slots(total_s, extraction.language), narration.segments, strict=True):
        assert length(segment.narration, extraction.language) <= slot.budget
        assert segment.visual_guidance
    sentences = [
        (sentence, fact)
        for part in narration.segments
        for sentence in part.sentences
        for fact in extraction.facts
        if sentence.factIds == (fact.id,)
    ]
    assert all(
        words(sentence.text)
        <= words(f"{fact.details} did know remember main ideas keep mind more find about there")
        for sentence, fact in sentences
    )
    texts = [sentence.text for part in narration.segments for sentence in part.sentences]
    assert len(texts) == len(set(texts))


async def test_interests_age_and_key_terms_change_the_narration():
    """B14, B21, B64."""
    extraction = await extract_facts(reflow(material("photosynthesis").text), model="offline")
    young = NarrationBrief(extraction.topic, extraction.facts[:3], 60, 2.5, ("soccer", "Lego"), "english")
    older = NarrationBrief(extraction.topic, extraction.facts[:3], 60, 8.5, (), "english")
    (first, second) = [(await write_narration(one, model="offline")).narration for one in (young, older)]
    text = " ".join(part.narration for part in first.segments)
    assert text.count("soccer and Lego") == 2
    assert first.segments[0].narration != second.segments[0].narration
    assert "Photosynthesis is the process" in first.segment("concept_introduction").narration
    assert "Photosynthesis" in first.segment("concept_introduction").key_concepts


async def test_too_many_facts_for_the_length_are_refused_with_a_remedy():
    many = tuple(
        new_fact(f"A concept with rather many words number {n}", f"It is thing {n} of all.")
        for n in range(40)
    )
    with pytest.raises(Invalid, match="cannot even be named") as refused:
        await write_narration(NarrationBrief("All", many, 15, 4.5, (), "english"), model="offline")
    assert "fewer facts" in refused.value.remedy


@pytest.mark.parametrize("seed", range(6))
async def test_random_facts_and_lengths_are_narrated_or_refused(seed):
    """B-R8, B-R9."""
    draw = random.Random(seed)
    texts = [reflow(material(name).text) for name in ("struggle_for_existence", "great_fire", "panda")]
    stock = [fact for text in texts for fact in (await extract_facts(text, model="offline")).facts]
    facts = tuple(draw.sample(stock, draw.randint(1, 15)))
    total_s, level = draw.choice([15, 16, 23, 37, 61, 90, 200, 600]), draw.choice([2.5, 4.5, 8.5])
    try:
        narration = (
            await write_narration(
                NarrationBrief("A topic", facts, total_s, level, ("chess",), "english"), model="offline"
            )
        ).narration
    except Invalid as refused:
        assert "cannot even be named" in refused.message  # noqa: PT017 -- some may be refused, none may fail
    else:
        assert narration.facts == {fact.id for fact in facts}
