"""The tools of a page, called through the guard."""

import asyncio
from typing import Any

import pytest

from callsheet.state.pages import history
from callsheet.state.pages.history import STARTER
from callsheet.state.pages.page import STREAM, UPLOADS, digest, digests
from callsheet.tools import REGISTRY
from callsheet.tools.registry import definitions
from tests.pages.page_double import PageDouble


@pytest.fixture
async def bakery(opened) -> PageDouble:
    double = PageDouble(opened)
    await double.artefact.open(owner=double.owner, thread=double.thread, facts={})
    return double


async def test_an_edit_makes_a_version_with_a_description_of_its_changes(bakery: PageDouble):
    """C21, C27: one stream of versions, each with its changes in words."""
    result = await bakery.result_of(
        "modify_element",
        elementId="heading-1",
        modifications={"content": "Fresh bread", "style": {"fontSize": 40}, "attributes": {"level": "1"}},
    )
    assert result == {
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


async def test_a_form_with_its_fields_is_created_in_one_call(bakery: PageDouble):
    """C22."""
    field = {"elementType": "input", "properties": {"attributes": {"type": "email", "required": True}}}
    send = {"elementType": "button", "properties": {"content": "Send", "attributes": {"type": "submit"}}}
    result = await bakery.result_of(
        "create_element",
        parentId="section-1",
        elementType="form",
        properties={"label": "Contact", "children": [field, send]},
        position="after",
    )
    assert result["elementId"] == "form-1"
    assert result["changes"] == ["added form-1 (Contact) and the 2 elements in it to the page"]
    assert (await bakery.page()).get("input-1").attributes == {"required": "true", "type": "email"}


async def test_elements_are_moved_deleted_themed_and_cleared(bakery: PageDouble):
    await bakery.result_of("move_element", elementId="button-1", parentId="card-1")
    await bakery.result_of("delete_element", elementId="card-3")
    await bakery.result_of("apply_theme", theme="dark", tokens={"primary": "gold"})
    page = await bakery.page()
    assert page.parents()["button-1"] == "card-1"
    assert page.find("card-3") is None
    assert page.theme["primary"] == "gold"
    cleared = await bakery.result_of("clear_page")
    assert cleared["versionId"] == "v4"
    assert (await bakery.page()).root.children == ()


def test_only_the_deleting_tools_are_declared_destructive():
    """C-R1."""
    destructive = {name for name, tool in REGISTRY.of("page").items() if tool.is_destructive}
    assert destructive == {"delete_element", "clear_page"}


def test_the_schemas_of_tools_for_models_are_plain():
    """C3."""
    schemas = definitions(REGISTRY.of("page"))
    names = {one["function"]["name"] for one in schemas}
    assert {"modify_element", "create_element", "list_elements", "read_element", "undo"} <= names
    for one in schemas:
        assert "additionalProperties" not in str(one)
        assert "'title': '" not in str(one["function"]["parameters"])


async def test_the_id_this_means_the_selected_element(bakery: PageDouble):
    """C26."""
    error = await bakery.error_of("modify_element", elementId="this", modifications={"content": "x"})
    assert error["type"] == "validation_error"
    assert "no element is selected" in error["error"]
    bakery.selected = "button-1"
    result = await bakery.result_of("modify_element", elementId="It", modifications={"content": "Order now"})
    assert result["elementId"] == "button-1"
    assert (await bakery.result_of("read_element", elementId="this"))["content"] == "Order now"
    await bakery.result_of(
        "create_element", parentId="this", elementType="text", properties={}, position="after"
    )
    await bakery.result_of("move_element", elementId="this", parentId="footer-1")
    assert (await bakery.result_of("list_elements"))["selectedElementId"] == "button-1"
    await bakery.result_of("delete_element", elementId="selected")
    assert (await bakery.page()).find("button-1") is None


@pytest.mark.parametrize(
    ("tool", "params", "message"),
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
                "properties": {"children": [{"elementType": "input"}, {"properties": {}}]},
            },
            "inside the form",
        ),
        ("apply_theme", {}, "neither theme nor tokens"),
        ("apply_theme", {"theme": "no such"}, "no theme"),
        ("find_elements", {}, "neither query nor elementType"),
        ("undo", {}, "nothing to undo"),
    ],
)
async def test_an_invalid_call_returns_an_error_and_makes_no_version(
    bakery: PageDouble, tool, params, message
):
    """C25, C33, C49."""
    error = await bakery.error_of(tool, **params)
    assert error["type"] == "validation_error"
    assert message in error["error"]
    assert (await bakery.artefact.stream(STREAM)).versions == ()


