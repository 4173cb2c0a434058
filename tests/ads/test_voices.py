"""The catalogue of voices and its search (A3-A12)."""

import json
from importlib.resources import files

import pytest

from callsheet.state.errors import Broken
from callsheet.state.languages import LANGUAGES
from callsheet.tools.ads import voices
from callsheet.tools.ads.voices import Voice

PROMISED = (
    "thai",
    "english",
    "indonesian",
    "polish",
    "spanish",
    "portuguese",
    "vietnamese",
    "czech",
    "romanian",
    "chinese",
    "german",
    "french",
)


def test_a_search_for_ten_thai_voices_returns_ten_thai_voices():
    """A6, A11."""
    voice_list = voices.search("thai", count=10)
    assert len(voice_list) == 10
    assert {voice.language for voice in voice_list} == {"thai"}


@pytest.mark.parametrize("language", PROMISED)
def test_every_promised_language_has_ten_native_voices_and_five_of_each_gender(language):
    """A11."""
    voice_list = voices.search(language, count=50)
    assert sum(voice.native for voice in voice_list) >= 10
    assert sum(voice.gender == "female" for voice in voice_list) >= 5
    assert sum(voice.gender == "male" for voice in voice_list) >= 5


def test_every_language_the_product_speaks_has_voices():
    assert [language.name for language in LANGUAGES if not voices.search(language.name)] == []


@pytest.mark.parametrize(
    "spelling", ["thai", "Thai", " THAI ", "th", "th-TH", "th_TH", "tha", "ไทย", "ภาษาไทย"]
)
def test_each_name_and_code_of_a_language_returns_the_same_voices(spelling):
    """A12: name, ISO code, BCP-47 tag, native name."""
    assert voices.search(spelling) == voices.search("thai")


@pytest.mark.parametrize("language", ["klingon", "", "  ", "xx-YY", "old english", "english klingon"])
def test_an_unknown_language_has_no_voices(language):
    """A10."""
    assert voices.search(language) == []


@pytest.mark.parametrize(
    ("language", "accent"),
    [
        ("pt-BR", "Brazilian"),
        ("pt_pt", "European"),
        ("brazilian portuguese", "Brazilian"),
        ("Spanish (Mexico)", "Mexican"),
        ("British English", "British"),
        ("english, american", "American"),
        ("Canadian French", "Canadian"),
        ("zh-Hant-TW", "Taiwanese"),
        ("de-CH", "Swiss"),
    ],
)
def test_a_region_in_the_language_returns_its_voices_and_those_without_a_region(language, accent):
    voice_list = voices.search(language, count=50)
    assert voice_list[0].accent == accent
    assert {voice.accent for voice in voice_list} <= {accent, ""}


def test_es_419_means_any_country_of_latin_america():
    accents = {voice.accent for voice in voices.search("es-419", count=50)}
    assert {"Mexican", "Argentine", "Colombian"} <= accents
    assert "Castilian" not in accents


def test_a_region_without_voices_returns_all_voices_of_the_language():
    assert voices.search("en-FR") == voices.search("english")


@pytest.mark.parametrize("gender", ["female", "FEMALE", " Female "])
def test_gender_is_exact_and_its_case_does_not_matter(gender):
    """A3: "male" is part of "female", and must not match it."""
    voice_list = voices.search("english", gender=gender, count=50)
    assert len(voice_list) >= 5
    assert {voice.gender for voice in voice_list} == {"female"}
    assert {voice.gender for voice in voices.search("english", gender="male", count=50)} == {"male"}


def test_voices_without_a_published_gender_match_no_gender():
    """A6: unpublished attributes are left out, never guessed."""
    unpublished = {voice.provider for voice in voices.bundled_catalogue().voices if not voice.gender}
    assert unpublished == {"openai", "gemini"}
    for gender in ("female", "male", "neutral"):
        voice_list = voices.search("thai", gender=gender, count=50)
        assert "openai" not in {voice.provider for voice in voice_list}


@pytest.mark.parametrize(
    "accent", ["US", "us", "American", "american accent", "US English", "en-US", "en_us"]
)
def test_an_accent_may_be_a_name_a_country_or_a_locale(accent):
    """A4."""
    voice_list = voices.search("english", accent=accent, count=50)
    assert len(voice_list) == 50
    assert {voice.locale for voice in voice_list} == {"en-US"}


@pytest.mark.parametrize("accent", ["British", "UK", "GB", "en-GB", "United Kingdom"])
def test_a_british_accent_is_never_an_american_voice(accent):
    assert {voice.locale for voice in voices.search("english", accent=accent, count=50)} == {"en-GB"}


def test_an_unknown_accent_has_no_voices():
    assert voices.search("english", accent="Martian") == []


def test_the_accent_argument_takes_precedence_over_the_region_of_the_language():
    assert {voice.locale for voice in voices.search("pt-BR", accent="Portugal", count=50)} == {"pt-PT"}


