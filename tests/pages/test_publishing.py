"""A page that is published: its check, its ZIP file, and what the head says of it."""

import io
import json
import zipfile
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

import html5lib
import httpx
import pytest
from pydantic import TypeAdapter

from callsheet.server.pages.publishing import PageChecks
from callsheet.state.pages.check import check_page
from callsheet.state.pages.hero import hero_page
from callsheet.state.pages.history import STARTER
from callsheet.state.pages.page import Page, walk
from callsheet.storage import Storage
from tests.doubles.documented import assert_documented
from tests.doubles.served import app_client, started_app
from tests.pages.page_double import PageDouble
from tests.pages.test_uploads import png

XHTML = "{http://www.w3.org/1999/xhtml}"
GOOD: dict[str, Any] = {
    "id": "page",
    "type": "page",
    "attributes": {
        "title": "Bread at four",
        "description": "A bakery in Lyon that opens at four in the morning, for all who rise early.",
        "lang": "en",
    },
    "children": [
        {"id": "heading-1", "type": "heading", "content": "Bread at four", "attributes": {"level": "1"}},
        {"id": "heading-2", "type": "heading", "content": "Where", "attributes": {"level": "2"}},
        {"id": "button-1", "type": "button", "content": "Order", "attributes": {"href": "#heading-2"}},
        {"id": "image-1", "type": "image", "attributes": {"src": "/own.png", "alt": "A loaf"}},
    ],
}


def page_of(*children: dict[str, Any], **attributes: str) -> Page:
    return Page.model_validate(
        {"root": GOOD | {"attributes": GOOD["attributes"] | attributes, "children": [*children]}}
    )


def broken_rules(page: Page, *dead: str) -> dict[str, list[str]]:
    return {one["rule"]: one["elements"] for one in check_page(page, dead) if one["verdict"] != "pass"}


def test_a_page_that_breaks_no_rule_passes_every_check() -> None:
    assert broken_rules(page_of(*GOOD["children"])) == {}


@pytest.mark.parametrize(
    ("rule", "element", "children"),
    [
        ("one main heading", "heading-1", [{"id": "heading-1", "type": "heading", "content": "A"}]),
        (
            "heading order",
            "heading-2",
            [
                GOOD["children"][0],
                {"id": "heading-2", "type": "heading", "content": "B", "attributes": {"level": "4"}},
            ],
        ),
        (
            "one primary action",
            "button-2",
            [
                *GOOD["children"],
                {"id": "button-2", "type": "button", "content": "Call", "attributes": {"href": "tel:1"}},
            ],
        ),
        (
            "one primary action",
            "button-3",
            [
                {
                    "id": "section-1",
                    "type": "section",
                    "children": [
                        {
                            "id": "button-3",
                            "type": "button",
                            "content": "No appointment needed",
                            "attributes": {"href": "#section-1"},
                        }
                    ],
                }
            ],
        ),
        (
            "one primary action",
            "button-3",
            [
                {"id": "button-4", "type": "button", "content": "Call", "attributes": {"href": "tel:1"}},
                {
                    "id": "section-1",
                    "type": "section",
                    "children": [
                        {
                            "id": "button-3",
                            "type": "button",
                            "content": "Start",
                            "attributes": {"href": "#section-1"},
                        },
                        {"id": "button-5", "type": "button", "content": "Go", "attributes": {"href": "/go"}},
                    ],
                },
            ],
        ),
        ("forms reach somebody", "form-1", [{"id": "form-1", "type": "form"}]),
        (
            "no text of the starter page",
            "text-1",
            [{"id": "text-1", "type": "text", "content": "What it costs."}],
        ),
        ("texts of images", "image-1", [{"id": "image-1", "type": "image", "attributes": {"src": "/a.png"}}]),
        ("images and films are there", "image-1", [{"id": "image-1", "type": "image"}]),
        (
            "no files of other servers",
            "image-1",
            [{"id": "image-1", "type": "image", "attributes": {"src": "https://example.org/a.png"}}],
        ),
        (
            "contrast",
            "text-1",
            [{"id": "text-1", "type": "text", "content": "Pale", "style": {"color": "#dddddd"}}],
        ),
        (
            "links inside the page",
            "link-1",
            [{"id": "link-1", "type": "link", "content": "Go", "attributes": {"href": "#nowhere-1"}}],
        ),
        ("labels of fields", "input-1", [{"id": "input-1", "type": "input"}]),
        (
            "words in headings, links and buttons",
            "heading-2",
            [GOOD["children"][0], {"id": "heading-2", "type": "heading", "attributes": {"level": "2"}}],
        ),
        (
            "addresses of links",
            "button-1",
            [{"id": "button-1", "type": "button", "content": "Buy", "attributes": {"href": "www.miel.fr/a"}}],
        ),
        (
            "addresses of links",
            "link-1",
            [{"id": "link-1", "type": "link", "content": "Write", "attributes": {"href": "hi@miel.fr"}}],
        ),
    ],
)
def test_the_element_that_breaks_a_rule_is_named(
    rule: str, element: str, children: list[dict[str, Any]]
) -> None:
    assert broken_rules(page_of(*children))[rule] == [element]


