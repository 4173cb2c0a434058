"""Figures, dates and names in a text, and the texts that support them (B22, B-R10)."""

import time

import pytest

from callsheet.state.claims import Evidence, content, share, states, unproven_claims
from callsheet.state.figures import (
    chinese_numbers,
    digit_tokens,
    figures,
    has_number,
    number,
    number_tokens,
    numbers,
    spelled_numbers,
)
from callsheet.state.names import first_names, names

FIRE = (
    "The Great Fire of London began on 2 September 1666 in a bakery in Pudding Lane.",
    "King Charles II had houses pulled down. It destroyed 13,200 houses in four days.",
)
MOON = "The Moon is 384,400 km away. In 1969 Neil Armstrong walked on it."
ROME = "Rome invaded Britain in 43 AD."


def wrong_and_doubtful(sentence: str, *facts: str, language: str = "english") -> tuple[list[str], list[str]]:
    """Return the wrong and the doubtful claims of a sentence."""
    result = unproven_claims(sentence, Evidence(facts, language=language))
    return [*result.wrong], [*result.doubtful]


@pytest.mark.parametrize(
    ("sentence", "wrong"),
    [
        ("King Charles lit the fire himself in 1712.", ["1712"]),
        ("It began on 3 September 1666.", ["3"]),
        ("It began on 2 October 1666.", ["October"]),
        ("October 1666 saw a fire.", ["October"]),
        ("Then Mozart came to London.", ["Mozart"]),
        ("Imagine London, where Mozart came.", ["Mozart"]),
        ("It looked like King Charles met Mozart.", ["Mozart"]),
        ("That is what it was like. In Paris it burned.", ["Paris"]),
        ("More than fifty thousand houses burned.", ["50,000"]),
        ("Nearly 20,000 houses burned.", ["20,000"]),
        ("About 1.5 million houses burned.", ["1.5", "1,500,000"]),
        ("In the 1700s, or the 18th century, or about 200 years ago.", ["1700", "18", "200"]),
        ("In the sixteenth century, in the fifties.", ["16", "50"]),
        ("In 2 September 1666, London’s bakery burned.", []),
        ("13.200 houses, or 13 200, or thirteen thousand two hundred.", []),
        ("It took 4 days, and that is two main ideas out of a hundred!", []),
        ("It was SO hot! He said: Run! — And I’m sure you would.", []),
    ],
)
def test_figures_dates_and_names_without_a_fact_are_wrong(sentence, wrong):
    """B22."""
    assert wrong_and_doubtful(sentence, *FIRE) == (wrong, [])


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
        ("It is the 3rd planet, number 3", "Earth is the third planet."),
        ("The seventeenth of May", "17 May"),
        ("The European one", "Europe"),
        ("The Earth’s crust", "the earth"),
        ("It is H2O, a vitamin B12", "Water is made of hydrogen."),
        ("It is H₂O", "H2O"),
    ],
)
def test_another_spelling_of_a_figure_or_name_is_supported(sentence, fact):
    assert wrong_and_doubtful(sentence, fact) == ([], [])


@pytest.mark.parametrize(
    ("sentence", "fact"),
    [
        ("It is nearly 400,000 km away", MOON),
        ("It is nearly four hundred thousand km, or 380,000 km away", MOON),
        ("It weighs almost 50 kg, or more than a 40", "It weighs 48 kg."),
        ("It is over 4 billion years old", "It is 4.5 billion years old."),
        ("In the 1960s, the nineteen-sixties, the ’60s, the sixties", MOON),
        ("In the 1900s, the 20th century, the twentieth century", MOON),
        ("He walked there more than fifty years ago, over 50 years ago", MOON),
        ("That was nearly 2,000 years ago", ROME),
    ],
)
def test_a_rounded_number_or_a_period_is_supported(sentence, fact):
    """B22."""
    assert wrong_and_doubtful(sentence, fact) == ([], [])