async def test_an_unchanged_page_can_be_listed_and_read(bakery: PageDouble):
    """C-R12."""
    await bakery.artefact.lock("footer-1", "local")
    listed = await bakery.result_of("list_elements")
    assert listed["versionId"] is None
    assert listed["elements"][0] == {"id": "page", "type": "page", "depth": 0}
    (footer,) = [one for one in listed["elements"] if one["id"] == "footer-1"]
    assert footer == {"id": "footer-1", "type": "footer", "label": "Footer", "locked": True, "depth": 1}
    part = await bakery.result_of("list_elements", parentId="nav-1")
    assert [one["id"] for one in part["elements"]] == ["nav-1", "text-1", "link-1"]
    element = await bakery.result_of("read_element", elementId="text-6")
    assert (element["parentId"], element["locked"], element["content"]) == ("footer-1", True, "© Your brand")
    assert element["digest"] == digest(STARTER.get("text-6"))
    assert (await bakery.result_of("read_element", elementId="page"))["parentId"] is None


async def test_elements_can_be_searched_by_words_and_type(bakery: PageDouble):
    result = await bakery.result_of("find_elements", query="REASON second")
    assert [one["id"] for one in result["elements"]] == ["heading-4"]
    assert result["elements"][0]["parentId"] == "card-2"
    links = await bakery.result_of("find_elements", elementType="a")
    assert [one["id"] for one in links["elements"]] == ["link-1"]
    assert (await bakery.result_of("find_elements", query="href:#section-2"))["count"] == 2
    assert (await bakery.result_of("find_elements", query="nothing like it"))["count"] == 0
    await bakery.result_of("modify_element", elementId="text-2", modifications={"content": "word " * 40})
    (long,) = (await bakery.result_of("find_elements", query="word"))["elements"]
    assert len(long["content"]) == 120


async def test_repeated_undo_restores_older_versions(bakery: PageDouble):
    for text in ("one", "two", "three"):
        await bakery.result_of("modify_element", elementId="heading-1", modifications={"content": text})

    async def headline():
        return (await bakery.page()).get("heading-1").content

    assert (await bakery.result_of("undo"))["restored"] == "v2"
    assert await headline() == "two"
    assert (await bakery.result_of("undo"))["restored"] == "v1"
    await bakery.result_of("modify_element", elementId="heading-1", modifications={"content": "four"})
    assert (await bakery.result_of("undo"))["versionId"] == "v7"
    assert await headline() == "one"
    assert (await bakery.result_of("undo"))["restored"] == "start"
    assert (await bakery.page()).root == STARTER.root
    assert "nothing to undo" in (await bakery.error_of("undo"))["error"]
    versions = (await bakery.artefact.stream(STREAM)).versions
    assert [version.parent for version in versions] == [None, "v1", "v2", "v2", "v1", "v5", "v5", "v7"]


async def test_undo_of_several_steps_does_not_free_ids(bakery: PageDouble):
    for _ in range(3):
        await bakery.result_of("create_element", parentId="page", elementType="section", properties={})
    undone = await bakery.result_of("undo", steps=3)
    assert undone["changes"] == ["removed section-3", "removed section-4", "removed section-5"]
    created = await bakery.result_of("create_element", parentId="page", elementType="section", properties={})
    assert created["elementId"] == "section-6"
    error = await bakery.error_of("undo", steps=3)
    assert (error["type"], error["error"]) == ("validation_error", "only 1 change can be undone")


CALLS_ON_FOOTER: list[tuple[str, dict[str, Any]]] = [
    ("modify_element", {"elementId": "text-6", "modifications": {"content": "x"}}),
    ("modify_element", {"elementId": "footer-1", "modifications": {"style": {"color": "red"}}}),
    ("create_element", {"parentId": "footer-1", "elementType": "text", "properties": {}}),
    ("delete_element", {"elementId": "footer-1"}),
    ("move_element", {"elementId": "footer-1", "parentId": "nav-1", "position": "before"}),
    ("clear_page", {}),
]