@pytest.mark.parametrize("address", ["/shop", "menu.pdf", "mailto:hi@miel.fr", "https://x.fr/@hi"])
def test_an_address_with_a_scheme_and_a_path_pass_the_check(address: str) -> None:
    link = {"id": "link-1", "type": "link", "content": "Go", "attributes": {"href": address}}
    assert "addresses of links" not in broken_rules(page_of(link))


def test_the_first_heading_of_a_page_is_named_if_its_level_is_not_1() -> None:
    checks = check_page(page_of({"id": "heading-1", "type": "heading", "content": "A"}), set())
    [order] = [one for one in checks if one["rule"] == "heading order"]
    assert order["measured"] == "the first heading, heading-1, is of level 2, not 1"


def test_a_page_without_title_and_description_and_a_link_to_a_missing_file_are_named() -> None:
    link = {"id": "link-1", "type": "link", "content": "Menu", "attributes": {"href": "/menu.pdf"}}
    page = Page.model_validate({"root": {"id": "page", "type": "page", "children": [link]}})
    broken = broken_rules(page, "/menu.pdf")
    assert {"title", "description", "language", "one main heading", "one primary action"} <= broken.keys()
    assert broken["links inside the page"] == ["link-1"]
    assert "title" in broken_rules(page_of(*GOOD["children"], title="x" * 61))
    assert "description" in broken_rules(page_of(*GOOD["children"], description="Bread."))


def test_a_button_of_a_form_is_an_action_and_one_that_leads_nowhere_is_none() -> None:
    form = {
        "id": "form-1",
        "type": "form",
        "children": [{"id": "button-1", "type": "button", "content": "Go"}],
    }
    assert "one primary action" not in broken_rules(page_of(form))
    lost = {"id": "button-2", "type": "button", "content": "Go"}
    assert "one primary action" in broken_rules(page_of(lost))
    bare = {"id": "link-1", "type": "link", "content": "Go"}
    assert broken_rules(page_of(bare))["links inside the page"] == ["link-1"]


def test_a_hero_has_the_words_of_a_script_and_only_those_that_fit() -> None:
    long = "A sentence that goes on and on and on, " * 9 + "and ends."
    page = hero_page([f"{long} Miel.", "https://miel.example/bread", "Fresh bread."], "klingon")
    assert page.root.attributes == {"lang": "en", "title": "Fresh bread"}
    assert '"href":"https://miel.example/bread"' in page.model_dump_json()
    plain = hero_page([long], "french")
    assert plain.root.attributes == {"lang": "fr"}
    assert plain.root.children == ()
    [hero] = hero_page(["Bread at four. Come and taste."], "english").root.children
    assert [(one.type, one.attributes.get("href")) for one in hero.children] == [
        ("heading", None),
        ("button", "#section-1"),
    ]
    for name, brand in (("Miel", "Miel"), ("", "https://miel.example/bread")):
        named = hero_page(["https://miel.example/bread"], "english", name)
        assert brand in [one.content for one, _ in walk(named.root)]
        assert f"© {brand}" in [one.content for one, _ in walk(named.root)]
    assert "Your brand" not in str(plain.data())


def test_a_check_names_the_texts_of_the_starter_page_that_are_left() -> None:
    [left] = [one for one in check_page(STARTER, set()) if one["rule"] == "no text of the starter page"]
    assert (left["verdict"], "says “Your brand”" in left["measured"]) == ("fail", True)
    ready = {"id": "heading-1", "type": "heading", "content": "Bread at four", "attributes": {"level": "1"}}
    assert "no text of the starter page" not in broken_rules(page_of(ready))


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        started_app(valkey_url) as app,
        app_client(app, event_hooks={"response": [assert_documented]}) as one,
    ):
        yield one


async def upload(client: httpx.AsyncClient, page: PageDouble, name: str, content: bytes) -> str:
    ticket = await page.result_of("upload_file", fileType="image", fileName=name)
    reply = await client.put(ticket["url"], content=content)
    assert reply.is_success, reply.text
    return str(ticket["url"])


