"""The lines that a brief wants spoken word for word, and those that a script lacks (A51)."""

import re

import pytest

from callsheet.state.ads.mandatory import MAX_LINES, MandatoryLine, compare, due_lines, mandatory_lines


def line_texts(brief: str) -> list[str]:
    return [str(line) for line in mandatory_lines(brief)]


def missing_and_check(
    brief: str, script: str = "Elm Books. Come on in.", language: str = "english"
) -> list[list[str]]:
    """Return the lines that are missing and those to check."""
    return [[*map(str, part)] for part in compare(mandatory_lines(brief), script, language)]


@pytest.mark.parametrize(
    ("brief", "expected"),
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
        ("Add T&Cs apply at the end", ["legal line “T&Cs apply”"]),
        ("Legal:\n- 18+ only\n- Void where prohibited\nTone: happy",
         ["legal line “18+ only”", "legal line “Void where prohibited”"]),
        ("Legal (read in full): Ask a doctor. Tone: dry.", ["legal line “Ask a doctor.”"]),
        ("Disclaimer - Ask a doctor.", ["legal line “Ask a doctor.”"]),
        ("Legal: Ask a doctor. Tone of voice: happy.", ["legal line “Ask a doctor.”"]),
        ('Must say "Use code FIT25 today"', ["exact words “Use code FIT25 today”"]),
        (f"Legal: {'long ' * 100}", []),
        ("Legal: See www.elm.example, or ring Tel. 0800 123 456. Deposit required.",
         ["legal line “Deposit required.”", "address www.elm.example", "phone number 0800 123 456"]),
        ("Disclaimer: !!!", []),
        ("Legal: none\nA shop for tea", []),
        ("Legal: no legal line needed\nDisclaimer: N/A.\nFine print: None required.\nTerms: TBD", []),
        ("We are a legal practice: family law. Payment terms: 30 days. Smith Legal Services: help", []),
        ("$1.5 million, $5k", ["price $1.5 million", "price $5k"]),
        ("CHF 49.90, 199 kr, R$ 49,90, € 19,-, $ 49, 仅售99元起",
         ["price CHF 49.90", "price 199 kr", "price R$ 49,90", "price € 19", "price $ 49", "price 99元"]),
        ("Just£5, try 30 of our 5 krill, US$7", ["price £5", "price US$7"]),
        ("15. März, 3月15日, 16 tháng 3, 17 มีนาคม, 18 de março",
         ["date 15. März", "date 3月15日", "date 16 tháng 3", "date 17 มีนาคม", "date 18 de março"]),
        ("Gutscheincode: SOMMER20; kod rabatowy: LATO20; code promo : ETE20; código promocional: SOL20",
         ["code SOMMER20", "code LATO20", "code ETE20", "code SOL20"]),
        ("promo code is SAVE20, use code ride7, 优惠码FAN20", ["code SAVE20", "code ride7", "code FAN20"]),
        ("zip code 90210, postcode EC1A", []),
        ("电话400-123-4567; โทร02-123-4567; Tel.0800 123 456; Call 1-800-FLOWERS",
         ["phone number 400-123-4567", "phone number 02-123-4567", "phone number 0800 123 456",
          "phone number 1-800-FLOWERS"]),
        ("Call 0800/123456", ["phone number 0800/123456"]),
        ("$4, $49", ["price $4", "price $49"]),
        ("Node.js, e.g.something, shoes.they, logo.svg; shoes.de", ["address shoes.de"]),
        ("A 30s ad for a gym, open since 1990, 2010-2020 2.5 km away, code word", []),
        ("1.000.000 zł", ["price 1.000.000 zł"]),
    ],
)  # fmt: skip
def test_mandatory_lines_are_recognised_in_a_brief_by_their_form(brief, expected):
    assert line_texts(brief) == expected


def test_a_line_is_listed_once_and_the_number_of_lines_is_limited():
    assert line_texts("20% off! Only 20% today.") == ["price 20%"]
    assert len(line_texts(" ".join(f"{n}%" for n in range(50)))) == MAX_LINES


EQUIVALENT_WORDINGS = [
    ("phone number", "0800 123 456", "Call oh eight hundred, one two three, four five six."),
    ("phone number", "0800 123 456", "Call 0 8 0 0, 1 2 3, 4 5 6"),
    ("phone number", "+44 20 7946 0958", "oh two oh, seven nine four six, oh nine five eight"),
    ("phone number", "1-800-FLOWERS", "one eight hundred FLOWERS"),
    ("price", "$4.99", "only four ninety-nine"),
    ("price", "$4.99", "four dollars and ninety-nine cents"),
    ("price", "$20.00", "twenty dollars"),
    ("price", "20%", "twenty percent"),
    ("price", "1,250 dollars", "twelve hundred fifty dollars"),
    ("offer", "first hour free", "The first hour is free."),
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
    ("legal line", "Minimum spend $20.", "Minimum spend twenty dollars."),
    ("legal line", "Over 18s only.", "Over eighteens only."),
    ("legal line", "Offer ends 31 May 2026.", "Offer ends May thirty-first, twenty twenty-six."),
    ("legal line", "Eighteen and over.", "18 and over."),
    ("date", "15. März", "bis zum 15. März"),
    ("date", "3月15日", "到3月15日为止"),
]


