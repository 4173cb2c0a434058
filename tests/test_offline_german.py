"""What German asks of the ad model: nouns with capitals, compounds, split verbs, umlauts, dates."""

import pytest

from providers.offline.ad_creation import copywriter
from providers.offline.ad_creation.brief import Brief, parse
from providers.offline.ad_creation.copywriter import sentences
from providers.offline.ad_creation.lexicon import lexicon
from providers.offline.lexicon import tokens
from tests.first_turn import draft, template
from tests.offline_chat import bakery


def read(client: str, context: str = "") -> Brief:
    return parse(template(client, context=context, language="german"))


def script(client: str, context: str = "", seconds: float = 30) -> str:
    return "\n".join(copywriter.write(read(client, context), language="german", seconds=seconds))


@pytest.mark.parametrize(
    ("client", "brand"),
    [
        ("Werbespot für die Bäckerei Kornblum in Leipzig, 20 Sekunden, für Familien", "Bäckerei Kornblum"),
        ("Bitte einen 30-Sekunden-Spot für unser neues Restaurant Seeblick", "Restaurant Seeblick"),
        ("Wir brauchen einen Radiospot für Optik Sonnleitner", "Optik Sonnleitner"),
        ("Wir sind Kraftwerk Ehrenfeld, das Fitnessstudio für alle", "Kraftwerk Ehrenfeld"),
        ("Kraftwerk Ehrenfeld ist ein Fitnessstudio für alle", "Kraftwerk Ehrenfeld"),
        ("30 Sekunden für Fahrradladen Speiche, Hamburg Altona", "Fahrradladen Speiche"),
        ("15 s für die Zahnarztpraxis Dr. Weiss in Köln", "Zahnarztpraxis Dr. Weiss"),
        ("Radiospot: Stadtfest Neuruppin, Eintritt frei", "Stadtfest Neuruppin"),
        ("Zahnarztpraxis Dr. Lena Huber in Graz", "Zahnarztpraxis Dr. Lena Huber"),
        ("Gasthaus zum Löwen, gutbürgerliche Küche in Rottweil", "Gasthaus zum Löwen"),
        ("Ein Café in Köln. Es heißt Luise und hat einen Garten.", "Luise"),
        ("Baeckerei Gruenwald, frische Broetchen in Muenchen", "Baeckerei Gruenwald"),
        ("Familienrestaurant mit Biergarten in Ulm", ""),
        ("Wir sind ein Fitnessstudio in Köln", ""),
        ("Werbung für unsere kleine Buchhandlung in Jena", ""),
    ],
)
def test_the_name_is_found_among_nouns_that_all_have_capitals(client: str, brand: str):
    assert read(client).brand == brand


@pytest.mark.parametrize(
    ("client", "kind"),
    [
        ("Landbäckerei Kornblum", "bakery"),
        ("Die Dorfkneipe am See", "bar"),
        ("Kleintierpraxis Dr. Wolf", "vet"),
        ("Fahrradwerkstatt Speiche für alle", "bicycles"),
        ("Baeckerei Gruenwald, frische Broetchen", "bakery"),
    ],
)
def test_a_compound_is_what_its_last_part_is(client: str, kind: str):
    assert read(client).kind.name == kind


def test_a_clause_that_leans_on_the_one_before_its_comma_stays_with_it():
    brief = read("Wir sind Kraftwerk Ehrenfeld, das Fitnessstudio für alle, die nach Feierabend trainieren")
    assert brief.what == "das Fitnessstudio für alle, die nach Feierabend trainieren"
    assert brief.claims == ()


def test_what_must_be_said_keeps_its_verb_last_behind_words_that_ask_for_it():
    text = script("Restaurant Seeblick in Ulm", "Bitte erwähnen, dass Hunde willkommen sind.")
    assert "Gut zu wissen, dass Hunde willkommen sind." in text


def test_a_date_with_its_full_stop_ends_no_sentence():
    brief = read("Optik Sonnleitner, Brillen für alle", "Nur bis 31. März: 20 % Rabatt auf alles.")
    assert brief.when is not None
    assert (brief.when.day, brief.when.month, brief.when.deadline) == ("31", "march", True)
    assert sentences("Nur bis 31. März. Dann nicht mehr.") == ["Nur bis 31. März.", "Dann nicht mehr."]


def test_nouns_keep_their_capitals_in_an_offer():
    assert "Mittagstisch ab 9,90 €" in script("Gasthaus zum Löwen, Küche in Ulm", "Mittagstisch ab 9,90 €")


@pytest.mark.parametrize(
    ("context", "field", "value"),
    [
        ("Hauptstraße 12, gleich am Markt", "place", "Hauptstraße 12"),
        ("Ihr findet uns in der Bonner Straße 7", "place", "Bonner Straße 7"),
        ("Mo bis Fr von 11 bis 14 Uhr", "hours", "Mo bis Fr von 11 bis 14 Uhr"),
        ("Ruf an unter 0341 5550147", "phone", "0341 5550147"),
        ("Mit dem Gutscheincode FUCHS24", "code", "FUCHS24"),
    ],
)
def test_ways_to_the_client_are_read(context: str, field: str, value: str):
    assert getattr(read("Restaurant Seeblick, Küche für alle", context).contact, field) == value


