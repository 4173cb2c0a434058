"""What people say who want a whole page at once, and what the offline model makes of it."""

import json
from collections import Counter
from typing import Any

import pytest

from providers.offline.lexicon import SPOKEN
from state.page import ROOT, Element, Page, walk
from state.starter_page import START
from tests.page_chat import PageChat
from tests.page_score import page_of
from tests.sentence_turn import FOLDER

BRIEFS = [json.loads(line) for line in (FOLDER / "page_briefs.jsonl").read_text("utf-8").splitlines()]
EMPTY = Page(root=Element(id=ROOT, type="page"))
DENTIST = BRIEFS[0]["say"]


def added(chat: PageChat) -> list[Element]:
    """The sections that were not there before."""
    known = {one.id for one, _ in walk(chat.pages[0].root)}
    return [one for one in chat.page.root.children if one.id not in known]


def heading(one: Element) -> str:
    return next(each.content for each, _ in walk(one) if each.type == "heading")


def words(*parts: Element) -> str:
    return "\n".join(each.content for one in parts for each, _ in walk(one) if each.content)


def wrong(brief: dict[str, Any], chat: PageChat, reply: str) -> list[str]:
    """What was expected of a brief said to the page a project begins with, and did not happen."""
    parts, title = added(chat), chat.page.get("heading-1").content
    below, everything = chat.page.get("text-2").content, words(*added(chat))
    facts = [
        (title, brief["title"] or START.get("heading-1").content),
        ([heading(one) for one in parts], brief["parts"]),
        (sum(each.type == "form" for one in parts for each, _ in walk(one)), brief.get("forms", 0)),
        (below, brief.get("below", START.get("text-2").content)),
    ]
    missed = [f"{seen!r} is not {want!r}" for seen, want in facts if seen != want]
    missed += [f"no {one!r} on the page" for one in brief.get("says", []) if one not in everything]
    missed += [f"{one!r} is not asked for" for one in brief["ask"] if f"{one}" not in everything]
    untold = [one for one in brief["ask"] if one.split(":")[0].split("：")[0] not in reply]
    untold += [one for one in brief.get("reply", []) if one not in reply.lower()]
    dark = chat.page.theme["background"] != START.theme["background"]
    return [*missed, *(f"the reply says nothing of {one!r}: {reply}" for one in untold)] + (
        ["the theme is another"] if dark != ("theme" in brief) else []
    )


@pytest.mark.parametrize("language", SPOKEN)
def test_a_page_is_made_of_one_message(language: str) -> None:
    """C10, C22: a headline and a section for each thing that was asked for, in the order they were said."""
    failures: dict[str, list[str]] = {}
    for brief in (one for one in BRIEFS if one["lang"] == language):
        chat = PageChat(START)
        reply = chat.say(brief["say"])
        failures |= {brief["id"]: found} if (found := wrong(brief, chat, reply)) else {}
        assert not chat.asked
    assert failures == {}


def test_there_are_briefs_in_every_language() -> None:
    counted = Counter(one["lang"] for one in BRIEFS)
    assert set(counted) == set(SPOKEN)
    assert min(counted.values()) >= 2
    assert len(BRIEFS) >= 30


def test_an_empty_page_begins_with_who_and_where() -> None:
    chat = PageChat(EMPTY)
    chat.say(DENTIST)
    assert [heading(one) for one in chat.page.root.children] == [
        "Dentist in Lisbon", "Opening hours", "Prices", "Contact form",
    ]  # fmt: skip
    [title] = [one for one, _ in walk(chat.page.root) if one.content == "Dentist in Lisbon"]
    assert title.attributes["level"] == "1"


def test_no_fact_is_invented() -> None:
    """Figures on the page are those that were said; what was not said is asked for."""
    chat = PageChat(EMPTY)
    chat.say(DENTIST)
    assert not any(char.isdigit() for char in words(*chat.page.root.children))
    assert "Opening hours: tell me yours." in words(*chat.page.root.children)


def test_a_page_that_has_sections_gets_only_what_it_lacks() -> None:
    chat = PageChat(page_of("gym"))
    reply = chat.say("I'm a trainer in York, make me a page with prices, opening hours and a FAQ")
    assert [heading(one) for one in added(chat)] == ["Opening hours"]
    before = {one.id: one.content for one, _ in walk(chat.pages[0].root)}
    assert {name: chat.page.get(name).content for name in before} == before
    assert [one.id for one in chat.page.root.children][-1] == "end"
    assert "prices" in reply.lower()
    assert "“Iron Oak Gym”" in reply


def test_the_same_said_again_changes_nothing() -> None:
    chat = PageChat(START)
    chat.say(DENTIST)
    page = chat.page
    assert "already" in chat.say(DENTIST)
    assert chat.page == page


