"""Narrations that the offline model writes: all the chosen facts, nothing else, in time (B12-B22)."""

import random
import re

import pytest

from state.errors import Invalid
from state.facts import added
from state.narration import length, unsaid
from tests.lesson_material import expected, material
from tools.fact_finding import Extraction, facts_of
from tools.narrating import Order, narrated
from tools.reflow import cleaned

MATERIAL = expected()
FOUND: dict[str, Extraction] = {}
"""What was found in each material, which no test changes."""
LATIN = [one for one in MATERIAL if one.language == "english"]


async def order(name="photosynthesis", *, total_s=60, level=4.5, interests=("soccer", "Minecraft"), most=99):
    if name not in FOUND:
        FOUND[name] = await facts_of(cleaned(material(name).text))
    found = FOUND[name]
    return Order(found.topic, found.facts[:most], total_s, level, interests, found.language)


def words(text):
    return set(re.findall(r"[^\W\d_]{4,}", text.casefold()))


@pytest.mark.parametrize("one", MATERIAL, ids=lambda one: one.file)
@pytest.mark.parametrize(("total_s", "level"), [(60, 2.5), (180, 8.5)])
async def test_every_fact_is_said_within_the_time(one, total_s, level):
    """B13, B22, B-R9."""
    wanted = await order(one.file.partition(".")[0], total_s=total_s, level=level)
    made = (await narrated(wanted)).narration
    assert unsaid(made, [fact.id for fact in wanted.facts]) == ([], [])
    for segment in made.segments:
        assert length(segment.narration, wanted.language) <= int(segment.duration * 22 // 10) or (
            wanted.language in {"chinese", "thai"}
        )
        assert segment.narration.strip()
        assert segment.visual_guidance
        assert segment.educational_purpose
    assert made.segments[-1].start_time + made.segments[-1].duration == total_s
    texts = [sentence.text for segment in made.segments for sentence in segment.sentences if sentence.factIds]
    assert len(texts) == len(set(texts)) or len(wanted.facts) == 1


@pytest.mark.parametrize("one", LATIN, ids=lambda one: one.file)
async def test_what_is_said_of_a_fact_is_in_its_own_words(one):
    """B22: a harder word may become an easier one, and nothing is made up."""
    wanted = await order(one.file.partition(".")[0], level=8.5)
    details = {fact.id: words(fact.details) | words(fact.concept) for fact in wanted.facts}
    for segment in (await narrated(wanted)).narration.segments:
        for sentence in segment.sentences:
            known = set().union(*(details[fact] for fact in sentence.factIds))
            if sentence.factIds and not sentence.text.startswith(("Also:", "Remember")):
                assert words(sentence.text) - {"know"} <= known, sentence.text


async def test_figures_are_told_as_the_source_has_them():
    wanted = await order("the_moon", total_s=180, level=2.5)
    whole = " ".join(fact.details for fact in wanted.facts)
    for segment in (await narrated(wanted)).narration.segments:
        for figure in re.findall(r"\d[\d,.]*\d|\d", segment.narration):
            assert figure in whole


async def test_interests_are_woven_in_and_none_are_needed():
    """B14, B55, B64."""
    with_them = (await narrated(await order())).narration
    said = " ".join(segment.narration for segment in with_them.segments)
    assert "soccer and Minecraft" in said
    assert "soccer" in with_them.segments[0].visual_guidance
    without = (await narrated(await order(interests=()))).narration
    assert "{" not in without.model_dump_json().replace('{"', "").replace("{\\", "")
    assert "fans" not in " ".join(segment.narration for segment in without.segments)


async def test_younger_students_get_easier_words():
    """B14, B15."""
    young = (await narrated(await order(level=2.5, total_s=120))).narration
    grown = (await narrated(await order(level=8.5, total_s=120))).narration
    assert young.readability is not None
    assert grown.readability is not None
    assert young.readability.grade < grown.readability.grade
    assert (young.reading_level, grown.reading_level) == ("2.5", "8.5")


async def test_words_that_stay_too_hard_are_told_of():
    made = (await narrated(await order("struggle_for_existence", level=2.5))).narration
    assert made.readability is not None
    assert made.readability.within or any("harder than 2.5" in warning for warning in made.warnings)


async def test_more_facts_than_there_is_time_for_are_named_and_told_of():
    made = (await narrated(await order("struggle_for_existence"))).narration
    assert any("only named" in warning for warning in made.warnings)
    longer = (await narrated(await order("struggle_for_existence", total_s=600))).narration
    assert not any("only named" in warning for warning in longer.warnings)


