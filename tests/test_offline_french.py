"""What French asks of the ad model: articles that lose their vowel, orders before a name, hours, "qu'on"."""

import pytest

from providers.offline.ad_creation import copywriter
from providers.offline.ad_creation.brief import Brief, parse
from providers.offline.ad_creation.lexicon import lexicon
from providers.offline.lexicon import tokens
from state.brief import parsed
from tests.first_turn import template
from tests.offline_chat import bakery


def read(client: str, context: str = "") -> Brief:
    return parse(template(client, context=context, language="french"))


def script(client: str, context: str = "", seconds: float = 30) -> str:
    return "\n".join(copywriter.write(read(client, context), language="french", seconds=seconds))


@pytest.mark.parametrize(
    ("client", "brand"),
    [
        ("Une pub de 15 secondes pour la boulangerie Miel à Lyon, pour les familles", "Miel"),
        ("Fais-moi une pub radio pour mon salon de coiffure Chez Margaux à Dijon", "Chez Margaux"),
        ("La ferme des Tilleuls : légumes en vente directe", "La ferme des Tilleuls"),
        ("Nous sommes L'Atelier du Muscle, une salle de sport", "L'Atelier du Muscle"),
        ("Le musée du Phare à Brest, nouvelle exposition", "Le musée du Phare"),
        ("Un spot pour notre nouvelle boisson « Volt », jeune et drôle", "Volt"),
        ("Nous sommes une agence de voyages à Nice", ""),
    ],
)
def test_the_name_is_found_behind_what_is_ordered(client: str, brand: str):
    assert read(client).brand == brand


def test_the_seconds_of_a_french_brief_are_heard():
    text = "Une pub de 15 secondes pour la boulangerie Miel à Lyon, pour les familles du quartier"
    assert parsed(text)["duration"] == 15


def test_what_is_ordered_and_for_whom_is_not_said():
    said = script("Une pub de 15 secondes pour la boulangerie Miel à Lyon, pour les familles du quartier")
    assert "pub" not in said
    assert "15" not in said
    assert "quartier" not in said


@pytest.mark.parametrize(
    ("context", "field", "value"),
    [
        ("12 chemin des Prés, Vannes. Entrée libre", "place", "12 chemin des Prés, Vannes"),
        ("le samedi de 9h à 12h", "hours", "le samedi de 9h à 12h"),
        ("Appelez le 02 40 55 01 42", "phone", "02 40 55 01 42"),
        ("Avec le code MIEL10", "code", "MIEL10"),
    ],
)
def test_ways_to_the_client_are_read(context: str, field: str, value: str):
    assert getattr(read("Restaurant Le Petit Port, cuisine de la mer", context).contact, field) == value


def test_a_sentence_keeps_the_name_that_is_its_subject():
    brief = read("L'association Coup de Main cherche des bénévoles. Ton doux.")
    assert brief.claims == ("L'association Coup de Main cherche des bénévoles",)
    assert brief.tone == "calm"


def test_an_article_without_its_vowel_hides_no_word():
    assert read("Nous avons ouvert l'école de musique Do Ré Mi").kind.name == "school"
    marks = lexicon("french").marks(tokens("retire l'effet"))
    assert [mark.concept for mark in marks] == ["verb.remove", "noun.effect"]


def test_what_is_asked_for_with_que_is_a_sentence():
    chat = bakery()
    chat.say("dis à la fin qu'on fait aussi des gâteaux")
    assert chat.texts[-1].endswith("On fait aussi des gâteaux.")


@pytest.mark.parametrize("text", ["ne donne pas le numéro de téléphone", "enlève le prix"])
def test_what_is_not_to_be_said_adds_nothing(text: str):
    chat = bakery()
    before = "".join(chat.texts)
    chat.say(text)
    assert len("".join(chat.texts)) <= len(before)


def test_another_ad_can_be_had_in_french():
    chat = bakery()
    chat.say("do it in French")
    assert chat.made == ["voices"]
    assert "votre" in " ".join(chat.texts).lower() or "vous" in " ".join(chat.texts).lower()


def test_a_sentence_that_is_to_say_something_says_it():
    chat = bakery()
    chat.say("rajoute une phrase pour dire qu'il y a un parking")
    assert "Il y a un parking." in " ".join(chat.texts)
    assert "phrase" not in " ".join(chat.texts)
