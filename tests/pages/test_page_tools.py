"""The tools of a page, called through the guard."""

import asyncio
from typing import Any

import pytest

from callsheet.state.pages import history
from callsheet.state.pages.page import STREAM, UPLOADS, digest, digests
from callsheet.state.pages.starter import STARTER
from callsheet.tools import REGISTRY
from callsheet.tools.registry import definitions
from tests.pages.page_double import PageDouble


@pytest.fixture
def bakery(opened) -> PageDouble:
    return PageDouble(opened)


async def test_an_edit_is_a_version_with_its_differences(bakery: PageDouble):
    """C21, C27: one stream of versions, each with what is different, in words."""
    made = await bakery.done(
        "modify_element",
        elementId="heading-1",
        modifications={"content": "Fresh bread", "style": {"fontSize": 40}, "attributes": {"level": "1"}},
    )
    assert made == {
        "versionId": "v1",
        "elementId": "heading-1",
        "pageId": "bakery",
        "changes": [
            'heading-1: content "Say what you offer in one line" → "Fresh bread"',
            'heading-1 (Fresh bread): font-size set to "40px"',
        ],
    }
    (version,) = (await bakery.artefact.stream(STREAM)).versions
    assert version.data["back"] == "start"
    assert (await bakery.page()).get("heading-1").style == {"font-size": "40px"}


async def test_a_whole_form_is_made_in_one_call(bakery: PageDouble):
    """C22."""
    field = {"elementType": "input", "properties": {"attributes": {"type": "email", "required": True}}}
    send = {"elementType": "button", "properties": {"content": "Send", "attributes": {"type": "submit"}}}
    made = await bakery.done(
        "create_element",
        parentId="section-1",
        elementType="form",
        properties={"label": "Contact", "children": [field, send]},
        position="after",
    )
    assert made["elementId"] == "form-1"
    assert made["changes"] == ["added form-1 (Contact) with 2 elements inside in page"]
    assert (await bakery.page()).get("input-1").attributes == {"required": "true", "type": "email"}


async def test_elements_are_moved_deleted_themed_and_cleared(bakery: PageDouble):
    await bakery.done("move_element", elementId="button-1", parentId="card-1")
    await bakery.done("delete_element", elementId="card-3")
    await bakery.done("apply_theme", theme="dark", tokens={"primary": "gold"})
    page = await bakery.page()
    assert page.parents()["button-1"] == "card-1"
    assert page.find("card-3") is None
    assert page.theme["primary"] == "gold"
    cleared = await bakery.done("clear_page")
    assert cleared["versionId"] == "v4"
    assert (await bakery.page()).root.children == ()


def test_what_takes_away_is_asked_about_first():
    """C-R1: the tools that delete are potentially destructive, and no other is."""
    destructive = {name for name, tool in REGISTRY.of("page").items() if tool.is_destructive}
    assert destructive == {"delete_element", "clear_page"}


def test_models_are_given_every_tool_with_plain_schemas():
    """C3."""
    told = definitions(REGISTRY.of("page"))
    names = {one["function"]["name"] for one in told}
    assert {"modify_element", "create_element", "list_elements", "read_element", "undo"} <= names
    for one in told:
        assert "additionalProperties" not in str(one)
        assert "'title': '" not in str(one["function"]["parameters"])


async def test_this_is_what_the_person_has_selected(bakery: PageDouble):
    """C26."""
    refused = await bakery.refused("modify_element", elementId="this", modifications={"content": "x"})
    assert refused["type"] == "validation_error"
    assert "no element is selected" in refused["error"]
    bakery.selected = "button-1"
    made = await bakery.done("modify_element", elementId="It", modifications={"content": "Order now"})
    assert made["elementId"] == "button-1"
    assert (await bakery.done("read_element", elementId="this"))["content"] == "Order now"
    await bakery.done("create_element", parentId="this", elementType="text", properties={}, position="after")
    await bakery.done("move_element", elementId="this", parentId="footer-1")
    assert (await bakery.done("list_elements"))["selectedElementId"] == "button-1"
    await bakery.done("delete_element", elementId="selected")
    assert (await bakery.page()).find("button-1") is None