def test_the_trade_is_not_said_twice_beside_a_name_that_holds_it():
    for variant in range(4):
        brief = read("Bäckerei Kornblum, die Bäckerei in Leipzig")
        said = "\n".join(copywriter.write(brief, language="german", seconds=30, variant=variant))
        assert "Bäckerei?" not in said
        assert "Bäckerei gesucht" not in said


def test_the_last_word_on_a_german_brief_is_german():
    turn = draft("Café Zen in Köln, das Café für alle", language="german", context="Slogan: „Komm rein“")
    assert "Dein erster Entwurf ist fertig" in turn.last
    assert "own words" not in turn.last


@pytest.mark.parametrize(
    ("text", "concept"),
    [
        ("nimm den Applaus wieder raus", "verb.remove"),
        ("lass die Telefonnummer weg", "verb.remove"),
        ("füg am Anfang eine Glocke hinzu", "verb.add"),
        ("mach die letzte Änderung rückgängig", "verb.undo"),
        ("lies den Text vor", "question.show"),
    ],
)
def test_a_verb_is_understood_around_what_stands_between_its_parts(text: str, concept: str):
    marks = [mark.concept for mark in lexicon("german").marks(tokens(text))]
    assert concept in marks
    assert not {"verb.use", "verb.keep", "verb.make"} & set(marks)


@pytest.mark.parametrize(
    "text", ["Mach die Musik fröhlicher", "mach die musik froehlicher", "MACH DIE MUSIK FRÖHLICHER!"]
)
def test_umlauts_may_be_spelled_out(text: str):
    chat = bakery()
    chat.say(text)
    assert "happ" in chat.music


def test_a_short_pause_is_no_wish_to_shorten():
    chat = bakery()
    texts = chat.texts
    chat.say("mach eine kurze Pause von 2 Sekunden vor Stimme 2")
    assert chat.texts == texts
    assert chat.made == ["voices"]


def test_another_ad_can_be_had_in_german():
    chat = bakery()
    reply = chat.say("do it in German")
    assert chat.made == ["voices"]
    assert "German" in reply


@pytest.mark.parametrize(
    "text",
    [
        "Ersetze die Türklingel durch Vogelgezwitscher",
        "könntest du die Türklingel durch Vogelgezwitscher ersetzen?",
    ],
)
def test_an_effect_is_exchanged_wherever_the_verb_stands(text: str):
    chat = bakery()
    chat.say(text)
    assert chat.effects[0]["description"] == "birdsong"


def test_a_sentence_that_is_asked_for_with_dass_is_a_whole_one():
    chat = bakery()
    chat.say("sag am Schluss noch, dass wir auch Torten machen")
    assert chat.texts[-1].endswith("Gut zu wissen, dass wir auch Torten machen.")


def test_a_day_that_comes_back_is_no_date():
    brief = read(
        "Hofladen Petersen, Eier und Käse", "samstags von 8 bis 13 Uhr geöffnet. Samstags Livemusik."
    )
    assert brief.when is None
    assert brief.contact.hours == "samstags von 8 bis 13 Uhr"
    assert "Samstags Livemusik" in brief.claims


def test_only_today_is_an_end_and_no_appointment():
    when = read("Pizza Blitz, der Lieferdienst", "Große Aktion, nur heute!").when
    assert when is not None
    assert when.deadline


def test_a_list_without_its_town_keeps_its_first_noun():
    assert "Kartoffeln" in read("Hofladen Petersen: Kartoffeln, Eier und Käse vom Bauern").claims


def test_what_comes_after_und_keeps_its_subject():
    brief = read("Wir sind das Autohaus Brenner aus Fulda und machen Schlussverkauf: alles 500 € günstiger")
    assert brief.contact.place == "Fulda"
    assert brief.offer_words == ("Wir machen Schlussverkauf: alles 500 € günstiger",)


@pytest.mark.parametrize("text", ["ohne Musik bitte", "keine Musik"])
def test_no_music_is_asked_for_with_ohne_or_kein(text: str):
    chat = bakery()
    chat.say(text)
    assert chat.made == ["music"]
    assert "silence" in chat.music


def test_an_hour_is_no_clock():
    chat = bakery()
    chat.say("Wir haben jetzt bis 8 Uhr abends offen")
    assert "sfx" not in chat.made


def test_what_is_to_be_said_once_more_is_said_once_more():
    chat = bakery()
    chat.say("Nenn nochmal die Telefonnummer")
    assert "".join(chat.texts).count("555-123-4567") == 2


@pytest.mark.parametrize("text", ["Die zweite Stimme soll zuerst sprechen", "Stimme 2 soll anfangen"])
def test_who_is_to_speak_first_speaks_first(text: str):
    chat = bakery()
    second = chat.texts[1]
    chat.say(text)
    assert chat.texts[0] == second