def test_years_and_small_numbers_are_not_rounded():
    assert wrong_and_doubtful("It was in 1700", "1666") == (["1700"], [])
    assert wrong_and_doubtful("It weighs 50 kg", "48 kg") == (["50"], [])
    assert wrong_and_doubtful("It weighs about 1 kg", "0.5 kg") == (["1"], [])


@pytest.mark.parametrize(
    ("sentence", "fact"),
    [
        ("So the British and the Britons fled", ROME),
        ("Then the Romans came", ROME),
        ("So the French and the Spanish king fled", "The kings of France and of Spain fled."),
        ("Now the Egyptians built it", "It was built in Egypt."),
        ("So the Dutch sailed", "Ships from the Netherlands sailed."),
        ("Just like Simone Biles, you jump", "Hearts pump."),
        ("It is like a Lionel Messi, or a hero", "Hearts pump."),
        ("Imagine you are in Minecraft", "Hearts pump."),
        ("Have you seen it, Dear Explorer", "Hearts pump."),
        ("Hello, Explorers", "Hearts pump."),
        ("That is Mother Nature at work", "Hearts pump."),
        ("It weighs as much as a bus, like 30 penguins", "Hearts pump."),
        ("Picture 20 football fields", "Hearts pump."),
    ],
)
def test_nationalities_comparisons_and_greetings_are_not_claims(sentence, fact):
    """B14, B22."""
    assert wrong_and_doubtful(sentence, fact) == ([], [])


@pytest.mark.parametrize(
    ("sentence", "doubtful"),
    [
        ("We call it DNA", ["DNA"]),
        ("Plants take in CO2", ["CO"]),
        ("On Monday, look at it", ["Monday"]),
        ("Napoleon had houses pulled down.", ["Napoleon"]),
        ("Napoleon’s men ran.", ["Napoleon"]),
        ("Paris burned in 1666.", ["Paris"]),
        ("London burned in 1666.", []),
        ("Flames leaped up. Slowly moved the king. Everyone ran. Houses burned.", []),
    ],
)
def test_abbreviations_weekdays_and_first_words_are_only_doubtful(sentence, doubtful):
    """B22."""
    assert wrong_and_doubtful(sentence, *FIRE) == ([], doubtful)


def test_inflected_names_in_other_languages_are_supported():
    assert wrong_and_doubtful("Wtedy w Londynie", "Londyn jest duży", language="polish") == ([], [])
    assert wrong_and_doubtful("Wtedy w Łodzi", "Łódź jest duża", language="polish") == ([], [])
    assert wrong_and_doubtful("Wtedy w Paryżu", "Londyn jest duży", language="polish") == (["Paryżu"], [])
    assert wrong_and_doubtful("Jesteś jak Lionel Messi", "Londyn", language="polish") == ([], [])


@pytest.mark.parametrize(
    ("sentence", "fact", "language", "expected"),
    [
        ("Pożar wybuchł w 1712 roku", "1666", "polish", (["1712"], [])),
        (
            "Sie hat 8 Beine und 206 Knochen",
            "Acht Beine, zweihundertsechs Knochen",
            "german",
            ([], ["8", "206"]),
        ),
        ("Das sind 208 Knochen", "Es sind 206 Knochen", "german", (["208"], [])),
        ("Im 17. Jahrhundert", "Im Jahr 1666", "german", ([], ["17"])),
        ("150 Millionen km", "150.000.000 km", "german", ([], [])),
        ("Fast 400.000 km", "384.400 km", "german", ([], [])),
        ("大约38万公里", "384400公里", "chinese", ([], [])),
        ("1666年有206块", "一六六六年有二百零六块", "chinese", ([], [])),
        ("W XVII wieku", "1666", "polish", ([], ["XVII"])),
    ],
)
def test_numbers_spelled_in_words_in_other_languages_are_doubtful(sentence, fact, language, expected):
    """B-R10, B22: if they are small or the fact has no figures; a year and a large number are wrong."""
    assert wrong_and_doubtful(sentence, fact, language=language) == expected


