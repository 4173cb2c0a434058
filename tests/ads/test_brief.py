"""Briefs in both shapes, and the message that a brief becomes (A12, A51, A52, A-R15)."""

import pytest

from callsheet.state import languages
from callsheet.state.ads.brief import MAX_SPOT_S, language_name, mentioned_seconds, message, parse, seconds
from callsheet.state.errors import Invalid

FULL = {
    "clientDescription": "Żabka Café, hot breakfasts",
    "targetAudience": "commuters",
    "format": "radio",
    "duration": 15,
    "market": "PL",
    "language": "polish",
    "additionalContext": "mention free coffee",
}


def test_a_full_brief_is_kept_field_by_field():
    """A51."""
    assert parse(FULL) == {
        "clientDescription": "Żabka Café, hot breakfasts",
        "targetAudience": "commuters",
        "format": "radio",
        "duration": 15.0,
        "market": "PL",
        "language": "polish",
        "additionalContext": "mention free coffee",
    }


def test_the_message_follows_the_template():
    """A52."""
    brief = parse({"clientDescription": "A bakery", "duration": 7.5})
    assert message(brief) == (
        "Create an audio ad.\nClient: A bakery\nTarget Audience: None\nDuration: 7.5s\n"
        "Market: US\nLanguage: english\nAdditional context: None"
    )


def test_the_format_is_in_the_message():
    """A51: the whole format, not only its seconds; a length alone is no format."""
    brief = parse({"clientDescription": "A gym", "format": "Dialogue between two friends, then a jingle"})
    assert "Format: Dialogue between two friends, then a jingle" in message(brief).splitlines()
    assert "Format" not in message(parse("A gym, 20 seconds"))
    assert parse({"clientDescription": "A gym", "format": 20})["format"] == ""


@pytest.mark.parametrize(
    ("fields", "expected_s"),
    [
        ({"format": "30s audio ad"}, 30),
        ({"format": "a 45-second spot"}, 45),
        ({"format": "1 minute"}, 60),
        ({"format": "radio"}, 30),
        ({"duration": "20 sec"}, 20),
        ({"durationSeconds": 12}, 12),
        ({"format": "spot radiowy 20 sekund"}, 20),
        ({"format": "cuña de 15 segundos"}, 15),
        ({"format": "quảng cáo 25 giây"}, 25),
        ({"format": "โฆษณา 45 วินาที"}, 45),
        ({"format": "25秒广告"}, 25),
        ({"format": "1,5 minuty"}, 90),
        ({}, 30),
    ],
)
def test_the_length_is_read_from_any_field_and_language(fields, expected_s):
    """A-R15: seconds out of `format`; 30 by default."""
    assert parse({"clientDescription": "x", **fields})["duration"] == expected_s


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [
        ("Bäckerei Schmidt in Freiburg, frisches Brot ab 6 Uhr, 20 Sekunden", 20),
        ("Salon Ola, strzyżenie 60 zł, 15 sekund", 15),
        ("Open since 1990, 50s style diner", 30),
        ("2 coffees, ready in 10 minutes", 30),
        ("A 2 minute spot for a museum", 120),
        ("โฆษณา 15 วินาทีสำหรับร้านกาแฟ ลด 20% ถึงสิ้นเดือน", 15),
        ("ร้านกาแฟ 15 วิธีชงกาแฟ", 30),
    ],
)
def test_the_length_is_distinguished_from_other_numbers(text, expected_s):
    """A51: a price, an hour or a waiting time is no length."""
    assert parse(text)["duration"] == expected_s


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [
        ("A bakery in Oslo, 15 seconds", 15),
        ("Half a minute is too long. 2 minutes", 120),
        ("A bakery in Oslo since 1987", 0),
        ("Films that last 90 minutes", 0),
        ("", 0),
    ],
)
def test_the_length_mentioned_in_a_free_text_is_0_if_it_has_none_within_the_limits(text, expected_s):
    assert mentioned_seconds(text) == expected_s


