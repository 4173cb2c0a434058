"""The check of a page before it is published: rules with what was measured, a verdict and a remedy."""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import Final, Literal

from typing_extensions import TypedDict

from callsheet.state.pages.history import left_placeholders
from callsheet.state.pages.notices import dead_anchors, low_contrasts
from callsheet.state.pages.page import UNTITLED, Element, Page, walk

_TITLE: Final = 60
"""Characters of a title that search engines show."""
_ABOUT: Final = (50, 160)
"""Characters of a description that search engines show."""
_HALF: Final = re.compile(r"\A(?:www\.|[^:/?#@]++@)", re.IGNORECASE)
"""Addresses of a site or of a person without a scheme."""
_MOST: Final = 20
"""Elements that a check lists."""


class PageCheck(TypedDict):
    """One rule, with what was measured."""

    rule: str
    measured: str
    verdict: Literal["pass", "warn", "fail"]
    remedy: str
    """Empty for a rule that is met."""
    elements: list[str]
    """Ids of the elements that break it, at most twenty."""


def check_page(page: Page, dead_files: Collection[str]) -> list[PageCheck]:
    """Return a check for each rule; `dead_files` are addresses of its own files that have no content."""
    elements = [element for element, _ in walk(page.root)]
    return [
        _title(page),
        _description(page),
        _language(page),
        *_headings(elements),
        _words(elements),
        _placeholders(page),
        _action(elements),
        _forms(elements),
        *_images(elements, dead_files),
        _contrast(page),
        _links(page, elements, dead_files),
        _addresses(elements),
        _labels(elements),
    ]


def _check(
    rule: str,
    measured: str,
    remedy: str,
    broken_by: Iterable[str] = (),
    verdict: Literal["pass", "warn", "fail"] = "pass",
) -> PageCheck:
    return PageCheck(
        rule=rule,
        measured=measured,
        verdict=verdict,
        remedy="" if verdict == "pass" else remedy,
        elements=[*broken_by][:_MOST],
    )


def _of_elements(
    rule: str, lines: dict[str, str], remedy: str, verdict: Literal["warn", "fail"] = "fail"
) -> PageCheck:
    """Return the check of a rule that elements break; `lines` say what is wrong, by the element's id."""
    shown = "; ".join([*lines.values()][:_MOST])
    return _check(rule, shown or "ok", remedy, lines, verdict if lines else "pass")


def _patch(name: str) -> str:
    """Return the request that sets an attribute of the page itself."""
    return f"PATCH /api/pages/{{pageId}}/elements/page, with the page's version and attributes.{name}"


def _title(page: Page) -> PageCheck:
    title = page.root.attributes.get("title", "")
    remedy = (
        f"set `title`: what the page offers and for whom, in at most {_TITLE} characters; {_patch('title')}"
    )
    verdict: Literal["pass", "warn"] = "pass" if 0 < len(title) <= _TITLE else "warn"
    if not title and page.title() == UNTITLED:
        return _check("title", "none", remedy, ["page"], "fail")
    measured = f"{len(title)} characters" if title else "none of its own; the first heading stands for it"
    return _check("title", measured, remedy, ["page"] if verdict == "warn" else (), verdict)


def _description(page: Page) -> PageCheck:
    about, (least, most) = page.root.attributes.get("description", ""), _ABOUT
    remedy = (
        f"set `description` of the page: {least} to {most} characters that search engines show; "
        + _patch("description")
    )
    if not about:
        return _check("description", "none", remedy, ["page"], "fail")
    measured = f"{len(about)} characters"
    if least <= len(about) <= most:
        return _check("description", measured, "")
    return _check("description", measured, remedy, ["page"], "warn")


def _language(page: Page) -> PageCheck:
    language = page.root.attributes.get("lang", "")
    if language:
        return _check("language", language, "")
    return _check(
        "language",
        "none, so browsers read it as English",
        f"set `lang` of the page; {_patch('lang')}",
        ["page"],
        "warn",
    )


def _headings(elements: list[Element]) -> Iterator[PageCheck]:
    levels = [(one.id, int(one.attributes.get("level", "2"))) for one in elements if one.type == "heading"]
    first = [name for name, level in levels if level == 1]
    yield _check(
        "one main heading",
        f"{len(first)} heading{'' if len(first) == 1 else 's'} of level 1",
        "give one heading `level` 1, and the others 2 or more",
        first[1:] or [name for name, _ in levels[:1]] if len(first) != 1 else (),
        "pass" if len(first) == 1 else "fail",
    )
    jumps = {
        name: f"{name} of level {level} follows level {before}"
        if previous
        else f"the first heading, {name}, is of level {level}, not 1"
        for (previous, before), (name, level) in pairwise([("", 0 if not first else 1), *levels])
        if level > before + 1
    }
    remedy = "let each heading be one level below the one it belongs to"
    yield _of_elements("heading order", jumps, remedy, "warn")


