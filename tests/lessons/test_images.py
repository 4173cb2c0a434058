"""Image search for a lesson, with Google's API at the wire (B62)."""

import json

import pytest

from callsheet.providers.search_engines import image_search
from callsheet.state.errors import Invalid, Unavailable
from tests.doubles.image_double import KEY, scripted_google, search_settings


async def test_a_search_returns_the_first_six_images_of_google():
    """B62."""
    item = {
        "link": "https://e.org/leaf.png",
        "title": "A leaf",
        "mime": "image/png",
        "displayLink": "e.org",
        "image": {"thumbnailLink": "https://e.org/t.png", "contextLink": "https://e.org/"},
    }
    with scripted_google(
        200, json.dumps({"items": [item, {"link": "https://e.org/2.png"}, *[item] * 8]})
    ) as (url, queries):
        images = await image_search(search_settings(url)).top("photosynthesis")
    assert len(images) == 6
    assert (images[0].url, images[0].title, images[0].type) == (
        "https://e.org/leaf.png",
        "A leaf",
        "image/png",
    )
    assert (images[0].thumbnail, images[0].page) == ("https://e.org/t.png", "https://e.org/")
    assert images[0].credit == "e.org"
    assert (images[1].thumbnail, images[1].title) == (None, "")
    [query] = queries
    assert (query["q"], query["num"], query["searchType"], query["safe"]) == (
        ["photosynthesis"],
        ["6"],
        ["image"],
        ["active"],
    )


async def test_a_search_without_results_returns_no_images():
    with scripted_google(200, "{}") as (url, _):
        assert await image_search(search_settings(url)).top("x") == []


@pytest.mark.parametrize(("status", "body"), [(403, "{}"), (200, "no JSON")])
async def test_a_failed_search_raises_an_error_without_the_key(status, body):
    with scripted_google(status, body) as (url, _), pytest.raises(Unavailable) as error:
        await image_search(search_settings(url)).top("x")
    assert KEY not in str(error.value)


async def test_a_reply_of_the_search_that_is_too_long_or_nested_is_an_outage_of_it():
    """It is read no further than its limit, and not in the event loop."""
    for body in (json.dumps({"items": ["x" * 3_000_000]}), '{"items": ' + "[" * 200_000):
        with scripted_google(200, body) as (url, _), pytest.raises(Unavailable, match="image search"):
            await image_search(search_settings(url)).top("x")


async def test_half_a_surrogate_pair_in_a_reply_of_the_search_is_replaced():
    with scripted_google(200, '{"items": [{"link": "https://e.org/a", "title": "a\\ud83d"}]}') as (url, _):
        [image] = await image_search(search_settings(url)).top("x")
    assert image.title == "a\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("environ", [{}, {"GOOGLE_SEARCH_KEY": KEY}, {"GOOGLE_SEARCH_ENGINE": "e"}])
async def test_a_search_without_a_key_and_an_engine_is_refused(environ):
    with pytest.raises(Invalid, match="there is no image search"):
        await image_search(environ).top("leaves")
