"""Briefs as people type them in German, Polish, Czech and Romanian: the name, and what is said (A51)."""

from typing import Any

import pytest

from providers.offline.ad_creation.brief import Brief, parse
from providers.offline.ad_creation.edits import ShapeMusic, Trait
from providers.offline.ad_creation.music_prompt import shaped
from state.brief import parsed
from state.languages import detected
from tests.first_turn import template


def read(client: str, context: str = "", **fields: Any) -> Brief:
    return parse(template(client, context=context, **fields))


@pytest.mark.parametrize(
    ("client", "brand", "said"),
    [
        ("Seit 30 Jahren für Sie da: Elektro Brandl, Waschmaschinen", "Elektro Brandl", "Seit 30 Jahren"),
        ("seit 1952 in Passau: Optik Hallermeier, Sehtest vom Meister", "Optik Hallermeier", "seit 1952"),
        ("Od 15 lat z Wami: Gabinet Fizjo Ruch, masaż w Tychach", "Gabinet Fizjo Ruch", "Od 15 lat z Wami"),
        ("Už 25 let pro vás: Truhlářství Kalina, kuchyně", "Truhlářství Kalina", "Už 25 let pro vás"),
        ("De 20 de ani alături de voi: Tâmplăria Stejaru, mobilă", "Tâmplăria Stejaru", "De 20 de ani"),
    ],
)
def test_how_long_a_client_has_been_there_is_said_and_no_name(client, brand, said):
    brief = read(client)
    assert brief.brand == brand
    assert any(claim.startswith(said) for claim in brief.claims)


@pytest.mark.parametrize(
    ("client", "brand"),
    [
        ("strzyżenie psów z dojazdem. Firma nazywa się Kudłaty Express", "Kudłaty Express"),
        ("dzien dobry, mam zaklad szewski w radomiu, nazywa sie Podeszwa, fleki od 25 zl", "Podeszwa"),
        ("výroba klíčů a otevírání bytů. Firma se jmenuje Paklíč", "Paklíč"),
        ("dobry den, mame pujcovnu lodi, jmenuje se Vodacke doupe, kanoe od 350 kc", "Vodacke doupe"),
        ("kavárna u nádraží se jmenuje Modrá v Brně", "Modrá"),
        ("deblocări uși în 30 de minute. Firma se numește Cheia Fermecată", "Cheia Fermecată"),
        ("Schlüsseldienst rund um die Uhr. Die Firma heißt Türfix", "Türfix"),
        ("wir haben eine werkstatt in husum und heißen Speichenwerk, inspektion", "Speichenwerk"),
    ],
)
def test_what_a_firm_is_called_is_its_name_and_leads_to_nothing_said(client, brand):
    brief = read(client)
    assert brief.brand == brand
    told = " ".join((*brief.claims, brief.what)).lower()
    assert "firma" not in told
    assert not told.endswith(" und")
    assert not any(one in told for one in ("dzien dobry", "dobry den", "nazywa", "jmenuje", "numește"))


@pytest.mark.parametrize(
    ("client", "brand"),
    [
        (
            "Potrzebuję spotu radiowego 15 s dla Szkoły Lingwik, kursy duńskiego. Z góry dziękuję!",
            "Szkoły Lingwik",
        ),
        (
            "Potřeboval bych reklamu do rádia pro Gymnázium Javor, zápis, díky moc!",
            "Gymnázium Javor",
        ),
        (
            "Aș vrea vă rog un spot radio de 15 secunde pentru Școala Pasul Doi, înscrieri. Mulțumesc!",
            "Școala Pasul Doi",
        ),
        (
            "Könnten Sie bitte einen Spot für die Musikschule Tonleiter schreiben? Danke!",
            "Musikschule Tonleiter",
        ),
    ],
)
def test_an_order_with_its_please_and_thanks_is_not_said_on_air(client, brand):
    brief = read(client)
    assert brief.brand == brand
    told = " ".join((*brief.claims, brief.what)).lower()
    orders = ("potrzebuj", "potřeboval", "vrea", "schreiben", "spot", "reklam")
    assert not any(one in told for one in (*orders, "dziękuję", "díky", "mulțumesc", "danke"))


@pytest.mark.parametrize("client", ["Delhi, the city of Tandoor House", "Tai Chi, daily at Lotus Hall"])
def test_a_word_that_ends_like_a_greeting_stays_whole(client):
    assert read(client).client == client


def test_thanks_that_are_a_sentence_of_their_own_kind_are_said():
    assert "Danke sagen heißt feiern" in " ".join(read("Café Lind, Kuchen. Danke sagen heißt feiern.").claims)


def test_a_weekday_keeps_the_date_behind_its_comma():
    brief = read("Musikschule Tonleiter. Tag der offenen Tür am Samstag, 14. November, Eintritt frei")
    assert any("am Samstag, 14. November" in claim for claim in brief.claims)
    assert brief.when
    assert (brief.when.day, brief.when.month) == ("14", "november")


def test_a_sentence_around_a_website_keeps_no_preposition():
    brief = read("Pojišťovna Štítek", "Sjednáte na stitek.example za 3 minuty")
    assert "Sjednáte za 3 minuty" in brief.claims


def test_music_without_an_instrument_in_its_middle_is_still_a_sentence():
    edit = ShapeMusic((Trait("instrument.violin", "violin"),), ("instrument.guitar",))
    assert shaped("light pop with guitar and soft drums", edit) == "violin, light pop with soft drums"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("20 s: Gasthof Linde, Montag Ruhetag, jeden Freitag frische Forelle", "german"),
        ("Pierogarnia U Heleny, we wtorki wszystkie ruskie za pół ceny", "polish"),
        ("mam zaklad szewski w radomiu, nazywa sie Podeszwa, fleki od 25 zl", "polish"),
        ("Minipivovar Bručoun, každé úterý čepujeme za 39 korun", "czech"),
        ("mame pujcovnu lodi na luznici, jmenuje se Vodacke doupe", "czech"),
        ("am o spalatorie de covoare in bacau, se numeste Covor Curat, 9 lei mp", "romanian"),
    ],
)
def test_a_short_brief_without_accents_is_in_its_language(text, language):
    assert detected(text) == language


def test_a_lively_greeting_and_an_order_in_the_passive_are_no_name():
    assert read("hej, potrzebna reklama 20 sek dla Taxi Bociek z Suwałk, kursy").brand == "Taxi Bociek"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Przedszkole Biedronka zaprasza 3 maja od 9 do 13, ciasta po 2 zł. 15s", 15.0),
        ("Every Friday at 8 we play the hits of the 80s.", 30.0),
    ],
)
def test_a_length_that_is_a_sentence_of_its_own_at_the_end_is_heard(text, seconds):
    assert parsed(text)["duration"] == seconds