async def test_a_page_is_exported_as_a_zip_file_with_its_images_and_valid_html(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    page = PageDouble(storage)
    await page.result_of(
        "modify_element",
        elementId="page",
        modifications={
            "attributes": {"title": "Bread </script> & four", "description": "Loaves.", "lang": "fr"}
        },
    )
    src = await upload(client, page, "loaf of bread.png", png())
    for address in (src, "https://example.org/far.png"):
        await page.result_of(
            "create_element",
            parentId="page",
            elementType="image",
            properties={"attributes": {"src": address, "alt": "A loaf"}},
        )
    query = "format=zip&url=https://bakery.example/lyon/"
    reply = await client.get(f"/api/pages/bakery/export?{query}")
    assert reply.headers["content-type"] == "application/zip"
    assert reply.content == (await client.get(f"/api/pages/bakery/export?{query}")).content
    with zipfile.ZipFile(io.BytesIO(reply.content)) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert [*contents] == ["index.html", "assets/loaf-of-bread.png", "not-included.txt"]
    assert contents["assets/loaf-of-bread.png"] == png()
    assert contents["not-included.txt"] == b"https://example.org/far.png\n"
    html = contents["index.html"].decode()
    assert "/api/pages" not in html
    document: ET.Element = html5lib.HTMLParser(strict=True).parse(html)
    assert "assets/loaf-of-bread.png" in {image.get("src") for image in document.iter(f"{XHTML}img")}
    assert_head(document)
    plain = (await client.get("/api/pages/bakery/export")).text
    html5lib.HTMLParser(strict=True).parse(plain)
    assert "og:title" in plain
    assert "ld+json" not in plain


async def test_the_files_of_a_page_are_named_by_its_title(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    page = PageDouble(storage)
    attributes = {"title": "Bread / four"}
    await page.result_of("modify_element", elementId="page", modifications={"attributes": attributes})
    for query, ending in (
        ("format=zip", ".zip"),
        ("view=attachment", ".html"),
        ("view=attachment&version=v1", ".html"),
        ("view=attachment&version=start", " start.html"),
    ):
        reply = await client.get(f"/api/pages/bakery/export?{query}")
        expected = f"attachment; filename*=UTF-8''{quote(f'Bread four{ending}')}"
        assert reply.headers["content-disposition"] == expected


def assert_head(document: ET.Element) -> None:
    """Check what the head of the exported page says of it."""
    shown = {meta.get("property"): meta.get("content") for meta in document.iter(f"{XHTML}meta")}
    assert shown["og:title"] == "Bread </script> & four"
    assert shown["og:url"] == "https://bakery.example/lyon/"
    assert shown["og:image"] == "https://bakery.example/lyon/assets/loaf-of-bread.png"
    [script] = document.iter(f"{XHTML}script")
    assert script.get("type") == "application/ld+json"
    linked = json.loads(script.text or "")
    assert (linked["@type"], linked["name"]) == ("WebPage", "Bread </script> & four")


async def test_the_check_of_a_page_over_rest_knows_which_files_were_uploaded(
    client: httpx.AsyncClient, storage: Storage
) -> None:
    page = PageDouble(storage)
    ticket = await page.result_of("upload_file", fileType="image", fileName="later.png")
    image = {"attributes": {"src": ticket["url"], "alt": "A loaf"}}
    await page.result_of("create_element", parentId="page", elementType="image", properties=image)

    async def broken() -> dict[str, Any]:
        view = (await client.get("/api/pages/bakery/check")).json()
        TypeAdapter(PageChecks).validate_python(view)
        assert view["verdict"] == "fail"
        return {one["rule"]: one for one in view["checks"] if one["verdict"] != "pass"}

    early = await broken()
    assert early["images and films are there"]["elements"] == ["image-1"]
    assert "upload the file" in early["images and films are there"]["remedy"]
    await client.put(ticket["url"], content=png())
    still = await broken()
    assert "images and films are there" not in still
    route = "/api/pages/{pageId}/elements/page"
    assert f"PATCH {route}" in still["description"]["remedy"]
    newest = (await client.get("/api/pages/bakery")).json()["versionId"]
    change = {"attributes": {"description": "Bread from our oven at four each day, in Lyon. " * 2}}
    path = route.format(pageId="bakery")
    assert (await client.patch(path, json={**change, "version": newest})).status_code == 200
    assert "description" not in {
        one["rule"]
        for one in (await client.get("/api/pages/bakery/check")).json()["checks"]
        if one["verdict"] != "pass"
    }
    assert (await client.get("/api/pages/nobodys/check")).status_code == 404
    assert (await client.get("/api/pages/bakery/export?url=javascript:x")).status_code == 422
