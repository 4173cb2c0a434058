"""What a brief wants spoken word for word, and what of it a script lacks (A51)."""

import pytest

from callsheet.state.ads.mandatory import MAX_LINES, MandatoryLine, compare, mandatory_lines


def lines(brief: str) -> list[str]:
    return [str(line) for line in mandatory_lines(brief)]


@pytest.mark.parametrize(
    ("brief", "wanted"),
    [
        ("Call 0800 123 456 now", ["phone number 0800 123 456"]),
        ("Tel: +44 (0)20 7946 0958.", ["phone number +44 (0)20 7946 0958"]),
        ("dial 116 117 or 1-800-FLOWERS", ["phone number 116 117", "phone number 1-800-FLOWERS"]),
        ("See www.bikes.example/rent, or brief.pdf.", ["address www.bikes.example/rent"]),
        ("info@bikes.example", ["address info@bikes.example"]),
        ("From $4.99, 20% off, 60 zł", ["price $4.99", "price 20%", "price 60 zł"]),
        ("89 euros", ["price 89 euros"]),
        ("Until 15 March, June 3rd, 2026-04-01, 1/4/2026",
         ["date 15 March", "date June 3rd", "date 2026-04-01", "date 1/4/2026"]),
        ("Use code SAVE20 at the till; kod: “LATO-7”", ["code SAVE20", "code LATO-7"]),
        ("A gym.\nLegal: New customers only. Deposit required. Tone: happy",
         ["legal line “New customers only.”", "legal line “Deposit required.”"]),
        ("Mandatory line:\nAges 18 and over", ["legal line “Ages 18 and over”"]),
        ('Must say: "Ride more". T&Cs apply.', ["exact words “Ride more”", "legal line “T&Cs apply.”"]),
        ("Disclaimer: !!!", []),
        ("A 30s ad for a gym, open since 1990, 2010-2020 2.5 km away, code word", []),
        ("1.000.000 zł", ["price 1.000.000 zł"]),
    ],
)  # fmt: skip
def test_what_a_brief_wants_spoken_is_found_by_its_form(brief, wanted):
    assert lines(brief) == wanted


def test_a_line_is_listed_once_and_there_is_a_limit():
    assert lines("20% off! Only 20% today.") == ["price 20%"]
    assert len(lines(" ".join(f"{n}%" for n in range(50)))) == MAX_LINES


SAME = [
    ("phone number", "0800 123 456", "Call oh eight hundred, one two three, four five six."),
    ("phone number", "0800 123 456", "Call 0 8 0 0, 1 2 3, 4 5 6"),
    ("phone number", "+44 20 7946 0958", "oh two oh, seven nine four six, oh nine five eight"),
    ("phone number", "1-800-FLOWERS", "one eight hundred FLOWERS"),
    ("price", "$4.99", "only four ninety-nine"),
    ("price", "$4.99", "four dollars and ninety-nine cents"),
    ("price", "$20.00", "twenty dollars"),
    ("price", "20%", "twenty percent"),
    ("price", "1,250 dollars", "twelve hundred fifty dollars"),
    ("date", "15 March", "until March fifteenth"),
    ("date", "2026-04-21", "until the twenty-first of April"),
    ("date", "15.03.2026", "until 15 March"),
    ("date", "3/15/2026", "until the 15th of March"),
    ("date", "2026-04-01", "bis 1. 4."),
    ("address", "https://www.bikes.example/rent", "Bikes dot example slash rent"),
    ("address", "onecoffee.example", "One Coffee dot example"),
    ("code", "SAVE20", "Use code save twenty"),
    ("code", "SAVE20", "S-A-V-E-2-0"),
    ("legal line", "Offer valid for new customers only.", "This offer is only valid for new customers."),
    ("exact words", "Ride more, worry less", "ride more — worry less!"),
]


@pytest.mark.parametrize(("kind", "text", "script"), SAME)
def test_a_line_may_be_spoken_in_several_ways(kind, text, script):
    assert compare([MandatoryLine(kind, text)], script, "english") == ((), ())


@pytest.mark.parametrize(("kind", "text"), list(dict.fromkeys((kind, text) for kind, text, _ in SAME)))
def test_a_line_that_is_not_spoken_is_missing(kind, text):
    script = "Hello, four of you! Come along on the 30th: a dot, and 12 or one hundred flowers until May."
    line = MandatoryLine(kind, text)
    assert compare([line], script, "english").missing == (line,)


def test_the_digits_of_two_numbers_are_not_one():
    line = MandatoryLine("price", "$499")
    assert compare([line], "4 friends came along one day with 99 balloons", "english").missing == (line,)


def test_what_may_be_said_in_another_language_is_to_be_checked():
    price, legal = (
        MandatoryLine("price", "20%"),
        MandatoryLine("legal line", "This is for you and your friends."),
    )
    german = MandatoryLine("legal line", "Gilt nur für neue Kunden und nicht am Sonntag.")
    exact = MandatoryLine("exact words", "Ride more")
    both = compare([price, legal, german, exact], "Zwanzig Prozent für alle", "german")
    assert both == ((german, exact), (price, legal))
    assert compare([german], "Twenty percent", "english") == ((), (german,))
