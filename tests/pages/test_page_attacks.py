"""Attacks on a page: payloads of cheat sheets in every field (C28, C58)."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from callsheet.state.errors import Invalid
from callsheet.state.pages import edits, elements, styles
from callsheet.state.pages.elements import KINDS
from callsheet.state.pages.history import STARTER
from callsheet.state.pages.page import ROOT, Page
from callsheet.tools.pages.html import render_document, sanitize
from tests.doubles.attacks import PAYLOADS
from tests.pages.page_double import same_page
from tests.pages.page_scanner import hostile_css, page_faults, scan_html

ACTIVE = re.compile(r"\s*(//|\\\\|/\\|java\s*script:|vbscript:|data:|blob:|view-source:|http)", re.IGNORECASE)
ATTRIBUTES = [(kind, name) for kind, one in KINDS.items() for name in one.attributes if kind != "page"]


def is_accepted(rule: Callable[..., object], *args: Any) -> bool:
    """Return whether a rule accepts these arguments; refused values are never stored."""
    try:
        rule(*args)
    except Invalid:
        return False
    return True


def elements_with_text(payload: str) -> list[dict[str, Any]]:
    """Elements with the payload as text and label, one of each type."""
    return [
        {"type": kind, "label": payload[:80], "content": payload if rules.says else ""}
        for kind, rules in KINDS.items()
        if kind != "page"
    ]


def elements_with_attribute(payload: str) -> list[dict[str, Any]]:
    """Elements with the payload as the value of an attribute, wherever it is accepted."""
    return [
        {"type": kind, "attributes": {name: payload}}
        for kind, name in ATTRIBUTES
        if is_accepted(elements.check_attributes, kind, {name: payload})
    ]


def elements_with_style(payload: str) -> list[dict[str, Any]]:
    """Elements with the payload as the value of a style, wherever it is accepted."""
    return [
        {"type": "text", "style": {prop: payload}}
        for prop in styles.PROPERTIES
        if is_accepted(styles.check_value, prop, payload)
    ]


def page_with_payload(payload: str) -> Page:
    """A page with the payload in every field that accepts it."""
    page = STARTER
    for elements_with in (elements_with_text, elements_with_attribute, elements_with_style):
        page, _ = edits.create(page, ROOT, {"type": "container", "children": elements_with(payload)})
    titles = {"title": payload, "description": payload}
    if is_accepted(elements.check_attributes, "page", titles):
        page = edits.modify(page, ROOT, attributes=titles)
    tokens = {token: payload for token in styles.TOKENS if is_accepted(styles.check_theme, {token: payload})}
    return edits.apply_theme(page, None, tokens)


def test_there_are_at_least_sixty_different_payloads():
    assert len(PAYLOADS) >= 60
    assert len(set(PAYLOADS)) == len(PAYLOADS)


@pytest.mark.slow
def test_no_payload_in_any_field_runs_loads_or_styles():
    """C28: in texts, labels, attributes, addresses, styles, themes and titles; texts are shown unchanged."""
    for payload in PAYLOADS:
        html = render_document(page_with_payload(payload)).html
        assert not (problems := page_faults(html)), (payload, problems)
        page = edits.modify(STARTER, "text-2", content=payload)
        stored = page.get("text-2").content
        assert "".join(stored.split()) in "".join(scan_html(render_document(page).html).text.split()), payload


def test_a_payload_is_refused_as_a_name_a_style_or_an_address():
    for payload in PAYLOADS:
        for edit in (
            lambda name=payload: edits.modify(STARTER, "heading-1", attributes={name: "x"}),
            lambda name=payload: edits.modify(STARTER, "heading-1", style={name: "red"}),
            lambda name=payload: edits.create(STARTER, ROOT, {"type": name}),
            lambda name=payload: edits.apply_theme(STARTER, name, {}),
            lambda name=payload: edits.apply_theme(STARTER, None, {name: "red"}),
        ):
            with pytest.raises(Invalid):
                edit()
        assert not elements_with_style(payload) or "(" not in payload
        assert not is_accepted(elements.check_attributes, "link", {"href": payload}) or not ACTIVE.match(
            payload
        ), payload


def test_the_sanitiser_alone_removes_every_payload():
    """A second line of defence, for markup that passed the other rules."""
    for payload in PAYLOADS:
        for html in (
            payload,
            f"<p>{payload}</p>",
            f'<a href="{payload}">x</a>',
            f"<p title='{payload}'>x</p>",
        ):
            scanner = scan_html(sanitize(html))
            assert not scanner.problems, (payload, scanner.problems)
            assert not scanner.styles


def test_the_scanner_reports_every_kind_of_problem():
    """Otherwise the other tests would prove nothing."""
    for html in (
        "<script>x</script>",
        "<p onclick=x>",
        "<a href='java\tscript:x'>",
        "<a href='//evil.example'>",
        "<img src=data:text/html,x>",
        "<p style='color:red'>",
        "<iframe srcdoc=x>",
        "<!-- x -->",
        "<meta http-equiv=refresh content=0>",
    ):
        assert scan_html(html).problems, html
    for css in ("a{background:url(x)}", "@import x", "a{color:\\72 ed}", "a{position:fixed}"):
        assert hostile_css(css), css
    good = render_document(STARTER).html
    assert not page_faults(good)
    assert page_faults(good.replace("<style>", "<style>a{color:red}")), "the policy names another stylesheet"


def test_a_hostile_stored_page_is_refused_when_it_is_read():
    """Also a version that was written to storage by hand."""
    hostile_root: dict[str, Any] = {"id": ROOT, "type": "page"}
    for child in (
        {"id": "x onload=alert(1)", "type": "text"},
        {"id": "text-1", "type": "text", "style": {"color": "url(//evil.example)"}},
        {"id": "text-1", "type": "text", "attributes": {"onclick": "alert(1)"}},
        {"id": "link-1", "type": "link", "attributes": {"href": "javascript:alert(1)"}},
    ):
        with pytest.raises((Invalid, ValueError)):
            Page.model_validate({"root": hostile_root | {"children": [child]}})


def test_every_type_of_element_is_exported_as_html():
    inside = [
        {"type": "ol", "children": [{"type": "item", "content": "First"}]},
        {"type": "video", "attributes": {"src": "https://a.example/v.mp4", "controls": "false"}},
        {"type": "video", "attributes": {"src": "https://a.example/v.mp4"}},
        {"type": "image", "attributes": {"alt": "A loaf"}},
        {"type": "image", "attributes": {"src": "/loaf.png", "alt": "A loaf"}},
        {"type": "input", "attributes": {"label": "Name", "required": "true"}},
        {"type": "checkbox", "attributes": {"label": "Agreed"}},
        {"type": "textarea", "attributes": {"value": "a < b"}},
        {"type": "select", "children": [{"type": "option", "content": "S", "attributes": {"value": "s"}}]},
        {"type": "button", "content": "Send"},
        {"type": "button", "content": "Back", "attributes": {"href": "/"}},
    ]
    page, _ = edits.create(STARTER, ROOT, {"type": "form", "label": "Order", "children": inside})
    page, _ = edits.create(page, ROOT, {"type": "button", "content": "Nowhere"})
    page = edits.modify(page, ROOT, attributes={"title": "Bread & more", "description": "All of it"})
    html = render_document(edits.apply_theme(page, "dark", {}, ["footer-1"]), external=True).html
    assert not page_faults(html)
    for piece in (
        '<ol id="list-1"><li id="item-1">First</li></ol>',
        '<video id="video-1" src="https://a.example/v.mp4"></video>',
        '<video id="video-2" controls="" src="https://a.example/v.mp4"></video>',
        '<div id="image-1" class="placeholder" role="img" aria-label="A loaf">A loaf</div>',
        '<img id="image-2" alt="A loaf" src="/loaf.png">',
        '<label>Name<input id="input-1" required="" type="text"></label>',
        '<label class="check"><input id="input-2" type="checkbox">Agreed</label>',
        '<textarea id="textarea-1">a &lt; b</textarea>',
        '<select id="select-1"><option id="option-1" value="s">S</option></select>',
        '<button id="button-2" type="submit">Send</button>',
        '<a id="button-3" href="/" class="button" rel="noopener noreferrer">Back</a>',
        '<button id="button-4" type="button">Nowhere</button>',
        "<title>Bread &amp; more</title>",
        '<meta name="description" content="All of it">',
        "#footer-1{--primary:#1d4ed8;",
    ):
        assert piece in html, piece


def test_pages_are_compared_without_their_id_counters():
    after, new_id = edits.create(STARTER, ROOT, {"type": "section"})
    assert same_page(STARTER, edits.delete(after, new_id))
    assert not same_page(STARTER, after)