@pytest.mark.parametrize(
    ("tool", "params", "says"),
    [
        ("modify_element", {"elementId": "gone-1", "modifications": {"content": "x"}}, "no element 'gone-1'"),
        ("delete_element", {"elementId": "gone-1"}, "no element 'gone-1'"),
        ("read_element", {"elementId": "gone-1"}, "no element 'gone-1'"),
        ("move_element", {"elementId": "heading-1", "parentId": "gone-1"}, "no element 'gone-1'"),
        ("modify_element", {"elementId": "heading-1", "modifications": {}}, "would be different"),
        ("modify_element", {"elementId": "heading-1", "modifications": {"html": "<b>"}}, "html"),
        ("create_element", {"parentId": "page", "elementType": "script", "properties": {}}, "'script'"),
        (
            "create_element",
            {
                "parentId": "page",
                "elementType": "form",
                "properties": {"children": [{"elementType": "input"}, {"type": "x"}]},
            },
            "inside the form",
        ),
        ("apply_theme", {}, "neither theme nor tokens"),
        ("apply_theme", {"theme": "no such"}, "no theme"),
        ("find_elements", {}, "neither query nor elementType"),
        ("undo", {}, "nothing to undo"),
    ],
)
async def test_what_cannot_be_done_says_so_and_makes_no_version(bakery: PageDouble, tool, params, says):
    """C25, C33, C49."""
    refused = await bakery.refused(tool, **params)
    assert refused["type"] == "validation_error"
    assert says in refused["error"]
    assert (await bakery.artefact.stream(STREAM)).versions == ()


async def test_the_page_can_be_looked_at_before_it_is_changed(bakery: PageDouble):
    """C-R12."""
    await bakery.artefact.lock("footer-1", "local")
    listed = await bakery.done("list_elements")
    assert listed["versionId"] is None
    assert listed["elements"][0] == {"id": "page", "type": "page", "depth": 0}
    (footer,) = [one for one in listed["elements"] if one["id"] == "footer-1"]
    assert footer == {"id": "footer-1", "type": "footer", "label": "Footer", "locked": True, "depth": 1}
    part = await bakery.done("list_elements", parentId="nav-1")
    assert [one["id"] for one in part["elements"]] == ["nav-1", "text-1", "link-1"]
    read = await bakery.done("read_element", elementId="text-6")
    assert (read["parentId"], read["locked"], read["content"]) == ("footer-1", True, "© Your brand")
    assert read["digest"] == digest(STARTER.get("text-6"))
    assert (await bakery.done("read_element", elementId="page"))["parentId"] is None


async def test_elements_are_found_by_words_and_type(bakery: PageDouble):
    found = await bakery.done("find_elements", query="REASON second")
    assert [one["id"] for one in found["elements"]] == ["heading-4"]
    assert found["elements"][0]["parentId"] == "card-2"
    links = await bakery.done("find_elements", elementType="a")
    assert [one["id"] for one in links["elements"]] == ["link-1"]
    assert (await bakery.done("find_elements", query="href:#section-2"))["count"] == 2
    assert (await bakery.done("find_elements", query="nothing like it"))["count"] == 0
    await bakery.done("modify_element", elementId="text-2", modifications={"content": "word " * 40})
    (long,) = (await bakery.done("find_elements", query="word"))["elements"]
    assert len(long["content"]) == 120