@pytest.mark.parametrize(("kind", "text", "script"), EQUIVALENT_WORDINGS)
def test_a_line_may_be_worded_in_several_ways(kind, text, script):
    assert compare([MandatoryLine(kind, text)], script, "english") == ((), ())


@pytest.mark.parametrize(
    ("kind", "text"), list(dict.fromkeys((kind, text) for kind, text, _ in EQUIVALENT_WORDINGS))
)
def test_a_line_that_the_script_lacks_is_missing(kind, text):
    """A price is missing only from a script without any amount, since "half off" is one, too."""
    amounts = "four of you! Come on the 30th, and 12 or one hundred flowers until" * (kind != "price")
    line = MandatoryLine(kind, text)
    assert compare([line], f"Hello, {amounts} May: a dot.", "english").missing == (line,)


def test_the_digits_of_two_numbers_do_not_make_one_price():
    line = MandatoryLine("price", "$499")
    assert compare([line], "4 friends came along one day with 99 balloons", "english").check == (line,)


@pytest.mark.parametrize(
    ("brief", "missing", "check"),
    [
        ("Budget: $5,000. Sales grew 12%.", [], ["price $5,000", "price 12%"]),
        ("Only $49 a visit, 20% off", ["price $49", "price 20%"], []),
        ("Mandatory: mention the brand twice", [], ["legal line “mention the brand twice”"]),
        ("Must include: logo, website", [], ["legal line “logo, website”"]),
        ("Terms & conditions: see website", [], ["legal line “see website”"]),
        ("Mandatory: Please drink responsibly.", ["legal line “Please drink responsibly.”"], []),
        ("Sale ends 24 December", [], ["date 24 December"]),
        ("15 KASIM, 31.12.2026", [], ["date 15 KASIM", "date 31.12.2026"]),
        ("Like https://elm.example/guide; to ann@elm.example; www.elm.example",
         ["address www.elm.example"], ["address ann@elm.example", "address https://elm.example/guide"]),
        ("ISBN 978-3-16-148410-0; text us: 555 010 0199",
         ["phone number 555 010 0199"], ["phone number 978-3-16-148410-0"]),
        ("Dress code BLACK, code GOLD7", ["code GOLD7"], ["code BLACK"]),
    ],
)  # fmt: skip
def test_only_surely_mandatory_lines_are_missing_and_the_others_to_check(brief, missing, check):
    assert missing_and_check(brief) == [missing, check]


@pytest.mark.parametrize("script", ["Half off everything.", "Five grand of tea.", "Free delivery, 30 shops"])
def test_a_price_in_another_form_is_not_missing(script):
    assert missing_and_check("50% off, from $5k", script)[0] == []


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("german", "Rechtlicher Hinweis: Das gilt nur für neue Kunden und nicht am Montag."),
        ("french", "Mentions légales : Offre pour les nouveaux clients et pour une personne."),
        ("chinese", "法律声明：仅限新客户。"),
        ("thai", "ข้อกำหนด: เฉพาะลูกค้าใหม่เท่านั้น"),
    ],
)
def test_a_legal_line_is_recognised_by_its_label_in_other_languages(language, line):
    [legal] = mandatory_lines(line)
    assert legal.text == re.split("[:：]", line)[1].strip()
    assert compare([legal], "Elm", language).missing == (legal,)


EARLIER = "From $49 a month. Call 555 010 0199. Code RIDE20."
EARLIER_SCRIPT = "Forty-nine dollars. Call five five five, oh one oh, oh one nine nine."


@pytest.mark.parametrize(
    ("request_", "previous", "script", "missing", "check"),
    [
        ("", None, "Elm.", ["phone number 555 010 0199", "code RIDE20", "price $49"], []),
        ("more lively", EARLIER_SCRIPT, "Elm.", ["phone number 555 010 0199", "price $49"], []),
        ("more lively", "Elm.", "Elm!", [], []),
        ("Now $39 instead", EARLIER_SCRIPT, "$39. Call 555 010 0199", [], ["price $49"]),
        (
            "Without 555 010 0199, and code FIT25",
            EARLIER_SCRIPT,
            "$49",
            ["code FIT25"],
            ["phone number 555 010 0199"],
        ),
        ("The code is RIDE20", EARLIER_SCRIPT, EARLIER_SCRIPT, ["code RIDE20"], []),
    ],
)
def test_a_later_message_changes_the_mandatory_lines(request_, previous, script, missing, check):
    result = compare(due_lines(EARLIER, request_, previous), script, "english")
    assert [[*map(str, part)] for part in result] == [missing, check]


def test_a_line_in_another_language_than_the_script_is_to_be_checked():
    price, legal = (
        MandatoryLine("price", "20%"),
        MandatoryLine("legal line", "This is for you and your friends."),
    )
    german = MandatoryLine("legal line", "Gilt nur für neue Kunden und nicht am Sonntag.")
    exact = MandatoryLine("exact words", "Ride more")
    result = compare([price, legal, german, exact], "Zwanzig Prozent für alle", "german")
    assert result == ((german, exact), (price, legal))
    assert compare([german], "Twenty percent", "english") == ((), (german,))
    numbered = MandatoryLine("exact words", "Ab 18")
    assert compare([numbered], "Ab achtzehn", "german") == ((), (numbered,))
