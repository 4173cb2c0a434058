"""Syllables and school grade of English prose."""

import pytest

from callsheet.state.lessons.student import grade, reading_style, syllables

WORDS_BY_SYLLABLES = {
    1: "the cat holes makes pulled laughed called square plant through like cheese",
    2: "water apple table hundred houses doubled people safest going mayor sometimes closely movement into",
    3: "animal elephant energy nobody everyone created violin oxygen creating",
    4: "experiment necessary vegetation biology",
}
WORDS = [(word, count) for count, words in WORDS_BY_SYLLABLES.items() for word in words.split()]


@pytest.mark.parametrize(("word", "count"), WORDS)
def test_syllables_are_counted_by_spelling(word, count):
    assert syllables(word) == count


def test_short_words_and_sentences_have_a_low_grade_and_long_words_a_high_one():
    assert grade("The cat sat on the mat. It was a good cat.") < 1
    assert grade("Photosynthesis necessarily requires considerable electromagnetic energy.") > 15


def test_the_grade_follows_the_flesch_kincaid_formula():
    # 13 words, 2 sentences, 15 syllables.
    text = "The sun is a very big star. Plants need sunlight to make food."
    assert grade(text) == round(0.39 * 13 / 2 + 11.8 * 15 / 13 - 15.59, 1)


def test_a_decimal_point_ends_no_sentence_and_text_without_words_has_grade_zero():
    assert grade("It is 3.5 km long") == grade("It is 3,5 km long")
    assert grade("") == 0
    assert grade("12 345") == 0


def test_each_level_has_a_description_of_its_own():
    """B14, B15."""
    styles = [reading_style(level) for level in (2.5, 3.5, 4.5, 6.5, 8.5)]
    assert len(set(styles)) == 5
    assert "picture book" in styles[0]
    assert "abstract" in styles[4]
