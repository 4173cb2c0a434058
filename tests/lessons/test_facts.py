"""Facts and the passages of the material that prove them (B6, B-R10)."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.state.lessons.facts import Fact, distinct, fact_id, find_passage, new_fact, shortfall

TEXT = "A candle\nhas a wick. “It burns — slowly,” he said.  STOMATA are holes."


@pytest.mark.parametrize(
    ("quote", "expected"),
    [
        ("has a wick.", "has a wick."),
        ("A candle has a wick.", "A candle\nhas a wick."),
        ('"It burns - slowly," he said. stomata', "“It burns — slowly,” he said.  STOMATA"),
    ],
)
def test_the_passage_of_a_quote_has_the_spelling_of_the_source(quote, expected):
    passage = find_passage(quote, TEXT)
    assert passage is not None
    assert passage.quote == expected == TEXT[passage.start : passage.end]


@pytest.mark.parametrize(
    ("quote", "source", "expected"),
    [
        ('"Er ging."', "Er sagte: „Er ging.“ Ja.", "„Er ging.“"),
        ('Il a dit : "Abattez !" et', "Il a dit : « Abattez ! » et", "Il a dit : « Abattez ! » et"),
        ("Wait... it burns", "Wait… it burns", "Wait… it burns"),
        ("植物吸收水分.", "植物吸收水分。叶子", "植物吸收水分。"),
        (
            "The Great Fire began in 1666.",
            "The **Great Fire** began\nin *1666*. So",
            "The **Great Fire** began\nin *1666*",
        ),
        (
            "See the moon now",
            "See [the moon](https://a.example/moon) now",
            "See [the moon](https://a.example/moon) now",
        ),
        (
            "It began in 1666. It burned.",
            "It began in 1666.[1] It burned.[b]",
            "It began in 1666.[1] It burned.",
        ),
        ("It began in 1666.[2]", "It began in 1666. It", "It began in 1666."),
        ("Roots take up water.", "Roots take up water and", "Roots take up water"),
        ("Roots take up water.", "Roots take up water", "Roots take up water"),
        ('"Roots take up water."', "Roots take up water. So", "Roots take up water."),
        ("Earth | 1 | Mars | 2", "| Earth | 1 |\n| Mars | 2 |", "Earth | 1 |\n| Mars | 2"),
        ("Earth 1, Mars 2", "Earth\n\n1\n\nMars\n\n2", "Earth\n\n1\n\nMars\n\n2"),
        ("H2O is water", "H₂O is water", "H₂O is water"),
        ("It's a dog's life", "It`s a dog´s life", "It`s a dog´s life"),
        ("cafe\u0301 noir", "Le Café noir.", "Café noir"),
    ],
)
def test_a_quote_is_compared_by_its_letters_and_digits(quote, source, expected):
    """B6."""
    passage = find_passage(quote, source)
    assert passage is not None
    assert passage.quote == expected == source[passage.start : passage.end]


@pytest.mark.parametrize("quote", ["has two wicks", "", "  ", "…", "wick holes", "A candle … a wick"])
def test_a_quote_that_is_not_in_the_source_has_no_passage(quote):
    assert find_passage(quote, TEXT) is None


@settings(max_examples=50)
@given(st.text(min_size=1, max_size=60), st.data())
@pytest.mark.slow
def test_every_slice_of_any_text_is_its_own_passage(text, data):
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    passage = find_passage(text[start:end], text)
    if text[start:end].strip():
        assert passage is not None
        assert passage.quote == text[passage.start : passage.end] == text[start:end]
    else:
        assert passage is None


def test_facts_of_the_same_words_have_the_same_id():
    """B51."""
    assert fact_id("Wick", "A candle has a wick.") == fact_id("wick", "A  candle\nhas a wick.")
    assert fact_id("Wick", "A candle has a wick.") != fact_id("Wax", "A candle has a wick.")
    assert new_fact("Wick", "It burns.").id == new_fact("Wick", "It burns.").id


def test_a_fact_is_listed_once_by_its_id():
    wick, wax = new_fact("Wick", "It burns."), new_fact("Wax", "It melts.")
    assert distinct([wick, wax, wick]) == [wick, wax]


def test_fewer_than_five_facts_come_with_a_warning():
    """B-R10."""
    facts = [new_fact(f"Thing {i}", "It is.") for i in range(5)]
    assert shortfall(facts) == []
    assert "4 facts, fewer than 5" in shortfall(facts[:4])[0]
    assert "1 fact," in shortfall(facts[:1])[0]
    assert "no fact," in shortfall([])[0]


def test_a_confidence_above_one_is_refused():
    """B6."""
    with pytest.raises(ValueError, match="less than or equal to 1"):
        Fact(id="f", concept="c", details="d", confidence=1.1)


def test_the_search_for_a_quote_of_one_repeated_word_takes_under_two_seconds():
    start = time.process_time()
    assert find_passage("a  " * 8_000 + "b", "a " * 32_000) is None
    assert time.process_time() - start < 2
