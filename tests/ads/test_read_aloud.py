"""Signs as they are read aloud, and the time that takes (A-R5)."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.state.ads.timeline import speaking_time_s
from callsheet.state.languages import LANGUAGES, Language
from callsheet.state.lessons.narration import length
from callsheet.state.number_words import cardinal_words
from callsheet.state.read_aloud import text_aloud
from callsheet.state.sentences import split_sentences

PAIRS = {
    "english": {
        "BMW, DVD, HTML.": "bee em double you, dee vee dee, aitch tee em el",
        "only $3.50": "only three dollars fifty",
        "from £1,299": "from one thousand two hundred ninety nine pounds",
        "12.5% APR": "twelve point five percent ay pee are",
        "since 1871": "since eighteen seventy one",
        "in 2024": "in twenty twenty four",
        "call 0800 123 456": "call oh eight hundred one two three four five six",
        "call +44 20 7946 0958": "call plus four four two oh seven nine four six oh nine five eight",
        "10,000,000 people": "ten million people",
        "10.000.000": "ten million",
        "open 9-17": "open nine to seventeen",
        "at 7:30": "at seven thirty",
        "www.acme.com": "double you double you double you dot acme dot com",
        "info@acme.com": "info at acme dot com",
        "the 21st": "the twenty first",
        "5 km/h": "five kilometres per hour",
        "Johnson & Sons": "Johnson and Sons",
        "2001-2005": "two thousand one to two thousand five",
    },
    "german": {
        "nur 3,50 €": "nur drei Euro fünfzig",
        "12,5 % Rabatt": "zwölf Komma fünf Prozent Rabatt",
        "seit 1871": "seit achtzehnhunderteinundsiebzig",
        "10.000.000 Kunden": "zehn Millionen Kunden",
        "19:30 Uhr": "neunzehn Uhr dreißig",
        "030 1234567": "null drei null eins zwei drei vier fünf sechs sieben",
        "BMW": "be em we",
        "2,5 kg": "zwei Komma fünf Kilogramm",
    },
    "spanish": {
        "solo 3,50 €": "solo tres euros cincuenta",
        "25 % menos": "veinticinco por ciento menos",
        "en 1999": "en mil novecientos noventa y nueve",
        "1.000.000 de clientes": "un millón de clientes",
        "120 km/h": "ciento veinte kilómetros por hora",
        "900 123 456": "novecientos millones ciento veintitrés mil cuatrocientos cincuenta y seis",
        "31 días": "treinta y un días",
    },
    "french": {
        "99,90 €": "quatre-vingt dix-neuf euros quatre-vingt dix",
        "75 %": "soixante quinze pour cent",
        "en 1789": "en mille sept cent quatre-vingt neuf",
        "19:30": "dix-neuf heures trente",
        "1 500 km": "mille cinq cents kilomètres",
        "01 23 45 67 89": "zéro un deux trois quatre cinq six sept huit neuf",
        "SNCF": "esse enne cé effe",
    },
    "polish": {
        "49,99 zł": "czterdzieści dziewięć złotych dziewięćdziesiąt dziewięć",
        "25%": "dwadzieścia pięć procent",
        "w 1999": "w tysiąc dziewięćset dziewięćdziesiąt dziewięć",
        "10.000.000": "dziesięć milionów",
        "PKP": "pe ka pe",
        "2,5 kg": "dwa przecinek pięć kilogramów",
    },
}
CASES = [(language, signs, words) for language, pairs in PAIRS.items() for signs, words in pairs.items()]


def test_there_are_46_pairs() -> None:
    assert len(CASES) == 46


@pytest.mark.parametrize(("language", "signs", "words"), CASES)
def test_signs_take_the_time_of_their_words(language: str, signs: str, words: str) -> None:
    """Within a fifth, in an ad and in a lesson."""
    assert speaking_time_s(signs, language) == pytest.approx(speaking_time_s(words, language), rel=0.2)
    assert length(signs, language) == pytest.approx(length(words, language), rel=0.2)


def test_initialisms_are_spelled_unless_they_are_words_or_shouted() -> None:
    """Ten letters at two and a half words a second are four seconds."""
    assert speaking_time_s("BMW, DVD, HTML.", "english") == pytest.approx(4.0, rel=0.2)
    assert text_aloud("NASA likes the USA", "english").split() == ["NASA", "likes", "the", "U", "S", "A"]
    assert text_aloud("Come and BUY NOW", "english") == "Come and BUY NOW"
    assert text_aloud("FREE! NOW! OK.", "english") == "FREE! NOW! OK."


@pytest.mark.parametrize(
    ("language", "signs", "aloud"),
    [
        ("english", "7:00 or 7:05", "seven o'clock or seven zero five"),
        ("english", "2005, 1900, 1905", "two thousand five , nineteen hundred , nineteen oh five"),
        ("english", "http://a.io/b-c 1.25", "a dot io slash b c one point two five"),
        (
            "english",
            "1234567890123456",
            "one two three four five six seven eight nine zero",
        ),
        ("german", "1.500 und 1.5", "eintausendfünfhundert und eins Komma fünf"),
        ("german", "1.001.001", "ein Millionen eintausendeins"),
        ("german", "1900", "neunzehnhundert"),
        ("german", "20, 121", "zwanzig , einhunderteinundzwanzig"),
        ("spanish", "100 y 101", "cien y ciento uno"),
        ("french", "100, 200, 20", "cent , deux cent , vingt"),
        ("polish", "1000 i 20 i 500", "tysiąc i dwadzieścia i pięćset"),
        ("klingon", "5 & 7", "five and seven"),
        ("thai", "5G BBC 100", "5G B B C 100"),
    ],
)
def test_numbers_are_read_in_words_of_the_language(language: str, signs: str, aloud: str) -> None:
    assert " ".join(text_aloud(signs, language).split()).startswith(aloud)


def test_zero_is_a_word() -> None:
    assert cardinal_words(0, "english"[:2]) == "zero"


@pytest.mark.parametrize("part", ["1 ", "1.", "a.", "A", "0 ", "a@", "+1", "1-", "1,000,", "$", "%"])
def test_reading_takes_time_in_proportion_to_the_text(part: str) -> None:
    began_s = time.process_time()
    text_aloud(part * 30_000, "english")
    assert time.process_time() - began_s < 4


SIGNS = "0123456789.,:-–/%$€zł @&+#_aBUW\u0660\u00b2h km\u00a0²°?ÀßสU!…«»\"'()。！"


@given(st.text(SIGNS, max_size=60), st.sampled_from(LANGUAGES))
def test_every_text_can_be_read_aloud_and_split(text: str, language: Language) -> None:
    assert speaking_time_s(text, language.name) >= 0
    assert length(text, language.name) >= 0
    assert "".join("".join(split_sentences(text, language.name)).split()) == "".join(text.split())