@pytest.mark.parametrize(("tool", "params"), CALLS_ON_FOOTER)
async def test_a_call_that_changes_a_locked_element_is_refused(bakery: PageDouble, tool, params):
    await bakery.artefact.lock("footer-1", "local")
    error = await bakery.error_of(tool, **params)
    assert error["type"] == "permission_denied"
    assert "locked" in error["error"]
    assert (await bakery.artefact.stream(STREAM)).versions == ()
    await bakery.artefact.unlock("footer-1")
    await bakery.result_of(tool, **params)


async def test_a_theme_changes_all_but_a_locked_element(bakery: PageDouble):
    await bakery.artefact.lock("footer-1", "local")
    await bakery.result_of("modify_element", elementId="heading-1", modifications={"content": "New"})
    await bakery.result_of("apply_theme", theme="dark")
    page = await bakery.page()
    assert digests(page)["footer-1"] == digests(STARTER)["footer-1"]
    assert page.pinned["footer-1"] == STARTER.theme


async def test_an_undo_of_an_element_locked_since_is_refused(bakery: PageDouble):
    await bakery.result_of("modify_element", elementId="text-6", modifications={"content": "© Bakery"})
    await bakery.artefact.lock("footer-1", "local")
    assert (await bakery.error_of("undo"))["type"] == "permission_denied"


@pytest.mark.parametrize("name", [STREAM, "page"])
async def test_a_locked_page_refuses_every_change(bakery: PageDouble, name: str):
    await bakery.artefact.lock(name, "local")
    for tool, params in (*CALLS_ON_FOOTER, ("apply_theme", {"theme": "dark"})):
        assert (await bakery.error_of(tool, **params))["type"] == "permission_denied"


async def test_concurrent_edits_are_all_kept(bakery: PageDouble):
    outcomes = await asyncio.gather(
        *(
            bakery.call_step(
                "modify_element", f"m{i}", elementId=f"text-{i}", modifications={"content": f"T{i}"}
            )
            for i in range(1, 7)
        )
    )
    assert all(outcome.ok for outcome in outcomes)
    page = await bakery.page()
    assert [page.get(f"text-{i}").content for i in range(1, 7)] == [f"T{i}" for i in range(1, 7)]


async def test_a_step_executed_twice_makes_one_version(bakery: PageDouble):
    arguments = {"parentId": "page", "elementType": "section", "properties": {}}
    first = await bakery.call_step("create_element", "c1", **arguments)
    assert await bakery.call_step("create_element", "c1", **arguments) == first
    assert len((await bakery.artefact.stream(STREAM)).versions) == 1


async def test_user_and_page_ids_in_arguments_are_ignored(opened, bakery: PageDouble):
    """C2, C58: the server decides the owner and the page."""
    alice_page = PageDouble(opened, "secret", "alice")
    await alice_page.result_of("modify_element", elementId="heading-1", modifications={"content": "zyxomma"})
    result = await bakery.result_of(
        "modify_element",
        elementId="heading-1",
        modifications={"content": "mine", "userId": "alice"},
        pageId="secret",
        userId="alice",
        conversationId="theirs",
    )
    assert result["pageId"] == "bakery"
    for tool in ("list_elements", "clear_page", "undo"):
        outcome = await bakery.call(tool, pageId="secret", userId="alice")
        assert "zyxomma" not in str(outcome.output)
    assert (await alice_page.page()).get("heading-1").content == "zyxomma"
    assert len((await alice_page.artefact.stream(STREAM)).versions) == 1


async def test_two_owners_can_have_pages_with_equal_ids(opened):
    alice_page, bob_page = PageDouble(opened, "home", "alice"), PageDouble(opened, "home", "bob")
    await alice_page.result_of("modify_element", elementId="heading-1", modifications={"content": "zyxomma"})
    assert (await bob_page.page()).get("heading-1").content == STARTER.get("heading-1").content