@pytest.mark.parametrize(
    "told",
    [
        "Opening hours: Mon to Fri, 9 to 17",
        "our opening hours are Mon to Fri, 9 to 17",
        "the opening hours: Mon to Fri, 9 to 17.",
    ],
)
def test_what_was_asked_for_is_told_in_the_next_message(told: str) -> None:
    chat = PageChat(START)
    chat.say(DENTIST)
    reply = chat.say(told)
    assert "Mon to Fri, 9 to 17" in words(*added(chat)), reply
    assert "Opening hours: tell me yours." not in words(*added(chat))
    assert "Prices: tell me yours." in words(*added(chat))


def test_several_facts_are_told_at_once() -> None:
    chat = PageChat(START)
    chat.say(DENTIST)
    reply = chat.say("Opening hours: 9 to 17\nPrices: from 40 euros")
    assert "9 to 17" in words(*added(chat))
    assert "from 40 euros" in words(*added(chat)), reply


@pytest.mark.parametrize(
    "text",
    [
        "make the page dark",
        "make me a page",
        "create a button on my page with a red border",
        "Buat halaman dengan latar biru",
        "zrób stronę z ciemnym tłem",
    ],
)
def test_an_edit_of_the_page_is_no_brief(text: str) -> None:
    chat = PageChat(START)
    chat.say(text)
    assert "section" not in [one.type for one in added(chat)]
    assert chat.page.get("heading-1").content == START.get("heading-1").content


def test_more_than_fits_is_said() -> None:
    chat = PageChat(START)
    names = [f"topic {letter}" for letter in "abcdefghijklmno"]
    reply = chat.say(f"Make me a page with {', '.join(names)}")
    assert len(added(chat)) == 12
    assert "topic o" in reply.lower()


def labels(chat: PageChat) -> list[str]:
    inside = [each for one in added(chat) for each, _ in walk(one)]
    return [each.attributes["label"] for each in inside if each.type in {"input", "textarea"}]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            "with a contact form with name, phone and message",
            ["Your name", "Your phone number", "Your message"],
        ),
        ("with a booking form with name and date", ["Your name", "Date"]),
        ("with a newsletter", ["Your email"]),
    ],
)
def test_a_form_has_the_fields_that_were_named(text: str, fields: list[str]) -> None:
    chat = PageChat(START)
    reply = chat.say(f"Make me a page for a bakery {text}")
    assert labels(chat) == fields
    assert "goes nowhere yet" in reply


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("I'm a dentist in Lisbon, I need opening hours, prices and a contact form", "Dentist in Lisbon"),
        ("Sou dentista em Lisboa, preciso de horário e preços", "Dentista em Lisboa"),
        ("I'm Ana, make a page for my bakery in Porto with opening hours and prices", "Bakery in Porto"),
    ],
)
def test_who_says_what_they_are_and_need_gets_a_page(text: str, title: str) -> None:
    chat = PageChat(START)
    chat.say(text)
    assert chat.page.get("heading-1").content == title
    assert len(added(chat)) >= 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("make me a page", "whose page it is"),
        ("I need a landing page", "whose page it is"),
        ("Stwórz stronę", "czyja to strona"),
        ("make a page about me", "whose page it is"),
    ],
)
def test_a_page_of_which_nothing_is_said_is_asked_about(text: str, words: str) -> None:
    chat = PageChat(START)
    assert words in chat.say(text)
    assert chat.page == START


def test_parts_of_a_page_and_its_look_are_made_as_such() -> None:
    chat = PageChat(EMPTY)
    reply = chat.say(
        "Make a page for a bakery with a header, prices and a footer. Use a dark theme. Then sing."
    )
    assert sorted(one.type for one in chat.page.root.children) == ["footer", "header", "section", "section"]
    assert chat.page.theme["background"] != EMPTY.theme["background"]
    assert "“Then sing”" in reply


def test_a_look_that_is_not_known_is_asked_for_again() -> None:
    chat = PageChat(START)
    reply = chat.say("Make a page for a bakery with prices and bigger colours and a theme")
    assert "bigger colours" in reply.lower()
    assert "which theme" in reply


def test_a_name_and_what_it_is_fill_the_headline_of_an_empty_page() -> None:
    chat = PageChat(EMPTY)
    chat.say("We are Iron Fang, a metal band on tour. We want a website with tour dates.")
    assert words(chat.page.root.children[0]).splitlines() == ["Iron Fang", "A metal band on tour"]


def test_a_locked_headline_stays() -> None:
    chat = PageChat(START, locked=["heading-1"])
    assert "locked" in chat.say(DENTIST)
    assert chat.page.get("heading-1") == START.get("heading-1")
    assert len(added(chat)) == 3


def test_orders_beside_a_brief_are_no_part_of_the_page() -> None:
    chat = PageChat(START)
    reply = chat.say(
        "Make a page for a bakery with prices. Prices should be dark blue. Add a button called Buy."
    )
    assert [heading(one) for one in added(chat)] == ["Prices"]
    assert chat.page.get("heading-1").content == "Bakery"
    assert "“Prices should be dark blue”" in reply
    assert "“Add a button called Buy”" in reply
