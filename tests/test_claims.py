"""Figures, dates and names that a text claims, and the texts that support them (B22, B-R10)."""

import pytest

from callsheet.state.claims import content, figures, names, number, numbers, share, states, unsupported_claims
from callsheet.state.number_words import cardinal, digit_tokens, spelled_numbers

FIRE = (
    "The Great Fire of London began on 2 September 1666 in a bakery in Pudding Lane.",
    "King Charles II had houses pulled down. It destroyed 13,200 houses in four days.",
)


@pytest.mark.parametrize(
    ("sentence", "wrong"),
    [
        ("King Charles lit the fire himself in 1712.", ["1712"]),
        ("It began on 3 September 1666.", ["3"]),
        ("It began on 2 October 1666.", ["October"]),
        ("Then Mozart came to London.", ["Mozart"]),
        ("More than fifty thousand houses burned.", ["50,000"]),
        ("About 1.5 million houses burned.", ["1.5", "1,500,000"]),
        ("In 2 September 1666, London’s bakery burned.", []),
        ("13.200 houses, or 13 200, or thirteen thousand two hundred.", []),
        ("It took 4 days, and that is two main ideas out of a hundred!", []),
        ("It was SO hot! He said: Run! — And I’m sure you would.", []),
    ],
)
def test_figures_dates_and_names_that_no_fact_has_are_named(sentence, wrong):
    """B22."""
    assert unsupported_claims(sentence, FIRE) == wrong


@pytest.mark.parametrize(
    ("sentence", "fact"),
    [
        ("In 1.5 million years", "1,500,000 years"),
        ("In 2026", "๒๐๒๖"),
        ("In March 2026", "2026-03-01"),
        ("On 1 March 2026", "01.03.2026"),
        ("It costs 1,5 euro", "1.5"),
        ("384 400 km", "384,400 km"),
        ("384,400 km", "384 400 km"),
        ("twelve hundred", "1200"),
        ("in nineteen sixty-nine", "1969"),
        ("The European one", "Europe"),
        ("The Earth’s crust", "the earth"),
    ],
)
def test_another_spelling_of_a_figure_or_name_is_the_same(sentence, fact):
    assert unsupported_claims(sentence, [fact]) == []


def test_names_are_inflected_in_other_languages():
    assert unsupported_claims("Wtedy w Londynie", ["Londyn jest duży"], "polish") == []
    assert unsupported_claims("Wtedy w Paryżu", ["Londyn jest duży"], "polish") == ["Paryżu"]
    assert unsupported_claims("Pożar wybuchł w 1712 roku", ["1666"], "polish") == ["1712"]


def test_a_capital_letter_shows_a_name_only_where_it_does_not_begin_something():
    assert names("Charles met Anna-Maria. Then he — Well, “Nobody” knew I met NASA twice: Run") == [
        "Anna",
        "Maria",
        "NASA",
    ]
    assert names("Die Sonne scheint im Sommer", "german") == []
    assert names("我喜欢伦敦") == []


def test_a_short_word_is_no_form_of_a_longer_name():
    assert unsupported_claims("They live in Canada", ["they can swim"]) == ["Canada"]
    assert unsupported_claims("They met Marshallian", ["mars"]) == ["Marshallian"]


def test_numbers_are_read_as_english():
    assert (number("1,200.5"), number("1.2.3")) == (1200.5, None)
    assert (figures("1,200 of 1.2.3"), numbers("1,200 of 1.2.3")) == (["1,200", "1.2.3"], {1200.0})


def test_content_is_compared_by_stems_pairs_of_characters_and_amounts():
    assert content("The bees’ 12 flowers and 3 trees") == {"bee", "12", "flowe", "tree"}
    assert content("伦敦大火") == {"伦敦", "敦大", "大火"}
    assert share("Plants make sugar", "A plant makes oxygen.") == 0.5
    assert share("It is.", "A plant") == 1.0


@pytest.mark.parametrize(
    ("sentence", "concept", "details", "stated"),
    [
        ("Hello there.", "Bees", "Bees visit flowers.", False),
        ("Bees are great.", "Bees", "They visit flowers.", True),
        ("They visit all flowers.", "Bees", "They visit flowers.", True),
        ("I like flowers.", "Bees", "They visit flowers.", False),
        ("I like flowers.", "A", "Flowers.", True),
        ("Well, well.", "A", "It is.", True),
        ("Well, well.", "Bees", "It is.", False),
    ],
)
def test_a_sentence_states_a_fact_if_it_has_its_concept_or_two_words_of_it(
    sentence, concept, details, stated
):
    """B22."""
    assert states(sentence, concept, details) is stated


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("twenty-five", [{25}]),
        ("1.5 million people", [{1.5e6}]),
        ("two hundred and six bones", [{206}]),
        ("nineteen sixty-nine", [{1969, 19, 69}]),
        ("a hundred and", [{100}]),
        ("one million two hundred thousand", [{1.2e6}]),
        ("one and two, three", [{1}, {2}, {3}]),
        ("he and a she, 1666 and 1.2.3 thousand", [{1666}, {1000}]),
        ("zero", [{0}]),
        ("", []),
    ],
)
def test_spelled_numbers_have_their_values(text, values):
    assert [set(each) for each in spelled_numbers(text)] == values


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Call oh eight hundred, double four five!", "call 0 800 44 5"),
        ("S-A-V-E twenty", "s a v e 20"),
        ("0800 ๑๒", "0800 12"),
        ("four dollars and ninety-nine cents", "4 dollars and 99 cents"),
        ("a double espresso for two and me", "a double espresso for 2 me"),
        ("triple zero", "000"),
        ("", ""),
    ],
)
def test_a_text_has_its_numbers_in_digits(text, tokens):
    assert " ".join(digit_tokens(text)) == tokens


def test_an_ordinal_has_its_cardinal():
    words = ("Fifteenth".casefold(), "twenty-first,", "twentieth", "third", "bread")
    assert [cardinal(word) for word in words] == ["fifteen", "twenty-one", "twenty", "three", "bread"]
