"""What the last word on a first draft says of languages, limits and lengths, in the client's language."""

import pytest

from providers.offline.ad_creation import copywriter
from providers.offline.ad_creation.brief import parse
from providers.offline.ad_creation.conversation import read
from tests.first_turn import Data, draft, system

TIGHT = {
    "versionId": "v1",
    "status": "draft",
    "timeline": {"spotSeconds": 30.0, "durationSeconds": 33.4, "fits": False, "voices": [], "sfx": []},
    "tightened": ["track-1: a sentence dropped"],
}


def test_a_language_nobody_writes_is_answered_in_english_and_said():
    turn = draft("Zen Coffee, a coffee shop", language="swedish")
    assert "Swedish is not among them" in turn.last
    assert "in English" in turn.last
    assert "coffee" in turn.script


def test_a_language_nobody_writes_gets_the_clients_own_words():
    turn = draft(
        "Bakkerij Jansen, de bakkerij met vers brood voor het hele gezin",
        language="dutch",
        context="Nu 20% korting op alle broodjes. Tel. 020 123 4567",
    )
    for words in ("Bakkerij Jansen", "20% korting op alle broodjes", "020 123 4567"):
        assert words in turn.script
    assert "your own words only" in turn.last
    assert "seconds to spare" in turn.last


def test_cantonese_is_written_as_chinese_and_said():
    turn = draft("深水埗咖啡店", language="cantonese")
    assert "粤语" in turn.last
    assert "咖啡" in turn.script
    assert all(
        "@cantonese" in search or search["language"] == "cantonese" for search in turn.called("search_voices")
    )


def test_a_missing_name_is_said():
    turn = draft("Coffee shop, hipsters, 30s")
    assert "names no brand" in turn.last


def test_a_draft_the_tool_says_is_too_long_is_called_too_long():
    turn = draft("Zen Coffee", failing={"create_voice_draft": [TIGHT]})
    assert "33.4 seconds" in turn.last
    assert "ask me to shorten it" in turn.last
    assert "a sentence dropped" in turn.last


def test_a_brief_longer_than_what_is_read_is_admitted():
    assert "first 4000 characters" in draft("Zen Coffee", context="Great beans. " * 1000).last


def test_what_found_no_room_is_named():
    turn = draft(
        "Zen Coffee",
        seconds=7,
        context="Beans roasted on Mondays by Anna herself in the yard. Call 555-1234.",
    )
    assert "no room" in turn.last
    assert "Beans roasted" in turn.last


@pytest.mark.parametrize(
    ("context", "idea"),
    [
        ("", "phone number, a website or an address"),
        ("Call 555-1234", "a reason to act now"),
        ("Call 555-1234. 20% off until Friday.", "speak a little slower"),
    ],
)
def test_the_idea_at_the_end_is_what_the_ad_lacks(context: str, idea: str):
    """A78"""
    assert idea in draft("Zen Coffee", context=context).last


def test_a_short_ad_that_lacks_nothing_is_offered_in_other_tones():
    turn = draft("Zen Coffee", seconds=7, context="Call 555-1234. 20% off until Friday.")
    assert "three variations" in turn.last


@pytest.mark.parametrize(
    ("client", "language", "word"),
    [
        ("Kawiarnia Zen, kawiarnia w Krakowie", "polish", "Szkic gotowy"),
        ("Cafetería Zen en Sevilla, tu cafetería", "spanish", "Tu borrador está listo"),
        ("Café Zen in Köln, das Café für alle", "german", "Dein erster Entwurf ist fertig"),
        ("Café Zen à Lyon, le café de votre quartier", "french", "Votre première version est prête"),
        ("ร้านกาแฟเซน หอมทุกเช้า", "thai", "ร่างแรกพร้อมแล้ว"),
        ("禅咖啡，街角的咖啡馆", "chinese", "初稿好了"),
    ],
)
def test_the_person_is_answered_in_the_language_they_write(client: str, language: str, word: str):
    assert word in draft(client, language=language).last


def test_an_english_client_with_a_thai_ad_is_answered_in_english():
    turn = draft("Zen Coffee, a coffee shop for students", language="thai")
    assert "Your draft is ready" in turn.last
    assert "ร้านกาแฟ" in turn.script


def test_prices_stay_out_of_foreign_copy_too():
    script = draft(
        "Zen Coffee", language="polish", context="Lattes for only $3. Don't mention prices."
    ).script
    assert "$3" not in script


@pytest.mark.parametrize(
    ("context", "language", "said"),
    [
        ("20% off until June 15", "polish", "do 15 czerwca"),
        ("20% off until 30/6", "spanish", "hasta 30/6"),
        ("20% off until June 15", "german", "bis 15. juni"),
        ("20% off until June 15", "french", "d'ici le 15 juin"),
        ("20% off until Sunday", "french", "d'ici dimanche"),
        ("Half price on Friday", "german", "zum halben preis"),
        ("20% off until the end of the month", "thai", "สิ้นเดือน"),
        ("Half price this weekend only", "czech", "víkend"),
        ("Free delivery. Buy one get one free.", "indonesian", "gratis ongkir"),
        ("From $5", "vietnamese", "từ $5"),
        ("Save $10", "romanian", "reducere de $10"),
        ("全场8折", "english", "special discount"),
    ],
)
def test_offers_and_days_are_said_in_the_language_of_the_ad(context: str, language: str, said: str):
    assert said in draft("Zen Coffee", language=language, context=context).script.lower()


def test_a_sentence_too_long_is_cut_at_its_commas_last():
    text = (
        "Zen Coffee brews slowly, patiently, with care, with time, with a smile, and with the door wide open"
    )
    short = copywriter.shorten([text], language="english", seconds=4)
    assert short[0].startswith("Zen Coffee brews slowly")
    assert copywriter.total_s(short, "english") <= 4


def test_a_tool_result_that_is_no_object_is_an_error_and_not_a_crash():
    """A26"""
    odd: list[Data] = [[1, 2]]  # type: ignore[list-item]
    turn = draft("Zen Coffee", failing={"create_music_draft": odd})
    assert len(turn.called("create_music_draft")) == 2
    assert "music v1" in turn.last


def test_messages_without_a_brief_are_read_without_one():
    assert read([system()]) is None
    assert parse("Create an audio ad.\nClient: Zen Coffee\nDuration: 9s").contact.phone == ""