@pytest.mark.slow
def test_many_long_numbers_and_names_are_compared_in_seconds():
    """X7: a passage may be as long as a material."""
    many_figures = " ".join(str(at) for at in range(1000, 4000))
    people = " ".join(f"Na{chr(97 + at % 26)}{'x' * (at % 97)}" for at in range(2000))
    began = time.process_time()
    assert wrong_and_doubtful(many_figures, many_figures.replace(" ", "5 "))[0][0] == "1000"
    assert wrong_and_doubtful(people, people.replace("x", "y"))[1] == []
    assert wrong_and_doubtful("1" * 400, "9" * 400, "一" * 4000) == ([], [])
    assert time.process_time() - began < 6


def test_a_number_without_any_fact_is_wrong_in_every_language():
    """B22."""
    assert wrong_and_doubtful("Es sind 206 Knochen", language="german") == (["206"], [])


def test_only_numbers_are_compared_with_a_text_in_another_language():
    """B22."""
    evidence = Evidence(("Man hat 206 Knochen, in Rom.",), same_language=False)
    assert unproven_claims("You have 206 bones in Paris.", evidence).wrong == ()
    assert unproven_claims("You have 1,712 bones.", evidence).wrong == ("1,712",)


def test_some_texts_support_only_names():
    """B22: a number must be in the facts of the sentence."""
    evidence = Evidence(("It burned.",), named=("King Charles came in 1666.",))
    assert unproven_claims("Then Charles came in 1666.", evidence).wrong == ("1666",)


def test_a_capitalised_word_is_a_name_unless_it_begins_a_sentence():
    assert names("Charles met Anna-Maria. Then he — Well, “Nobody” knew I met NASA twice: Run") == [
        "Anna",
        "Maria",
        "NASA",
    ]
    assert names("Die Sonne scheint im Sommer", "german") == []
    assert names("我喜欢伦敦") == names("1666") == []
    assert first_names("Charles met Anna. Napoleon had it.") == ["Napoleon"]


def test_a_short_word_does_not_support_a_longer_name():
    assert wrong_and_doubtful("They live in Canada", "they can swim") == (["Canada"], [])
    assert wrong_and_doubtful("They met Marshallian", "mars") == (["Marshallian"], [])


def test_numbers_are_read_in_english_notation():
    assert (number("1,200.5"), number("1.2.3")) == (1200.5, None)
    assert (figures("1,200 of 1.2.3"), numbers("1,200 of 1.2.3")) == (["1,200", "1.2.3"], {1200.0})


def test_a_number_is_recognised_in_figures_and_words():
    assert has_number("on the twenty-first", "21")
    assert not has_number("about 400", "384")


def test_content_is_stems_character_pairs_and_numbers():
    assert content("The bees’ 12 flowers and 3 trees") == {"bee", "12", "flowe", "tree"}
    assert content("伦敦大火") == {"伦敦", "敦大", "大火"}
    assert share("Plants make sugar", "A plant makes oxygen.") == 0.5
    assert share("It is.", "A plant") == 1.0


@pytest.mark.parametrize(
    ("sentence", "concept", "details", "expected"),
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
def test_a_sentence_states_a_fact_if_it_has_its_concept_or_two_of_its_words(
    sentence, concept, details, expected
):
    """B22."""
    assert states(sentence, concept, details) is expected


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
def test_spelled_numbers_are_parsed(text, values):
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
def test_spelled_numbers_in_a_text_are_converted_to_digits(text, tokens):
    assert " ".join(digit_tokens(text)) == tokens


def test_ordinals_and_decades_are_parsed_as_numbers():
    assert number_tokens("The twenty-first, in the sixties") == [
        "the",
        frozenset({21.0}),
        ",",
        "in",
        "the",
        frozenset({60.0}),
        "s",
        ".",
    ]


@pytest.mark.parametrize(
    ("numeral", "value"),
    [
        ("二百零六", 206),
        ("一六六六", 1666),
        ("十二", 12),
        ("三万八千", 38_000),
        ("一亿二千万", 1.2e8),
        ("万", 1e4),
    ],
)
def test_chinese_numerals_are_parsed(numeral, value):
    assert chinese_numbers(f"有{numeral}个") == {value}
