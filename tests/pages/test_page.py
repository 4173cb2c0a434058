"""A page as a value: its rules, edits of it, and descriptions of changes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from pydantic import ValidationError

from callsheet.state.errors import Forbidden, Invalid, Missing, TooLarge
from callsheet.state.pages import edits, elements, styles
from callsheet.state.pages.history import STARTER, build_starter, diff
from callsheet.state.pages.page import MAX_DEPTH, MAX_ELEMENTS, ROOT, Element, Page, digest, digests, walk
from callsheet.state.pages.styles import NAMES


def change_texts(before: Page, after: Page) -> list[str]:
    return [change["text"] for change in diff(before, after)]


def contrast(ink: str, paper: str) -> float:
    """Return the contrast of two colours `#rrggbb`, 1 to 21 (WCAG 2.2, 1.4.3)."""
    light, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def element_ids(page: Page) -> list[str]:
    return [element.id for element, _ in walk(page.root)]


def test_the_starter_page_is_valid_and_has_named_elements():
    """C27."""
    assert build_starter() == STARTER
    assert STARTER.title() == "Say what you offer in one line"
    assert {"nav-1", "section-1", "heading-1", "button-1", "footer-1"} <= set(element_ids(STARTER))
    assert Page.model_validate(STARTER.data()) == STARTER


def test_an_edit_changes_only_its_element():
    """C21."""
    after = edits.modify(
        STARTER,
        "heading-1",
        content="Fresh bread, every morning",
        style={"color": "Navy", "fontSize": 40},  # type: ignore[dict-item]  # models send numbers
        attributes={"level": "2"},
    )
    heading = after.get("heading-1")
    assert heading.content == "Fresh bread, every morning"
    assert heading.style == {"color": "navy", "font-size": "40px"}
    old_digests, new_digests = digests(STARTER), digests(after)
    assert {name for name in old_digests if old_digests[name] != new_digests[name]} == {
        "page",
        "section-1",
        "heading-1",
    }
    assert STARTER.get("heading-1").content == "Say what you offer in one line"


def test_an_empty_value_removes_a_style_or_an_attribute():
    after = edits.modify(STARTER, "text-1", style={"font-weight": None})
    assert after.get("text-1").style == {}
    after = edits.modify(STARTER, "link-1", attributes={"href": ""}, label="Menu")
    assert after.get("link-1").attributes == {}
    assert change_texts(STARTER, after) == [
        'link-1 (Menu): label set to "Menu"',
        'link-1 (Menu): href "#section-2" removed',
    ]


def test_an_element_is_created_with_its_children():
    """C22."""
    field = {"type": "input", "attributes": {"type": "email", "required": ""}}
    new = {"type": "form", "label": "Contact", "children": [field, {"type": "h3", "content": "Write to us"}]}
    after, new_id = edits.create(STARTER, "section-1", new, "after")
    assert new_id == "form-1"
    assert [one.id for one in after.root.children] == [
        "nav-1",
        "section-1",
        "form-1",
        "section-2",
        "footer-1",
    ]
    assert after.get("input-1").attributes == {"type": "email", "required": "true"}
    assert after.get("heading-6").attributes == {"level": "3"}
    assert change_texts(STARTER, after) == ["added form-1 (Contact) and the 2 elements in it to the page"]


@pytest.mark.parametrize(("position", "place"), [("before", 0), ("after", 1), ("inside", -1)])
def test_an_element_is_created_before_after_or_inside_its_reference(position: Any, place: int):
    """C-R8."""
    reference = "section-1" if position == "inside" else "heading-1"
    after, new_id = edits.create(STARTER, reference, {"type": "text", "content": "Here"}, position)
    assert after.get("section-1").children[place].id == new_id


def test_the_id_of_a_deleted_element_is_not_reused():
    after, first_id = edits.create(STARTER, ROOT, {"type": "section"})
    without = edits.delete(after, first_id)
    recreated, second_id = edits.create(without, ROOT, {"type": "section"})
    assert (first_id, second_id) == ("section-3", "section-4")
    assert edits.clear(recreated).numbers == recreated.numbers


def test_deleting_an_element_deletes_its_children():
    after = edits.delete(STARTER, "columns-1")
    assert not {"card-1", "heading-3", "text-5"} & set(element_ids(after))
    assert change_texts(STARTER, after) == ["removed columns-1 and the 9 elements in it"]


def test_a_moved_element_keeps_its_ids():
    after = edits.move(STARTER, "section-2", "section-1", "before")
    assert digest(after.get("section-2")) == digest(STARTER.get("section-2"))
    assert change_texts(STARTER, after) in (
        ["moved section-2 (Features) after nav-1 in page"],
        ["moved section-1 (Hero) after section-2 in page"],
    )
    inside = edits.move(STARTER, "button-1", "card-1")
    assert change_texts(STARTER, inside) == ["moved button-1 (Get started) after text-3 in card-1"]
    first = edits.move(STARTER, "footer-1", "nav-1", "before")
    assert change_texts(STARTER, first) == ["moved footer-1 (Footer) to the beginning of page"]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda: edits.modify(STARTER, "heading-9", content="x"), "no element 'heading-9'"),
        (lambda: edits.modify(STARTER, "columns-1", style={"position": "fixed"}), "style 'position'"),
        (lambda: edits.modify(STARTER, "page", content="x"), "no text of its own"),
        (lambda: edits.create(STARTER, "heading-1", {"type": "text"}), "cannot hold"),
        (lambda: edits.create(STARTER, ROOT, {"type": "text"}, "before"), "no element can be before"),
        (lambda: edits.create(STARTER, ROOT, {"type": "script"}), "no element type 'script'"),
        (lambda: edits.create(STARTER, ROOT, {"type": "page"}), "one root"),
        (lambda: edits.create(STARTER, ROOT, {"type": "text", "children": [{"type": "text"}]}), "hold"),
        (lambda: edits.create(STARTER, "gone-1", {"type": "text"}), "no element 'gone-1'"),
        (lambda: edits.delete(STARTER, ROOT), "cannot be deleted"),
        (lambda: edits.move(STARTER, ROOT, "section-1"), "cannot be moved"),
        (lambda: edits.move(STARTER, "section-1", "heading-1", "after"), "inside it"),
        (lambda: edits.apply_theme(STARTER, "no such", {}), "no theme 'no such'"),
        (lambda: edits.apply_theme(STARTER, None, {"shadow": "red"}), "has no 'shadow'"),
        (lambda: edits.apply_theme(STARTER, None, {"primary": "var(--text)"}), "primary of a theme"),
    ],
)
def test_an_invalid_edit_raises_an_error_and_changes_nothing(edit: Any, message: str):
    """C25."""
    before = digest(STARTER.root)
    with pytest.raises((Invalid, Missing)) as refused:
        edit()
    assert message in refused.value.message
    assert refused.value.remedy
    assert digest(STARTER.root) == before


def test_a_page_is_limited_in_elements_depth_and_size():
    many = {"type": "container", "children": [{"type": "divider"}] * 199}
    page, _ = edits.create(STARTER, ROOT, many)
    page, _ = edits.create(page, ROOT, many)
    with pytest.raises(TooLarge, match=str(MAX_ELEMENTS)):
        edits.create(page, ROOT, many)
    with pytest.raises(Invalid, match="at most 200"):
        edits.create(STARTER, ROOT, {"type": "container", "children": [{"type": "divider"}] * 200})
    deep: dict[str, Any] = {"type": "text"}
    for _ in range(MAX_DEPTH):
        deep = {"type": "container", "children": [deep]}
    with pytest.raises(TooLarge, match="deep"):
        edits.create(STARTER, ROOT, deep)
    with pytest.raises(TooLarge, match="10000"):
        edits.modify(STARTER, "heading-1", content="x" * 10_001)
    with pytest.raises(TooLarge, match="label"):
        edits.modify(STARTER, "heading-1", label="x" * 81)
    big = [{"type": "text", "content": "x" * 10_000}] * 41
    with pytest.raises(TooLarge, match="bytes"):
        edits.create(STARTER, ROOT, {"type": "container", "children": big})


def test_a_page_read_from_data_is_validated():
    root = {"id": ROOT, "type": "page"}
    duplicate = {"id": "text-1", "type": "text"}
    for wrong in (
        {"root": {"id": "other", "type": "page"}},
        {"root": {"id": ROOT, "type": "iframe"}},
        {"root": root | {"children": [duplicate, duplicate]}},
        {"root": root | {"attributes": {"onload": "alert(1)"}}},
        {"root": root, "theme": {"primary": "url(x)"}},
    ):
        with pytest.raises(Invalid):
            Page.model_validate(wrong)
    with pytest.raises(ValidationError):
        Page.model_validate({"root": root | {"html": "<b>"}})
    empty = Page.model_validate({"root": root})
    assert empty.title() == "Untitled page"


def test_a_theme_applies_to_all_but_locked_elements():
    after = edits.apply_theme(STARTER, "Dark", {"primary": "gold"}, ["footer-1", "gone-1"])
    assert after.theme["background"] == styles.THEMES["dark"]["background"]
    assert after.theme["primary"] == "gold"
    assert after.pinned == {"footer-1": STARTER.theme}
    assert digest(after.get("footer-1")) == digest(STARTER.get("footer-1"))
    themed_twice = edits.apply_theme(after, "ocean", {}, ["footer-1"])
    assert themed_twice.pinned == {"footer-1": STARTER.theme}, (
        "the element keeps the theme that it had when it was locked"
    )
    assert edits.delete(themed_twice, "footer-1").pinned == {}
    assert 'theme: primary "#1d4ed8" → "gold"' in change_texts(STARTER, after)


@pytest.mark.parametrize("name", sorted(styles.THEMES))
def test_every_theme_has_enough_contrast(name: str):
    theme = styles.THEMES[name]
    assert styles.check_theme(theme) == theme
    for ink, paper in (("text", "background"), ("text", "surface"), ("muted", "background")):
        assert contrast(theme[ink], theme[paper]) >= 4.5, (ink, paper)
    assert contrast(theme["on-primary"], theme["primary"]) >= 4.5


EDITS_OF_LOCKED_ELEMENTS: list[tuple[str, Any]] = [
    ("footer-1", lambda: (edits.modify(STARTER, "footer-1", style={"color": "red"}), None)),
    ("footer-1", lambda: (edits.modify(STARTER, "text-6", content="x"), None)),
    ("footer-1", lambda: (edits.create(STARTER, "footer-1", {"type": "text"})[0], None)),
    ("footer-1", lambda: (edits.delete(STARTER, "footer-1"), None)),
    ("heading-1", lambda: (edits.delete(STARTER, "section-1"), None)),
    ("heading-1", lambda: (edits.move(STARTER, "section-1", "footer-1", "after"), "section-1")),
    ("footer-1", lambda: (edits.move(STARTER, "footer-1", "nav-1", "before"), "footer-1")),
    ("footer-1", lambda: (edits.move(STARTER, "text-6", "nav-1"), "text-6")),
    ("heading-1", lambda: (edits.clear(STARTER), None)),
    (ROOT, lambda: (edits.apply_theme(STARTER, "dark", {}), None)),
    (ROOT, lambda: (edits.modify(STARTER, "text-3", content="x"), None)),
]


@pytest.mark.parametrize(("locked", "edit"), EDITS_OF_LOCKED_ELEMENTS)
def test_a_locked_element_is_not_changed_deleted_or_moved(locked: str, edit: Any):
    after, shifted = edit()
    edits.check_locks(STARTER, after, ["gone-1"], shifted)
    with pytest.raises(Forbidden, match="locked"):
        edits.check_locks(STARTER, after, [locked], shifted)


def test_elements_around_a_locked_one_can_be_changed():
    after, _ = edits.create(STARTER, "footer-1", {"type": "section"}, "before")
    after = edits.modify(after, ROOT, attributes={"title": "Bread"})
    after = edits.move(after, "section-2", "section-1", "before")
    edits.check_locks(STARTER, after, ["footer-1"], "section-2")
    assert digest(after.get("footer-1")) == digest(STARTER.get("footer-1"))


def apply_edit(edit: str, page: Page, name: str, other: str, locked: str) -> Page:
    match edit:
        case "style":
            return edits.modify(page, name, style={"color": "red"})
        case "delete":
            return edits.delete(page, name)
        case "move":
            return edits.move(page, name, other, "before")
        case "create":
            return edits.create(page, name, {"type": "divider"})[0]
    return edits.apply_theme(page, "dark", {}, [locked])


@given(some.data())
@settings(max_examples=25, deadline=None)
def test_random_edits_that_pass_the_lock_check_leave_the_locked_element_unchanged(data: some.DataObject):
    """Edits that `check_locks` refuses are skipped."""
    page, locked = STARTER, data.draw(some.sampled_from(element_ids(STARTER)[1:]))
    for _ in range(4):
        name, other = (data.draw(some.sampled_from(element_ids(page))) for _ in range(2))
        edit = data.draw(some.sampled_from(["style", "delete", "move", "create", "theme"]))
        try:
            after = apply_edit(edit, page, name, other, locked)
            edits.check_locks(page, after, [locked], name if edit == "move" else None)
        except (Invalid, Forbidden, Missing):
            continue
        page = after
    assert digest(page.get(locked)) == digest(STARTER.get(locked))
    assert Page.model_validate(page.data()) == page
    assert (diff(STARTER, page) == []) is (page.root == STARTER.root and page.theme == STARTER.theme)


@pytest.mark.parametrize(
    ("prop", "value", "stored"),
    [
        ("color", "  RED ", "red"),
        ("color", "#1D4ED8", "#1d4ed8"),
        ("color", "rgb(10, 20, 30)", "rgb(10, 20, 30)"),
        ("background-color", "rgb(10 20 30 / 50%)", "rgb(10 20 30 / 50%)"),
        ("color", "var(--primary)", "var(--primary)"),
        ("background", "linear-gradient(90deg, red, #fff 50%)", "linear-gradient(90deg, red, #fff 50%)"),
        ("padding", "16", "16px"),
        ("padding", "1rem 2rem", "1rem 2rem"),
        ("margin", "0 auto", "0 auto"),
        ("line-height", "1.5", "1.5"),
        ("font-family", "'Open Sans', Arial, sans-serif", "'open sans', arial, sans-serif"),
        ("border", "1px solid #eee", "1px solid #eee"),
        ("box-shadow", "0 2px 8px rgba(0,0,0,0.2)", "0 2px 8px rgba(0,0,0,0.2)"),
        ("grid-template-columns", "repeat(3, 1fr)", "repeat(3, 1fr)"),
        ("flex", "1", "1"),
        ("opacity", "0.5", "0.5"),
        ("width", "inherit", "inherit"),
    ],
)
def test_a_plain_style_value_is_normalised(prop: str, value: str, stored: str):
    assert styles.check_value(prop, value) == stored
    assert styles.check_value(prop, stored) == stored


@pytest.mark.parametrize(
    ("prop", "value"),
    [
        ("grid-template-columns", "3"),
        ("color", "red; background: url(//evil.example)"),
        ("color", "٣px"),
        ("background", "url(javascript:alert(1))"),
        ("width", "calc(1px + 1px)"),
        ("width", "expression(alert(1))"),
        ("font-size", "1e9px"),
        ("padding", "1px " * 60),
        ("color", "red !important"),
        ("font-family", "x}body{display:none"),
    ],
)
def test_an_unsafe_style_value_is_refused(prop: str, value: str):
    with pytest.raises(Invalid, match="not allowed"):
        styles.check_value(prop, value)


@pytest.mark.parametrize("kind", sorted(elements.KINDS))
def test_every_type_of_element_takes_common_attributes_and_no_event_handler(kind: str):
    assert elements.check_attributes(kind, {"Title": " Hello ", "lang": "th"}) == {
        "lang": "th",
        "title": "Hello",
    }
    for name in ("onclick", "style", "srcdoc", "id", "class", "formaction", "background", "xlink:href"):
        with pytest.raises(Invalid, match="not allowed"):
            elements.check_attributes(kind, {name: "x"})


@pytest.mark.parametrize(
    ("address", "good"),
    [
        ("https://example.com/a?b=c#d", True),
        ("mailto:me@example.com", True),
        ("tel:+49301234", True),
        ("/about", True),
        ("#form-1", True),
        ("about.html", True),
        ("/path:with/colon", True),
        ("JavaScript:alert(1)", False),
        ("java\tscript:alert(1)", False),
        ("data:text/html,<script>", False),
        ("vbscript:x", False),
        ("//evil.example", False),
        ("/\\evil.example", False),
        ("https:evil.example", False),
        ("https://good.example@evil.example/", False),
        ("blob:https://example.com/1", False),
    ],
)
def test_only_safe_addresses_are_accepted(address: str, *, good: bool):
    if good:
        assert elements.check_attributes("link", {"href": address}) == {"href": address}
        return
    with pytest.raises(Invalid, match="href of a link"):
        elements.check_attributes("link", {"href": address})


def test_the_error_for_an_invalid_attribute_names_it():
    with pytest.raises(Invalid, match="level of a heading cannot be '9'") as raised:
        elements.check_attributes("heading", {"level": "9"})
    assert "a number from 1" in raised.value.remedy
    with pytest.raises(Invalid, match="alt of a image"):
        elements.check_attributes("image", {"alt": "x" * 2_001})


def test_common_names_of_elements_are_understood():
    assert [elements.parse_kind(word) for word in ("H1", " div ", "cta", "img", "hero")] == [
        "heading",
        "container",
        "button",
        "image",
        "section",
    ]
    assert elements.implied_attributes("ol") == {"ordered": "true"}
    assert elements.implied_attributes("section") == {}


def test_invisible_control_characters_are_removed_from_a_text():
    element = Element(
        id="text-1", type="text", content="a\x00b\x1b[31m\u202ec\r\nd\u200de\u00a0ไทย\u3000中文"
    )
    assert element.content == "ab[31mc\nd\u200de\u00a0ไทย\u3000中文"


def test_markup_and_sql_in_a_text_are_kept_as_text():
    """C58."""
    text = "Robert'); DROP TABLE students;-- <script>alert(1)</script>"
    after = edits.modify(STARTER, "heading-1", content=text)
    assert Page.model_validate(after.data()).get("heading-1").content == text


def test_every_named_css_colour_is_accepted():
    assert len(NAMES) == 148
    assert all(styles.check_value("color", name) == name for name in NAMES)


def test_long_texts_are_shortened_in_the_description_of_a_change():
    after = edits.modify(STARTER, "heading-1", content="word " * 100)
    (change,) = diff(STARTER, after)
    assert len(change["text"]) < 150
    assert change["after"] == "word " * 100
    assert after.get("heading-1").label_text().endswith("…)")