async def test_undo_goes_back_and_further_back(bakery: PageDouble):
    for text in ("one", "two", "three"):
        await bakery.done("modify_element", elementId="heading-1", modifications={"content": text})

    async def shown():
        return (await bakery.page()).get("heading-1").content

    assert (await bakery.done("undo"))["restored"] == "v2"
    assert await shown() == "two"
    assert (await bakery.done("undo"))["restored"] == "v1"
    await bakery.done("modify_element", elementId="heading-1", modifications={"content": "four"})
    assert (await bakery.done("undo"))["versionId"] == "v7"
    assert await shown() == "one"
    assert (await bakery.done("undo"))["restored"] == "start"
    assert (await bakery.page()).root == STARTER.root
    assert "nothing to undo" in (await bakery.refused("undo"))["error"]
    versions = (await bakery.artefact.stream(STREAM)).versions
    assert [version.parent for version in versions] == [None, "v1", "v2", "v2", "v1", "v5", "v5", "v7"]


async def test_undo_takes_several_steps_and_gives_no_id_again(bakery: PageDouble):
    for _ in range(3):
        await bakery.done("create_element", parentId="page", elementType="section", properties={})
    undone = await bakery.done("undo", steps=3)
    assert undone["changes"] == ["removed section-3", "removed section-4", "removed section-5"]
    made = await bakery.done("create_element", parentId="page", elementType="section", properties={})
    assert made["elementId"] == "section-6"
    refused = await bakery.refused("undo", steps=3)
    assert (refused["type"], refused["error"]) == ("validation_error", "only 1 change can be undone")


LOCKED: list[tuple[str, dict[str, Any]]] = [
    ("modify_element", {"elementId": "text-6", "modifications": {"content": "x"}}),
    ("modify_element", {"elementId": "footer-1", "modifications": {"style": {"color": "red"}}}),
    ("create_element", {"parentId": "footer-1", "elementType": "text", "properties": {}}),
    ("delete_element", {"elementId": "footer-1"}),
    ("move_element", {"elementId": "footer-1", "parentId": "nav-1", "position": "before"}),
    ("clear_page", {}),
]


@pytest.mark.parametrize(("tool", "params"), LOCKED)
async def test_what_a_person_locked_stays_to_the_byte(bakery: PageDouble, tool, params):
    await bakery.artefact.lock("footer-1", "local")
    refused = await bakery.refused(tool, **params)
    assert refused["type"] == "permission_denied"
    assert "locked" in refused["error"]
    assert (await bakery.artefact.stream(STREAM)).versions == ()
    await bakery.artefact.unlock("footer-1")
    await bakery.done(tool, **params)


async def test_around_what_is_locked_all_may_change_and_it_keeps_its_look(bakery: PageDouble):
    await bakery.artefact.lock("footer-1", "local")
    await bakery.done("modify_element", elementId="heading-1", modifications={"content": "New"})
    await bakery.done("apply_theme", theme="dark")
    page = await bakery.page()
    assert digests(page)["footer-1"] == digests(STARTER)["footer-1"]
    assert page.pinned["footer-1"] == STARTER.theme


async def test_an_undo_leaves_alone_what_was_locked_meanwhile(bakery: PageDouble):
    await bakery.done("modify_element", elementId="text-6", modifications={"content": "© Bakery"})
    await bakery.artefact.lock("footer-1", "local")
    assert (await bakery.refused("undo"))["type"] == "permission_denied"


@pytest.mark.parametrize("name", [STREAM, "page"])
async def test_a_locked_page_takes_no_change_at_all(bakery: PageDouble, name: str):
    await bakery.artefact.lock(name, "local")
    for tool, params in (*LOCKED, ("apply_theme", {"theme": "dark"})):
        assert (await bakery.refused(tool, **params))["type"] == "permission_denied"


async def test_edits_of_one_moment_follow_each_other_and_none_is_lost(bakery: PageDouble):
    made = await asyncio.gather(
        *(
            bakery.again("modify_element", f"m{i}", elementId=f"text-{i}", modifications={"content": f"T{i}"})
            for i in range(1, 7)
        )
    )
    assert all(outcome.ok for outcome in made)
    page = await bakery.page()
    assert [page.get(f"text-{i}").content for i in range(1, 7)] == [f"T{i}" for i in range(1, 7)]


