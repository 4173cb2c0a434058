"""A page whose first section says the message of an ad, in the words of its script."""

import re
from collections.abc import Sequence
from typing import Final

from callsheet.state.languages import find
from callsheet.state.pages import edits
from callsheet.state.pages.history import BRAND, STARTER, left_placeholders
from callsheet.state.pages.page import ROOT, Page, walk
from callsheet.state.sentences import split_sentences

_HEADING: Final = 70
"""Characters of a heading."""
_TEXT: Final = 320
_BUTTON: Final = 32
_DOMAIN: Final = re.compile(r"\A(?:https?://)?(?:[a-z0-9-]{1,63}\.){1,4}[a-z]{2,24}(?:/[\w./-]{0,200}+)?\Z")
_MIN_WORDS: Final = 2


def hero_page(lines: Sequence[str], language: str, name: str = "") -> Page:
    """Return a page with heading, text and button of an ad's lines, and the client's name.

    Without a name the address stands for it. What the lines have no words for is left out: places of the
    name, texts of the starter page, and its section of features with the links to it.

    The first sentence that is short enough is the heading, the last one the button, which leads to the
    address that the lines name, if they name one.
    """
    parts = [one.strip() for line in lines for one in split_sentences(line, language)]
    sentences = [*dict.fromkeys(one for one in parts if one)]
    address = next((one.rstrip(".!") for one in sentences if _DOMAIN.match(one.rstrip(".!").casefold())), "")
    sayings = [one for one in sentences if not _DOMAIN.match(one.rstrip(".!").casefold())]
    long_enough = [one for one in sayings if len(one.split()) >= _MIN_WORDS] or sayings
    heading = next((one for one in long_enough if len(one) <= _HEADING), "")
    rest = [one for one in sayings if one != heading]
    button = rest[-1] if rest and len(rest[-1]) <= _BUTTON else ""
    text = _within([one for one in rest if one != button])
    page = _with_hero(heading.rstrip("."), text, button.rstrip("."), address, language)
    return _without_starter_texts(_with_name(page, name or address))


def _without_starter_texts(page: Page) -> Page:
    """Return the page without the features, the texts that only say what belongs there, and empty parts."""
    features = next(one for one in page.root.children if one.label == "Features")
    page = edits.delete(page, features.id)
    for element, _ in [*walk(page.root)]:
        if element.attributes.get("href") == f"#{features.id}":
            page = edits.delete(page, element.id)
    for element_id in left_placeholders(page):
        page = edits.delete(page, element_id)
    for part in page.root.children:
        page = page if part.children else edits.delete(page, part.id)
    return page


def _with_name(page: Page, name: str) -> Page:
    """Return the page with a name where the starter page has a place for one."""
    for element_id, words in left_placeholders(page).items():
        if BRAND in words and name:
            page = edits.modify(page, element_id, content=words.replace(BRAND, name))
        elif BRAND in words:
            page = edits.delete(page, element_id)
    return page


def _within(sentences: Sequence[str]) -> str:
    """Return the sentences from the first on that are short enough together."""
    text = ""
    for one in sentences:
        if len(text) + len(one) > _TEXT:
            break
        text = f"{text} {one}".strip()
    return text


def _with_hero(heading: str, text: str, button: str, address: str, language: str) -> Page:
    spec = find(language)
    head = {"lang": spec.code if spec else "en", **({"title": heading} if heading else {})}
    page = edits.modify(STARTER, ROOT, attributes=head)
    hero = next(one for one in page.root.children if one.label == "Hero")
    contents = {"heading": heading, "text": text, "button": button}
    for element in hero.children:
        if words := contents.get(element.type):
            page = edits.modify(page, element.id, content=words)
        if element.type == "button" and (address or button):
            # Without an address it leads to the beginning, as the features that it led to are left out.
            href = address if address.startswith("http") else f"https://{address}"
            page = edits.modify(page, element.id, attributes={"href": href if address else f"#{hero.id}"})
    return page