def test_other_names_of_the_fields_are_accepted():
    brief = parse({"client_description": "A gym", "audience": "beginners", "creative_brief": "no shouting"})
    assert (brief["clientDescription"], brief["targetAudience"]) == ("A gym", "beginners")
    assert brief["additionalContext"] == "no shouting"


def test_the_exact_field_name_takes_precedence_over_an_alias():
    for fields in ({"client": "a", "clientDescription": "b"}, {"clientDescription": "b", "client": "a"}):
        assert parse(fields)["clientDescription"] == "b"


def test_unknown_fields_are_added_to_the_additional_context():
    brief = parse({"clientDescription": "x", "website": "x.example", "budget": 5, "empty": " ", "list": [1]})
    assert brief["additionalContext"] == "website: x.example\nbudget: 5"


def test_fields_for_the_same_thing_are_kept_and_name_the_ad():
    brief = parse({"client": "Miel", "product": "sourdough", "brand": "Miel Lyon"})
    assert (brief["clientDescription"], brief["displayName"]) == ("Miel", "Miel: sourdough")
    assert brief["additionalContext"] == "product: sourdough\nbrand: Miel Lyon"
    assert parse(brief) == brief
    assert parse({"product": "bread", "clientDescription": "Miel"})["additionalContext"] == "product: bread"
    assert "displayName" not in parse({"client": "Miel"})


def test_a_sentence_is_read_as_a_brief():
    assert parse("Coffee for night owls, 20s")["duration"] == 20
    assert parse("Coffee since 1998")["duration"] == 30
    assert parse("Kawiarnia dla nocnych marków, 20 sekund")["duration"] == 20


@pytest.mark.parametrize(
    ("body", "brief", "expected"),
    [
        ("th", {"language": "polish"}, "thai"),
        (None, {"language": "ไทย"}, "thai"),
        (None, {"targetAudience": "Thai families"}, "thai"),
        (None, {"targetAudience": "families", "clientDescription": "ร้านกาแฟเปิดใหม่"}, "thai"),
        (None, {"clientDescription": "Nowa kawiarnia dla wszystkich, oraz jest to nasze miejsce"}, "polish"),
        (None, {"targetAudience": "families"}, "english"),
        (None, {"clientDescription": "Boghandlen på hjørnet"}, ""),
        ("", {}, "english"),
    ],
)
def test_the_language_comes_from_the_request_then_the_brief_then_the_audience(body, brief, expected):
    """A-R15: then the language that the brief is written in, then English."""
    assert parse({"clientDescription": "x", **brief}, language=body)["language"] == expected


def test_the_length_of_the_request_takes_precedence_and_is_validated():
    """A-R15."""
    for raw in ("Coffee, 20 seconds", {"clientDescription": "Coffee", "duration": 20}):
        assert parse(raw, duration=15)["duration"] == 15
        with pytest.raises(Invalid, match="duration is -5 s, and must be more than 0"):
            parse(raw, duration=-5)


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "  ",
        {},
        {"clientDescription": " "},
        {"targetAudience": "x"},
        None,
        7,
        ["x"],
        {"clientDescription": 7},
    ],
)
def test_a_brief_without_a_client_is_refused_with_a_remedy(raw):
    with pytest.raises(Invalid) as error:
        parse(raw)
    assert error.value.remedy


@pytest.mark.parametrize(
    "value", [0, -1, MAX_SPOT_S + 1, 10**400, float("nan"), float("inf"), True, "soon", [30]]
)
def test_an_invalid_length_is_refused(value):
    with pytest.raises(Invalid, match="duration"):
        parse({"clientDescription": "x", "duration": value})


def test_a_length_without_a_brief_is_validated():
    assert seconds(15) == 15.0
    with pytest.raises(Invalid, match="more than 0"):
        seconds(0)