async def test_sql_and_markup_are_stored_as_text(bakery: PageDouble):
    """C58."""
    text = "1'; DROP TABLE pages;-- \" OR 1=1 /* <img src=x onerror=alert(1)> {{7*7}} ${jndi:ldap://x}"
    await bakery.result_of("modify_element", elementId="heading-1", modifications={"content": text})
    assert (await bakery.result_of("read_element", elementId="heading-1"))["content"] == text
    assert (await bakery.result_of("find_elements", query="DROP TABLE"))["count"] == 1


async def test_a_long_list_of_changes_is_cut_with_a_count(bakery: PageDouble):
    style = dict.fromkeys(("padding", "margin", "gap", "width", "height", "row-gap", "column-gap"), "1px")
    result = await bakery.result_of("modify_element", elementId="heading-1", modifications={"style": style})
    assert len(result["changes"]) == 7
    (version,) = (await bakery.artefact.stream(STREAM)).versions
    assert history.summary(version.data).endswith("; and 4 more")
    for i in range(3):
        wide = {f"{kind}-{side}": f"{i + 2}px" for kind in ("padding", "margin") for side in ("top", "left")}
        modifications = {"style": style | wide | dict.fromkeys(style, f"{i + 2}px")}
        await bakery.result_of("modify_element", elementId=f"text-{i + 2}", modifications=modifications)
    undone = await bakery.result_of("undo", steps=3)
    assert undone["changes"][-1] == "and 13 more"
    await bakery.artefact.lock("section-1", "local")
    assert (await bakery.result_of("read_element", elementId="heading-1"))["locked"] is True
    assert (await bakery.result_of("read_element", elementId="footer-1"))["locked"] is False
    listed = await bakery.result_of("list_elements", userId="x")
    assert listed["versionId"] == "v5"


async def test_arguments_that_are_not_objects_are_refused(bakery: PageDouble):
    for arguments in ({"modifications": "red"}, {"modifications": {"style": "red"}}):
        error = await bakery.error_of("modify_element", elementId="heading-1", **arguments)
        assert error["type"] == "validation_error"


def test_the_streams_of_a_page_are_page_and_uploads():
    assert (STREAM, UPLOADS) == ("page", "uploads")


@pytest.mark.parametrize(
    "params",
    [
        {"elementId": "heading-1", "content": "Fresh bread", "style": {"color": "red"}},
        {"elementId": "#heading-1", "modifications": {"content": "Fresh bread"}, "style": "color: red;"},
        {"id": "Heading-1", "changes": '{"text": "Fresh bread", "css": "color:red"}'},
        {
            "element": "heading-1 (Say what you offer)",
            "modifications": {"newContent": "Fresh bread", "styles": {"color": "red"}},
        },
        {"target": "[heading-1]", "newText": "Fresh bread", "modifications": {"style": "color : red"}},
    ],
)
async def test_an_edit_is_read_in_the_forms_that_models_write(bakery: PageDouble, params: dict[str, Any]):
    """A73: flat, under other names, with a selector for the id and CSS as text."""
    result = await bakery.result_of("modify_element", **params)
    assert "ignoredArguments" not in result
    heading = (await bakery.page()).get("heading-1")
    assert (heading.content, heading.style) == ("Fresh bread", {"color": "red"})


async def test_a_new_element_is_read_in_the_forms_that_models_write(bakery: PageDouble):
    """A73: so are the elements inside it."""
    result = await bakery.result_of(
        "create_element",
        parent="#section-1",
        type="card",
        children=[
            {"type": "heading", "text": "Rye", "attributes": {"level": 3}},
            {"elementType": "text", "properties": {"content": "Dark.", "style": "color: teal"}},
        ],
    )
    page = await bakery.page()
    heading, text = page.get(result["elementId"]).children
    assert (heading.content, heading.attributes) == ("Rye", {"level": "3"})
    assert (text.content, text.style) == ("Dark.", {"color": "teal"})


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"modifications": {"style": "make it red"}}, "write an object of names and values"),
        ({"modifications": {"attributes": 'href="https://example.org"'}}, "such as {'color': '#1d4ed8'}"),
        ({"colour": "red"}, "there is no argument colour"),
    ],
)
async def test_what_an_edit_cannot_mean_is_refused_with_the_right_form(
    bakery: PageDouble, params: dict[str, Any], words: str
):
    error = await bakery.error_of("modify_element", elementId="heading-1", **params)
    assert words in error["error"]