def _words(elements: list[Element]) -> PageCheck:
    """Check that what is read out by its text has one."""
    bare = {
        one.id: f"{one.id} has no text"
        for one in elements
        if one.type in {"heading", "link", "button"}
        and not (one.content or one.attributes.get("aria-label", "")).strip()
    }
    return _of_elements("words in headings, links and buttons", bare, "write its text, or delete the element")


def _placeholders(page: Page) -> PageCheck:
    left = {name: f"{name} says “{text}”" for name, text in left_placeholders(page).items()}
    remedy = "write your own words in their place, or delete the elements"
    return _of_elements("no text of the starter page", left, remedy)


def _action(elements: list[Element]) -> PageCheck:
    """A page has one thing to do: buttons with one target, or one form."""
    targets: dict[str, str] = {}
    inside_forms = {inner.id for form in elements if form.type == "form" for inner, _ in walk(form)}
    for one in (element for element in elements if element.type == "button"):
        href = one.attributes.get("href", "")
        submits = (
            one.id in inside_forms and one.attributes.get("type", "link" if href else "submit") == "submit"
        )
        if submits or href:
            targets.setdefault("a form" if submits else href, one.id)
    remedy = "let all buttons lead to the same place, and make links of the others"
    if not targets:
        return _check(
            "one primary action", "no button leads anywhere", "add a button with `href`", (), "fail"
        )
    measured = f"buttons lead to {', '.join(targets)}"[:300]
    around = {
        button.id: f"{button.id} leads to {section.id}, which it is in"
        for section in elements
        for button, _ in walk(section)
        if button.type == "button" and button.attributes.get("href") == f"#{section.id}"
    }
    if around:
        remedy = "lead to where people act: a form, another page, an address or a number"
        return _check("one primary action", "; ".join(around.values())[:300], remedy, around, "warn")
    others = [*targets.values()][1:]
    return _check("one primary action", measured, remedy, others, "warn" if others else "pass")


def _forms(elements: list[Element]) -> PageCheck:
    lost = {
        one.id: f"{one.id} sends nothing, as it has no `action`"
        for one in elements
        if one.type == "form" and not one.attributes.get("action")
    }
    remedy = (
        "set `action` to the address of a service that takes the fields, or put a mailto: button in its place"
    )
    return _of_elements("forms reach somebody", lost, remedy, "warn")


def _images(elements: list[Element], dead_files: Collection[str]) -> Iterator[PageCheck]:
    images = [one for one in elements if one.type == "image"]
    untold = {one.id: f"{one.id} has none" for one in images if "alt" not in one.attributes}
    remedy = "say in `alt` what the image shows; leave it empty for a decoration"
    yield _of_elements("texts of images", untold, remedy)
    dead = {
        one.id: f"{one.id} has no image" if one.type == "image" else f"{one.id} has no film"
        for one in elements
        if one.type in {"image", "video"}
        and (not one.attributes.get("src") or one.attributes["src"] in dead_files)
    }
    yield _of_elements("images and films are there", dead, "upload the file, or delete the element")
    elsewhere = {
        one.id: f"{one.id} is on {one.attributes['src'].split('/')[2]}"
        for one in elements
        if one.type in {"image", "video"} and "://" in one.attributes.get("src", "")
    }
    remedy = "upload the file: another server learns of each visit, and may change or delete it"
    yield _of_elements("no files of other servers", elsewhere, remedy, "warn")


def _contrast(page: Page) -> PageCheck:
    remedy = "take a darker text, or a lighter background; 4.5 is the least, and 3 for large texts"
    return _of_elements("contrast", dict(low_contrasts(page)), remedy)


def _links(page: Page, elements: list[Element], dead_files: Collection[str]) -> PageCheck:
    dead = {name: f"{name} leads to {href}, which no element is" for name, href in dead_anchors(page)}
    for one in elements:
        href = one.attributes.get("href", "")
        if one.type == "link" and not href:
            dead[one.id] = f"{one.id} has no `href`"
        elif href in dead_files:
            dead[one.id] = f"{one.id} leads to a file that was not uploaded"
    return _of_elements(
        "links inside the page", dead, "let `href` be # and the id of an element, or delete it"
    )


def _addresses(elements: list[Element]) -> PageCheck:
    """Check that no address lacks its beginning: browsers look for a file of that name beside the page."""
    lost = {
        one.id: f"{one.id} leads to “{address[:80]}”, which is read as the name of a file"
        for one in elements
        for address in [one.attributes.get("href") or one.attributes.get("action", "")]
        if _HALF.match(address)
    }
    remedy = "begin the address with https://, or with mailto: where it is one for e-mail"
    return _of_elements("addresses of links", lost, remedy)


def _labels(elements: list[Element]) -> PageCheck:
    names = ("label", "aria-label", "title")
    nameless = {
        one.id: f"{one.id} has none"
        for one in elements
        if one.type in {"input", "textarea", "select"} and not any(one.attributes.get(name) for name in names)
    }
    return _of_elements("labels of fields", nameless, "set `label` of the field")
