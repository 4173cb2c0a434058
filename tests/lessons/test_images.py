"""Images for a lesson (B62): six of Google's, at the wire, or a clear answer that there is no search."""

import json

import pytest

from callsheet.providers.images import search
from callsheet.state.errors import Invalid, Unavailable
from tests.doubles.image_double import KEY, scripted_google, search_settings


async def test_the_first_six_images_are_found():
    """B62."""
    one = {
        "link": "https://e.org/leaf.png",
        "title": "A leaf",
        "mime": "image/png",
        "displayLink": "e.org",
        "image": {"thumbnailLink": "https://e.org/t.png", "contextLink": "https://e.org/"},
    }
    with scripted_google(200, json.dumps({"items": [one, {"link": "https://e.org/2.png"}, *[one] * 8]})) as (
        url,
        asked,
    ):
        found = await search(search_settings(url)).top("photosynthesis")
    assert len(found) == 6
    assert (found[0].url, found[0].title, found[0].type) == ("https://e.org/leaf.png", "A leaf", "image/png")
    assert (found[0].thumbnail, found[0].page) == ("https://e.org/t.png", "https://e.org/")
    assert found[0].credit == "e.org"
    assert (found[1].thumbnail, found[1].title) == (None, "")
    [query] = asked
    assert (query["q"], query["num"], query["searchType"], query["safe"]) == (
        ["photosynthesis"],
        ["6"],
        ["image"],
        ["active"],
    )


async def test_nothing_found_is_nothing():
    with scripted_google(200, "{}") as (url, _):
        assert await search(search_settings(url)).top("x") == []


@pytest.mark.parametrize(("status", "body"), [(403, "{}"), (200, "no JSON")])
async def test_a_search_that_fails_says_so_without_its_key(status, body):
    with scripted_google(status, body) as (url, _), pytest.raises(Unavailable) as failed:
        await search(search_settings(url)).top("x")
    assert KEY not in str(failed.value)


@pytest.mark.parametrize("environ", [{}, {"GOOGLE_SEARCH_KEY": KEY}, {"GOOGLE_SEARCH_ENGINE": "e"}])
async def test_without_a_key_there_is_no_search(environ):
    with pytest.raises(Invalid, match="there is no image search"):
        await search(environ).top("leaves")
