"""What people wish of a page without naming an edit, in ten languages, and every example they are given."""

import json
import re
from functools import cache
from typing import Any

import pytest

from providers.offline.lexicon import SPOKEN
from providers.offline.page_builder import kits
from providers.offline.page_builder.notes import word
from providers.offline.page_builder.places import made
from providers.offline.page_builder.words import quotations
from providers.offline.sentences import sentences
from state import page_edits
from state.page import ROOT, Element, Page
from tests.page_chat import PageChat, spec
from tests.sentence_turn import FOLDER

WISHES = [json.loads(line) for line in (FOLDER / "page_wishes.jsonl").read_text("utf-8").splitlines()]
REVIEWS = {
    "english": "Reviews", "polish": "Opinie", "spanish": "Opiniones", "portuguese": "Opiniões",
    "czech": "Recenze", "romanian": "Recenzii", "indonesian": "Ulasan", "vietnamese": "Đánh giá",
    "thai": "รีวิว", "chinese": "评价",
}  # fmt: skip
_QUOTED = re.compile("“([^”]+)”|„([^”“]+)[”“]|«([^»]+)»")


@cache
def page_in(language: str) -> Page:
    """A page with a hero, About, prices, reviews and a last section, headed in a language."""
    inner: list[kits.Spec] = [
        {"type": "image", "attributes": {"alt": "Café"}},
        {"type": "button", "content": "OK"},
    ]
    parts = [
        kits.section("Sunrise Café", *inner, label="Hero", level="1"),
        kits.section("About"),
        kits.ready("pricing", word(language, "pricing"), language),
        kits.ready("quotes", REVIEWS[language], language),
        kits.section(word(language, "footer")),
    ]
    page = Page(root=Element(id=ROOT, type="page"))
    for one in parts:
        page, _ = page_edits.created(page, ROOT, spec(made(one)), "inside")
    return page


def place(page: Page, language: str) -> int:
    """Where the reviews are among the sections."""
    return [one.label for one in page.root.children].index(REVIEWS[language])


def done(wish: dict[str, Any], chat: PageChat) -> bool:
    """Whether exactly what was wished has happened."""
    calls = [one for one in chat.calls if one["name"] not in {"list_elements", "read_element"}]
    about = [chat.pages[0].find(one["args"].get("elementId", "")) for one in calls]
    names, kinds = [one["name"] for one in calls], [one.type for one in about if one]
    changed = [one["args"].get("modifications") for one in calls]
    if wish["asks"] == "add":
        return names == ["create_element"] and '"form"' in json.dumps(calls)
    if wish["asks"] == "remove":
        return names == ["delete_element"] and kinds == ["image"] and chat.asked
    if wish["asks"] == "colour":
        return kinds == ["heading"] and changed == [{"style": {"color": "red"}}]
    if wish["asks"] == "text":
        return kinds == ["button"] and changed == [{"content": wish["text"]}]
    moved = place(chat.page, wish["lang"]) < place(chat.pages[0], wish["lang"])
    return set(names) == {"move_element"} and moved


@pytest.mark.parametrize("language", SPOKEN)
def test_what_people_wish_is_done_and_nothing_else(language: str) -> None:
    """C21-C24, X18."""
    wrong = []
    for wish in (one for one in WISHES if one["lang"] == language):
        chat = PageChat(page_in(language))
        reply = chat.say(wish["say"])
        wrong += [] if done(wish, chat) else [(wish["say"], chat.calls, reply)]
    assert wrong == []


@pytest.mark.parametrize("language", SPOKEN)
def test_whatever_is_given_as_an_example_can_be_said(language: str) -> None:
    """X18: who repeats an example word for word is understood."""
    examples = [
        next(filter(None, one))
        for one in _QUOTED.findall(sentences("page_builder", language)["say.examples"])
    ]
    assert len(examples) == 6
    chat = PageChat(page_in(language))
    assert [one for one in examples if not (chat.say(one) and chat.made)] == []


@pytest.mark.parametrize(
    "text",
    ["turn the button into a link to /menu", "make the headline a bit bigger", "give the image a red border"],
)
def test_an_article_alone_asks_for_nothing_new(text: str) -> None:
    chat = PageChat(page_in("english"))
    chat.say(text)
    assert "create_element" not in [one["name"] for one in chat.calls]


def test_an_address_is_found_after_a_run_of_characters_that_another_could_begin_with():
    """Each of them was looked at to the end of the run: for these, longer than a test may take."""
    said = f'{"a." * 100_000} write to me@shop.example, "Hi"'
    assert [said[one.first : one.last] for one in quotations(said)] == ["me@shop.example", "Hi"]
