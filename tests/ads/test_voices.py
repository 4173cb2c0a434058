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


def test_ten_thai_voices_are_ten_and_all_thai():
    """A6, A11."""
    found = voices.search("thai", count=10)
    assert len(found) == 10
    assert {voice.language for voice in found} == {"thai"}


@pytest.mark.parametrize("language", PROMISED)
def test_every_promised_language_has_ten_voices_of_its_own_and_both_genders(language):
    """A11."""
    found = voices.search(language, count=50)
    assert sum(voice.native for voice in found) >= 10
    assert sum(voice.gender == "female" for voice in found) >= 5
    assert sum(voice.gender == "male" for voice in found) >= 5


def test_every_language_the_product_speaks_has_voices():
    assert [language.name for language in LANGUAGES if not voices.search(language.name)] == []


@pytest.mark.parametrize(
    "spelling", ["thai", "Thai", " THAI ", "th", "th-TH", "th_TH", "tha", "ไทย", "ภาษาไทย"]
)
def test_a_language_is_found_under_each_of_its_names(spelling):
    """A12: name, ISO code, BCP-47 tag, native name."""
    assert voices.search(spelling) == voices.search("thai")


@pytest.mark.parametrize("language", ["klingon", "", "  ", "xx-YY", "old english", "english klingon"])
def test_an_unknown_language_has_no_voices_and_raises_nothing(language):
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
def test_a_region_named_with_the_language_keeps_its_voices_and_those_without_a_region(language, accent):
    found = voices.search(language, count=50)
    assert found[0].accent == accent
    assert {voice.accent for voice in found} <= {accent, ""}


def test_es_419_means_any_country_of_latin_america():
    accents = {voice.accent for voice in voices.search("es-419", count=50)}
    assert {"Mexican", "Argentine", "Colombian"} <= accents
    assert "Castilian" not in accents


def test_a_region_without_voices_of_its_own_leaves_all_voices_of_the_language():
    assert voices.search("en-FR") == voices.search("english")


@pytest.mark.parametrize("gender", ["female", "FEMALE", " Female "])
def test_gender_is_exact_and_its_case_does_not_matter(gender):
    """A3: and "male" is part of "female", which must not match."""
    found = voices.search("english", gender=gender, count=50)
    assert len(found) >= 5
    assert {voice.gender for voice in found} == {"female"}
    assert {voice.gender for voice in voices.search("english", gender="male", count=50)} == {"male"}


def test_voices_whose_gender_is_not_published_match_no_gender():
    """A6: unpublished attributes are left out, never guessed."""
    unpublished = {voice.provider for voice in voices.bundled_catalogue().voices if not voice.gender}
    assert unpublished == {"openai", "gemini"}
    for gender in ("female", "male", "neutral"):
        found = voices.search("thai", gender=gender, count=50)
        assert "openai" not in {voice.provider for voice in found}


@pytest.mark.parametrize(
    "accent", ["US", "us", "American", "american accent", "US English", "en-US", "en_us"]
)
def test_an_accent_is_found_under_its_name_its_country_or_its_locale(accent):
    """A4."""
    found = voices.search("english", accent=accent, count=50)
    assert len(found) == 50
    assert {voice.locale for voice in found} == {"en-US"}


@pytest.mark.parametrize("accent", ["British", "UK", "GB", "en-GB", "United Kingdom"])
def test_a_british_accent_is_never_an_american_voice(accent):
    assert {voice.locale for voice in voices.search("english", accent=accent, count=50)} == {"en-GB"}


def test_an_accent_nobody_has_leaves_no_voices():
    assert voices.search("english", accent="Martian") == []


def test_the_accent_that_is_asked_for_beats_the_region_of_the_language():
    assert {voice.locale for voice in voices.search("pt-BR", accent="Portugal", count=50)} == {"pt-PT"}