async def test_a_step_that_is_carried_out_again_makes_one_version(bakery: PageDouble):
    asked = {"parentId": "page", "elementType": "section", "properties": {}}
    first = await bakery.again("create_element", "c1", **asked)
    assert await bakery.again("create_element", "c1", **asked) == first
    assert len((await bakery.artefact.stream(STREAM)).versions) == 1


async def test_what_a_model_says_of_user_and_page_is_not_heard(opened, bakery: PageDouble):
    """C2, C58: whose page it is, is the server's to say, whatever the arguments hold."""
    alices = PageDouble(opened, "secret", "alice")
    await alices.done("modify_element", elementId="heading-1", modifications={"content": "zyxomma"})
    made = await bakery.done(
        "modify_element",
        elementId="heading-1",
        modifications={"content": "mine", "userId": "alice"},
        pageId="secret",
        userId="alice",
        conversationId="theirs",
    )
    assert made["pageId"] == "bakery"
    for tool in ("list_elements", "clear_page", "undo"):
        told = await bakery.call(tool, pageId="secret", userId="alice")
        assert "zyxomma" not in str(told.output)
    assert (await alices.page()).get("heading-1").content == "zyxomma"
    assert len((await alices.artefact.stream(STREAM)).versions) == 1


async def test_two_owners_may_call_their_pages_the_same(opened):
    alices, bobs = PageDouble(opened, "home", "alice"), PageDouble(opened, "home", "bob")
    await alices.done("modify_element", elementId="heading-1", modifications={"content": "zyxomma"})
    assert (await bobs.page()).get("heading-1").content == STARTER.get("heading-1").content


async def test_sql_and_markup_are_stored_as_the_text_they_are(bakery: PageDouble):
    """C58."""
    said = "1'; DROP TABLE pages;-- \" OR 1=1 /* <img src=x onerror=alert(1)> {{7*7}} ${jndi:ldap://x}"
    await bakery.done("modify_element", elementId="heading-1", modifications={"content": said})
    assert (await bakery.done("read_element", elementId="heading-1"))["content"] == said
    assert (await bakery.done("find_elements", query="DROP TABLE"))["count"] == 1


async def test_many_differences_are_told_as_the_first_and_a_number(bakery: PageDouble):
    style = dict.fromkeys(("padding", "margin", "gap", "width", "height", "row-gap", "column-gap"), "1px")
    made = await bakery.done("modify_element", elementId="heading-1", modifications={"style": style})
    assert len(made["changes"]) == 7
    (version,) = (await bakery.artefact.stream(STREAM)).versions
    assert history.summary(version.data).endswith("; and 4 more")
    for i in range(3):
        wide = {f"{kind}-{side}": f"{i + 2}px" for kind in ("padding", "margin") for side in ("top", "left")}
        told = {"style": style | wide | dict.fromkeys(style, f"{i + 2}px")}
        await bakery.done("modify_element", elementId=f"text-{i + 2}", modifications=told)
    undone = await bakery.done("undo", steps=3)
    assert undone["changes"][-1] == "and 13 more"
    await bakery.artefact.lock("section-1", "local")
    assert (await bakery.done("read_element", elementId="heading-1"))["locked"] is True
    assert (await bakery.done("read_element", elementId="footer-1"))["locked"] is False
    listed = await bakery.done("list_elements", userId="x")
    assert listed["versionId"] == "v5"


async def test_arguments_that_are_no_object_at_all_are_refused(bakery: PageDouble):
    for wrong in ({"modifications": "red"}, {"modifications": {"style": "red"}}):
        refused = await bakery.refused("modify_element", elementId="heading-1", **wrong)
        assert refused["type"] == "validation_error"


def test_a_page_has_two_streams():
    assert (STREAM, UPLOADS) == ("page", "uploads")