async def test_facts_that_cannot_even_be_named_are_refused_with_a_remedy():
    many = tuple(
        added(f"A concept with rather many words number {i}", f"It is thing {i} of all.") for i in range(40)
    )
    with pytest.raises(Invalid, match="cannot even be named") as refused:
        await narrated(Order("All", many, 15, 4.5, (), "english"))
    assert "fewer facts" in refused.value.remedy


async def test_terms_are_defined_where_the_source_defines_them():
    """B21."""
    made = (await narrated(await order("photosynthesis"))).narration
    assert "Photosynthesis is the process" in made.segment("concept_introduction").narration
    assert "Photosynthesis" in made.segment("concept_introduction").key_concepts
    assert made.key_terms_count >= 5


async def test_taking_a_fact_out_writes_only_its_segments_again():
    wanted = await order("great_fire", total_s=90)
    before = (await narrated(wanted)).narration
    gone = wanted.facts[3]
    fewer = Order(
        wanted.topic, tuple(f for f in wanted.facts if f != gone), 90, 4.5, wanted.interests, "english"
    )
    after = await narrated(fewer, earlier=before)
    assert list(after.changed) == before.says(gone.id)
    for segment in before.segments:
        same = after.narration.segment(segment.id).model_dump_json() == segment.model_dump_json()
        assert same == (segment.id not in after.changed)
    assert unsaid(after.narration, [fact.id for fact in fewer.facts]) == ([], [])


async def test_one_segment_is_written_again_and_a_new_fact_finds_its_place():
    wanted = await order("great_fire", total_s=120)
    before = (await narrated(wanted)).narration
    again = await narrated(wanted, earlier=before, only=["conclusion"])
    assert again.changed == ("conclusion",)
    more = Order(
        wanted.topic, (*wanted.facts, added("Pudding", "The lane sold pudding.")), 120, 4.5, (), "english"
    )
    told = await narrated(more, earlier=before)
    assert len(told.changed) == 1
    assert "pudding" in told.narration.segment(told.changed[0]).narration.casefold()
    unchanged = await narrated(wanted, earlier=before)
    assert (unchanged.narration, unchanged.changed) == (before, ())


@pytest.mark.slow
async def test_any_facts_of_any_length_fit_or_are_refused():
    """B-R8, B-R9: drawn orders."""
    draw = random.Random(9)
    stock = (await order("struggle_for_existence")).facts + (await order("great_fire")).facts
    for _ in range(15):
        facts = tuple(draw.sample(stock, draw.randint(1, 15)))
        total_s = draw.choice([15, 16, 23, 37, 60, 61, 90, 200, 600])
        wanted = Order("A topic", facts, total_s, draw.choice([2.5, 4.5, 8.5]), ("chess",), "english")
        try:
            made = (await narrated(wanted)).narration
        except Invalid as refused:
            assert "cannot even be named" in refused.message  # noqa: PT017 -- some may be refused, none may fail
            continue
        assert unsaid(made, [fact.id for fact in facts]) == ([], [])
        assert all(length(s.narration, "english") <= int(s.duration * 22 // 10) for s in made.segments)


async def test_a_language_without_a_table_is_narrated_in_the_materials_words_alone():
    facts = (
        added("Słońce", "Słońce jest gwiazdą. Słońce ogrzewa Ziemię."),
        added("Księżyc", "Księżyc krąży wokół Ziemi."),
    )
    made = (await narrated(Order("Niebo", facts, 60, 4.5, ("piłka",), "polish"))).narration
    said = " ".join(segment.narration for segment in made.segments)
    assert "Słońce jest gwiazdą." in said
    assert words(said) <= {"niebo", "słońce", "jest", "gwiazdą", "ogrzewa", "ziemię", "księżyc", "krąży"} | {
        "wokół", "ziemi", "piłka",
    }  # fmt: skip
    assert made.readability is None


@pytest.mark.parametrize("language", ["english", "spanish", "german", "french", "chinese", "thai", "polish"])
async def test_every_table_of_phrases_makes_whole_narrations(language):
    for count, interests in ((1, ()), (2, ("Lego",)), (5, ("Lego", "ajedrez"))):
        facts = tuple(added(f"Nota {i}", f"Nota {i} suena {i} segundos.") for i in range(count))
        made = (await narrated(Order("Notas", facts, 60, 4.5, interests, language))).narration
        assert unsaid(made, [fact.id for fact in facts]) == ([], [])
        said = made.model_dump_json()
        assert all(name not in said for name in ("{topic}", "{concepts}", "{interests}", "{fact}"))
        assert all(one in said for one in interests)
        assert all(segment.narration and segment.visual_guidance for segment in made.segments)