def test_style_is_part_of_the_style_or_of_the_use_case_in_any_case():
    """A5."""
    by_style = voices.search("english", style="CHEER", count=50)
    by_use = voices.search("english", style="Advertis", count=50)
    assert by_style
    assert all("cheer" in voice.style for voice in by_style)
    assert by_use
    assert all("advertisement" in voice.use_case for voice in by_use)
    assert all("advertis" not in voice.style for voice in by_use)


def test_a_style_works_in_every_promised_language():
    """Multilingual voices bring their published style along, so a Thai search need not come back empty."""
    assert [language for language in PROMISED if not voices.search(language, style="warm")] == []


@pytest.mark.parametrize(("count", "returned"), [(-3, 1), (0, 1), (1, 1), (10, 10), (50, 50), (1000, 50)])
def test_count_is_held_between_one_and_fifty(count, returned):
    """A6."""
    assert len(voices.search("english", count=count)) == returned


def test_ten_voices_come_when_no_count_is_given():
    """A6."""
    assert len(voices.search("english")) == 10


def test_a_smaller_count_is_the_beginning_of_a_larger_one():
    assert voices.search("polish", count=4) == voices.search("polish", count=40)[:4]


@pytest.mark.parametrize("language", [language.name for language in LANGUAGES])
def test_the_first_two_voices_can_hold_a_dialogue(language):
    first, second, *_ = voices.search(language)
    assert {first.gender, second.gender} == {"female", "male"}
    assert first.native
    assert second.native


@pytest.mark.parametrize("language", PROMISED)
def test_native_voices_come_before_the_ones_that_can_also_speak_the_language(language):
    native = [voice.native for voice in voices.search(language, count=50)]
    assert native == sorted(native, reverse=True)


@pytest.mark.parametrize(("language", "locale"), [("english", "en-US"), ("portuguese", "pt-BR")])
def test_the_region_that_is_meant_when_none_is_named_comes_first(language, locale):
    assert {voice.locale for voice in voices.search(language, count=30)} == {locale}


def test_providers_take_turns_so_that_a_short_list_offers_a_choice():
    assert {voice.provider for voice in voices.search("english", count=6)} == {"azure", "google"}


def test_a_multilingual_voice_counts_once_in_each_language_it_speaks():
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


def test_an_attribute_that_is_absent_is_an_absent_key():
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


def test_unapproved_voices_are_in_the_file_and_never_in_an_answer():
    """A7."""
    listed = json.loads(
        files("callsheet.tools.ads").joinpath("catalogue/voices.json").read_text(encoding="utf-8")
    )["voices"]
    unapproved = [entry["ref"] for entry in listed if entry.get("approved") is False]
    assert "en-GB-MiaNeural" in unapproved
    known = {voice.id for voice in voices.bundled_catalogue().voices}
    assert [ref for ref in unapproved if any(ref in voice_id for voice_id in known)] == []
    assert voices.find("azure/en-GB-MiaNeural") is None
    assert voices.find("azure/en-GB-SoniaNeural") is not None


def test_every_voice_is_found_by_its_id_and_speaks_a_language_the_product_knows():
    known = {language.name for language in LANGUAGES}
    every = voices.bundled_catalogue().voices
    assert len({voice.id for voice in every}) == len(every)
    assert {voice.language for voice in every} <= known
    assert {voice.gender for voice in every} == {"female", "male", "neutral", ""}
    assert voices.find("azure/th-TH-NobodyNeural") is None


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"voices": [{"provider": "x", "ref": "a", "name": "A", "locale": "tlh-US"}]}, "names no language"),
        ({"voices": [{"provider": "x", "ref": "a", "name": "A", "locale": "th-LA"}]}, "has no place"),
        ({"voices": [{"provider": "x", "ref": "a", "name": "A", "locale": "th-TH"}] * 2}, "2 times"),
    ],
)
def test_a_catalogue_that_contradicts_itself_is_refused(change, complaint):
    sound = {"accents": {"th-TH": ["Thai"]}, "speaks": {}, "voices": []}
    with pytest.raises(Broken, match=complaint):
        voices.parse_catalogue({**sound, **change})
