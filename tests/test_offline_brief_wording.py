"""Briefs as shops and agencies type them: who is meant, where the name stands, what is no copy (X11)."""

import pytest

from providers.offline.ad_creation.brief import parse
from providers.offline.ad_creation.tongue import spoken
from state.languages import detected
from tests.first_turn import template


@pytest.mark.parametrize(
    ("client", "brand"),
    [
        ("piano tuning for homes. Mr Okafor tunes within 48 hours. Okafor Piano Care", "Okafor Piano Care"),
        ("Clínica veterinaria abierta las 24 horas en Puebla. Huellitas", "Huellitas"),
        ("serviço de chaveiro 24 horas em Niterói. Chaveiro Ligeirinho", "Chaveiro Ligeirinho"),
        ("dépannage plomberie jour et nuit à Lille, devis gratuit. Allo Tuyau", "Allo Tuyau"),
        ("empanadas caseras al horno, para familias. somos La Tía Chela", "La Tía Chela"),
        ("pao de queijo quentinho, o dia todo. o nome é Trem Bão", "Trem Bão"),
        ("galettes et crepes au ble noir. ca s'appelle La Bolée Bleue", "La Bolée Bleue"),
        ("j'ai un atelier velo a Nantes, Le Rayon Libre, reparation en 24h", "Le Rayon Libre"),
        ("Le Théâtre du Hibou présente Le Bal des Ombres, du 3 au 14 février", "Le Théâtre du Hibou"),
        ("Coro Amador do Porto procura novas vozes", "Coro Amador do Porto"),
        ("anúncio 15s. Ótica Farol, em Lisboa. Segundo par grátis", "Ótica Farol"),
        ("LingoLoft night school teaches Welsh in 10 weeks", "LingoLoft"),
        ("Miel, a bakery in Lyon. Open every day. Rest Easy", "Miel"),
        ("Maths tutoring online for GCSE pupils, £28 an hour. Numbers With Nadia", "Numbers With Nadia"),
        ("clases de surf para niños en la playa de Gros. Ola Chica Surf", "Ola Chica Surf"),
        ("boa tarde, preciso de um spot de 20 segundos pro Salão Dona Flor em Recife", "Salão Dona Flor"),
    ],
)
def test_the_name_is_found_wherever_it_stands(client, brand):
    assert parse(template(client)).brand == brand


@pytest.mark.parametrize(
    ("client", "told"),
    [
        ("we're a bike shop in leeds called Spoke & Chain", "a bike shop in leeds"),
        ("tengo un taller de bicis en zaragoza, se llama Pedal Suelto", "un taller de bicis en zaragoza"),
        ("tenho uma bicicletaria em Curitiba chamada Roda Solta", "uma bicicletaria em Curitiba"),
        ("j'ai un atelier velo a Nantes, Le Rayon Libre", "un atelier velo a Nantes"),
    ],
)
def test_who_owns_it_is_no_copy_and_a_bike_shop_is_no_journey(client, told):
    brief = parse(template(client))
    assert brief.what == told
    assert (brief.kind.name, brief.kind.category) == ("bicycles", "general")


@pytest.mark.parametrize(
    ("client", "kind"),
    [
        ("Academia Norte: clases de apoyo de matematicas y fisica para la ESO", "school"),
        ("Academia Corpo Livre: musculação e treino funcional", "gym"),
        ("taller mecánico Ruiz, cambio de aceite", "garage"),
    ],
)
def test_a_word_of_many_trades_waits_for_what_else_is_said(client, kind):
    assert parse(template(client)).kind.name == kind


def test_the_shop_that_is_called_so_is_no_fashion_store():
    brief = parse(template("on est fleuristes à Rennes, la boutique s'appelle Tige & Pétale, bouquets"))
    assert (brief.brand, brief.what, brief.kind.name) == ("Tige & Pétale", "fleuristes à Rennes", "flowers")


def test_commercial_work_is_no_order_to_the_makers():
    brief = parse(template("Rowntree Scaffolding, family firm since 1981, domestic and commercial"))
    assert "domestic and commercial" in brief.claims


def test_a_sentence_whose_subject_is_the_name_is_said_whole():
    brief = parse(template("LingoLoft night school teaches Welsh in 10 weeks, term starts 14 January"))
    assert brief.claims == ("LingoLoft night school teaches Welsh in 10 weeks", "term starts 14 January")


@pytest.mark.parametrize(
    "thanks", ["Thanks so much", "muchas gracias", "obrigada", "merci d'avance", "Kind regards"]
)
def test_thanks_are_not_said_on_air(thanks):
    brief = parse(template(f"Muddy Paws Mobile, dog grooming. We come to your driveway. {thanks}"))
    assert brief.claims == ("We come to your driveway",)


def test_the_hour_of_a_day_is_said():
    brief = parse(template("Wendover Primary School, open evening, Thursday 12 November at 6pm"))
    assert "Thursday 12 November at 6pm" in brief.claims


def test_a_second_day_is_said_too():
    said = "Pharmacie de la Gare, vaccination sans rendez-vous jusqu'au 31 janvier, ouverte le dimanche"
    assert parse(template(said)).claims == (
        "vaccination sans rendez-vous jusqu'au 31 janvier",
        "ouverte le dimanche",
    )


@pytest.mark.parametrize(
    ("client", "offer"),
    [
        ("Ferreteria el tornillo feliz. Oferta pintura blanca 15 litros 29,90", "29,90"),
        ("Trem Bão, pacote congelado por 24,90", "24,90"),
        ("Oak Bikes, we fix any bike, from £15. 20 sec ad pls", "£15"),
    ],
)
def test_a_price_is_an_offer_without_its_currency_and_at_the_end_of_its_sentence(client, offer):
    assert [one.value for one in parse(template(client)).offers] == [offer]


@pytest.mark.parametrize("said", ["um muro de 3,50 m", "una botella de 0,75 l", "abierto de 9,30 h a 14 h"])
def test_a_measure_is_no_price(said):
    assert parse(template(f"Zen, {said}")).offers == ()


def test_what_is_left_of_a_phone_number_is_no_copy():
    brief = parse(template("Academia Norte: clases de apoyo de fisica para la ESO, telefono 976 555 014"))
    assert brief.what == "clases de apoyo de fisica para la ESO"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("bonjour, j'ai un atelier velo a Nantes, Le Rayon Libre, reparation en 24h", "french"),
        ("Coro Amador do Porto procura novas vozes; ensaios à quarta-feira, sem experiência", "portuguese"),
        ("oi! tenho uma bicicletaria em Curitiba chamada Roda Solta", "portuguese"),
        ("Grand vide-grenier de Saint-Aubin, dimanche 14 juin de 8h à 18h, 200 exposants", "french"),
        ("hola, tengo un taller de bicis, se llama Pedal Suelto", "spanish"),
    ],
)
def test_a_language_is_told_without_its_accents(text, language):
    assert detected(text) in {language, None}, "None leaves it to whoever asked"
    assert spoken(text) == language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("24-hour gym, no contracts, no fees, no sign-up, from the pro", "english"),
        ("Panadería Luna en la plaza", "spanish"),
        ("Panificio na rua, pão de verdade", "portuguese"),
    ],
)
def test_words_that_two_languages_share_do_not_tell(text, language):
    assert detected(text) in {language, None}