def test_a_style_matches_a_part_of_the_style_or_use_case_in_any_case():
    """A5."""
    by_style = voices.search("english", style="CHEER", count=50)
    by_use = voices.search("english", style="Advertis", count=50)
    assert by_style
    assert all("cheer" in voice.style for voice in by_style)
    assert by_use
    assert all("advertisement" in voice.use_case for voice in by_use)
    assert all("advertis" not in voice.style for voice in by_use)


def test_a_warm_style_has_voices_in_every_promised_language():
    """Multilingual voices have a published style in each of their languages."""
    assert [language for language in PROMISED if not voices.search(language, style="warm")] == []


@pytest.mark.parametrize(("count", "returned"), [(-3, 1), (0, 1), (1, 1), (10, 10), (50, 50), (1000, 50)])
def test_the_count_is_limited_to_between_one_and_fifty(count, returned):
    """A6."""
    assert len(voices.search("english", count=count)) == returned


def test_a_search_without_a_count_returns_ten_voices():
    """A6."""
    assert len(voices.search("english")) == 10


def test_a_smaller_count_returns_the_first_voices_of_a_larger_one():
    assert voices.search("polish", count=4) == voices.search("polish", count=40)[:4]


@pytest.mark.parametrize("language", [language.name for language in LANGUAGES])
def test_the_first_two_voices_are_a_native_woman_and_a_native_man(language):
    first, second, *_ = voices.search(language)
    assert {first.gender, second.gender} == {"female", "male"}
    assert first.native
    assert second.native


@pytest.mark.parametrize("language", PROMISED)
def test_native_voices_come_before_multilingual_ones(language):
    native = [voice.native for voice in voices.search(language, count=50)]
    assert native == sorted(native, reverse=True)


@pytest.mark.parametrize(("language", "locale"), [("english", "en-US"), ("portuguese", "pt-BR")])
def test_a_language_without_a_region_returns_its_usual_region_first(language, locale):
    assert {voice.locale for voice in voices.search(language, count=30)} == {locale}


def test_a_short_list_has_voices_of_several_providers():
    assert {voice.provider for voice in voices.search("english", count=6)} == {"azure", "google"}


def test_a_multilingual_voice_has_an_entry_in_each_of_its_languages():
    """A6."""
    thai = voices.find("openai/alloy@thai")
    polish = voices.find("openai/alloy@polish")
    assert thai is not None
    assert polish is not None
    assert (thai.language, polish.language) == ("thai", "polish")
    assert thai.public() == {
        "id": "openai/alloy@thai",
        "name": "Alloy",
        "language": "thai",
        "provider": "openai",
        "multilingual": True,
    }


def test_an_attribute_without_a_value_is_left_out():
    """A8."""
    premwadee = voices.find("azure/th-TH-PremwadeeNeural")
    assert premwadee is not None
    assert premwadee.public() == {
        "id": "azure/th-TH-PremwadeeNeural",
        "name": "Premwadee",
        "language": "thai",
        "gender": "female",
        "accent": "Thai",
        "provider": "azure",
    }


def test_style_falls_back_to_the_use_case():
    """A8."""
    voice = Voice("x/y", "Y", "x", "thai", use_case="narration")
    assert voice.public()["style"] == "narration"
    assert Voice("x/y", "Y", "x", "thai", style="warm", use_case="narration").public()["style"] == "warm"


def test_unapproved_voices_are_never_returned():
    """A7."""
    entries = json.loads(
        files("callsheet.tools.ads").joinpath("catalogue/voices.json").read_text(encoding="utf-8")
    )["voices"]
    unapproved = [entry["ref"] for entry in entries if entry.get("approved") is False]
    assert "en-GB-MiaNeural" in unapproved
    known_ids = {voice.id for voice in voices.bundled_catalogue().voices}
    assert [ref for ref in unapproved if any(ref in voice_id for voice_id in known_ids)] == []
    assert voices.find("azure/en-GB-MiaNeural") is None
    assert voices.find("azure/en-GB-SoniaNeural") is not None


def test_every_voice_has_a_unique_id_and_a_known_language():
    known_languages = {language.name for language in LANGUAGES}
    catalogue = voices.bundled_catalogue().voices
    assert len({voice.id for voice in catalogue}) == len(catalogue)
    assert {voice.language for voice in catalogue} <= known_languages
    assert {voice.gender for voice in catalogue} == {"female", "male", "neutral", ""}
    assert voices.find("azure/th-TH-NobodyNeural") is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"voices": [{"provider": "x", "ref": "a", "name": "A", "locale": "tlh-US"}]}, "names no language"),
        ({"voices": [{"provider": "x", "ref": "a", "name": "A", "locale": "th-LA"}]}, "has no place"),
        ({"voices": [{"provider": "x", "ref": "a", "name": "A", "locale": "th-TH"}] * 2}, "2 times"),
    ],
)
def test_an_inconsistent_catalogue_is_refused(change, reason):
    valid = {"accents": {"th-TH": ["Thai"]}, "speaks": {}, "voices": []}
    with pytest.raises(Broken, match=reason):
        voices.parse_catalogue({**valid, **change})