async def test_an_unknown_property_of_an_element_inside_is_refused(bakery: PageDouble):
    inside = {"elementType": "text", "properties": {"content": "Dark."}, "animation": "fade"}
    error = await bakery.error_of(
        "create_element", parentId="section-1", elementType="card", properties={"children": [inside]}
    )
    assert "unknown properties: animation" in error["error"]


def style_args(**style: str) -> dict[str, Any]:
    """Arguments that style the headline."""
    return {"elementId": "heading-1", "modifications": {"style": style}}


@pytest.mark.parametrize(
    ("tool", "params", "notice"),
    [
        (
            "modify_element",
            style_args(color="white", background="#fff"),
            "hard to read: white on #fff has a contrast",
        ),
        ("modify_element", style_args(color="rgb(250, 250, 250)"), "of 1.0, and 3 is the least"),
        (
            "modify_element",
            style_args(color="hsl(0, 0%, 90%)", **{"font-size": "1rem"}),
            "and 4.5 is the least",
        ),
        ("modify_element", style_args(color="var(--background)"), "heading-1 is hard to read"),
        (
            "modify_element",
            style_args(**{"font-size": "5000px"}),
            "font-size 5000px is out of scale: font-size is 12px",
        ),
        ("modify_element", style_args(**{"padding-top": "40rem"}), "padding-top 40rem is out of scale"),
        (
            "modify_element",
            {"elementId": "heading-1", "content": "Fresh <b>bread</b>"},
            "shows markup as text",
        ),
        ("modify_element", {"elementId": "heading-1", "content": "**Fresh** bread"}, "shows markup as text"),
        (
            "create_element",
            {"parentId": "section-1", "elementType": "section", "properties": {}},
            "section-3 is a section inside a section",
        ),
        ("apply_theme", {"tokens": {"text": "#eeeeee"}}, "is hard to read: #eeeeee on #ffffff"),
        (
            "modify_element",
            {"elementId": "button-1", "modifications": {"style": {"background-color": "#ffffff"}}},
            "button-1 is hard to read: #ffffff on #ffffff",
        ),
        (
            "modify_element",
            {"elementId": "link-1", "modifications": {"attributes": {"href": "#pricing"}}},
            "link-1 leads nowhere: no element is #pricing",
        ),
    ],
)
async def test_an_edit_that_looks_like_a_slip_is_done_with_a_notice(
    bakery: PageDouble, tool: str, params: dict[str, Any], notice: str
):
    result = await bakery.result_of(tool, **params)
    assert notice in "\n".join(result["notices"])
    assert result["versionId"] == "v1"


@pytest.mark.parametrize(
    "address",
    ["https://www.youtube.com/watch?v=x", "https://youtu.be/x", "https://player.vimeo.com/video/1"],
)
async def test_the_address_of_a_page_with_a_video_is_refused_with_the_working_form(
    bakery: PageDouble, address: str
):
    call = {"parentId": "section-1", "elementType": "video", "properties": {"attributes": {"src": address}}}
    error = str(await bakery.error_of("create_element", **call))
    assert "a page and no file" in error
    assert "make a link" in error


@pytest.mark.parametrize(
    "params",
    [
        style_args(color="navy", **{"font-size": "48px", "padding": "48px 24px", "text-align": "center"}),
        style_args(color="inherit", background="linear-gradient(90deg, red, #fff 50%)"),
        style_args(color="papayawhip"),
        {"elementId": "heading-1", "content": "3 < 5, and 5 > 3; a*b*c"},
        {"elementId": "button-1", "content": "Order now"},
    ],
)
async def test_a_plain_edit_has_no_notices(bakery: PageDouble, params: dict[str, Any]):
    assert "notices" not in await bakery.result_of("modify_element", **params)


async def test_a_slip_that_was_there_before_is_not_noticed_again(bakery: PageDouble):
    await bakery.result_of("modify_element", **style_args(color="white"))
    result = await bakery.result_of("modify_element", elementId="text-1", content="Every day from six.")
    assert "notices" not in result