def test_a_text_over_the_limit_is_refused_and_nul_characters_are_removed():
    with pytest.raises(Invalid, match="limit is 20000"):
        parse({"clientDescription": "x" * 20_001})
    assert parse("a\x00b")["clientDescription"] == "ab"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("thai", "thai"),
        ("TH", "thai"),
        ("th-TH", "thai"),
        ("pt_BR", "portuguese"),
        ("Bahasa Indonesia", "indonesian"),
        ("中文", "chinese"),
        ("zh-HK", "cantonese"),
        ("zh-Hant-TW", "chinese"),
        ("Spanish (Mexico)", "spanish"),
        ("Čeština", "czech"),
        (" Tiếng Việt ", "vietnamese"),
        ("mandarin", "chinese"),
    ],
)
def test_a_language_is_recognised_by_name_code_tag_and_native_name(text, name):
    """A12."""
    assert language_name(text) == name


@pytest.mark.parametrize("text", ["klingon", "", "  ", "x-klingon", "xx-US", "-", "(thai)"])
def test_an_unknown_language_is_refused_with_the_known_ones(text):
    """A10: the table has no entry of this name."""
    assert languages.find(text) is None
    with pytest.raises(Invalid, match="not known") as error:
        language_name(text)
    assert "thai" in error.value.remedy


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Deutsch", "german"),
        ("Danish", "danish"),
        ("Scottish  Gaelic", "scottish gaelic"),
        ("unknown", ""),
        ("the same as the material", ""),
        ("1%", ""),
        ("", ""),
    ],
)
def test_a_stated_language_that_the_table_does_not_have_keeps_its_name(text, name):
    assert languages.stated_name(text) == name


def test_the_message_of_a_brief_in_an_unrecognised_language_leaves_the_language_to_the_model():
    """A51, A52, A-R15: a model recognises more languages than our rules."""
    assert "Language: the brief's language" in message(parse("Boghandlen på hjørnet, 20s"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("สวัสดีครับ", "thai"),
        ("今天就来", "chinese"),
        ("今日コーヒー", "japanese"),
        ("커피 한 잔", "korean"),
        ("ताज़ी कॉफ़ी", "hindi"),
        ("قهوة طازجة", "arabic"),
        ("haz la música más alegre y con un poco de ritmo", "spanish"),
        ("buatkan musik yang lebih ceria untuk kami", "indonesian"),
        ("zrób to dla nas w stylu, który jest do nas", "polish"),
        ("Make it warmer and add the phone number", "english"),
        ("Zakład fryzjerski Ola w Gdańsku, strzyżenie 60 zł", "polish"),
        ("Coffee shop in Łódź, next to Żabka", "english"),
        ("Padaria Lua no Porto, pão fresco às seis", "portuguese"),
        ("hãy đến tiệm bánh Hoa Mai, đã mở", "vietnamese"),
        ("ok", None),
        ("12345 !!!", None),
        ("", None),
        ("Spot radio 30 s : Garage Morel à Nantes, révision à 89 euros jusqu'au 15 mars", "french"),
        ("Café Luna à Lille, ouvert tous les jours", "french"),
        ("Autohaus Berg, Probefahrt am Samstag", "german"),
        ("Entrega à porta, à noite", None),
        ("Книжный магазин «Вяз» на Невском", "russian"),
        ("Вяз и каштан", "russian"),
        ("Книгарня В'яз. Знижки на вихідних", "ukrainian"),
        ("Книжарница Бряст, първа покупка", None),
        ("Књижара на углу", None),
        ("Βιβλιοπωλείο στην Αθήνα", None),
        ("Elms bokhandel, rea för alla och kaffe till barnen", "swedish"),
        ("Planter optager vand fra jorden med deres rødder", None),
        ("Kasvit ottavat vettä maasta juurillaan, ja se on hyvä", None),
        ("Kadıköy'de küçük bir kitapçı, hafta sonu indirim var", "turkish"),
    ],
)
def test_the_language_of_a_text_is_detected_or_none_if_it_is_unclear(text, name):
    assert languages.detect(text) == name
