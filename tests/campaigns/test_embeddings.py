"""Embeddings of campaigns: offline, and from any service with OpenAI's API (E30)."""

from collections.abc import Iterator

import pytest

from callsheet.providers.embeddings import configured_embeddings
from callsheet.providers.embeddings_endpoint import EmbeddingsEndpoint
from callsheet.state.campaigns.filters import Filters
from callsheet.state.errors import CallsheetError, Invalid, Limited, Unavailable
from callsheet.storage.campaigns.embeddings import MAX_SENTENCE_CAMPAIGNS, OfflineEmbeddings
from callsheet.storage.campaigns.library import own_library
from callsheet.storage.campaigns.vectors import unit_vectors
from callsheet.tools.campaigns import libraries
from tests.doubles.campaigns import LIBRARY, campaign
from tests.doubles.embeddings_double import KEY, EmbeddingsDouble

NO_FILTERS = Filters()


@pytest.fixture
def double() -> Iterator[EmbeddingsDouble]:
    with EmbeddingsDouble() as running:
        yield running


@pytest.fixture
def endpoint(double: EmbeddingsDouble) -> EmbeddingsEndpoint:
    configured = configured_embeddings(double.environ)
    assert configured
    return configured


async def test_offline_vectors_of_similar_texts_are_close():
    texts = [
        "travel rewards and airport lounges",
        "flights and hotels on vacation",
        "mortgage interest",
        " ",
        "\0",
    ]
    vectors = await unit_vectors(OfflineEmbeddings(), texts)
    assert vectors.shape == (5, 256)
    products = vectors @ vectors.T
    assert products[0, 0] == pytest.approx(1, abs=1e-5)
    assert products[0, 1] > products[0, 2]
    assert products[3, 3] == products[4, 4] == 0


@pytest.mark.slow
async def test_small_libraries_use_a_word_and_a_sentence_model_and_large_ones_only_the_word_model():
    word_model = OfflineEmbeddings()
    combined = word_model.suited_to(300)
    assert combined.suited_to(MAX_SENTENCE_CAMPAIGNS + 1) is word_model
    assert word_model.model != combined.model
    texts = ["no annual fee", "card without yearly cost", "fraud alerts"]
    vectors = await unit_vectors(combined, texts)
    assert vectors.shape == (3, 768)
    word_vectors = await unit_vectors(word_model, texts)
    sentence_vectors = vectors[:, 256:] * 2**0.5
    mean = (word_vectors[0] @ word_vectors[1] + sentence_vectors[0] @ sentence_vectors[1]) / 2
    assert vectors[0] @ vectors[1] == pytest.approx(mean, abs=1e-4), "the mean of both cosines"


@pytest.mark.slow
async def test_similarity_search_works_after_a_library_grows_or_shrinks_past_the_change_of_model(storage):
    index = await own_library(storage, "ana")
    others = [campaign(f"c{number}") for number in range(MAX_SENTENCE_CAMPAIGNS)]
    await index.put(LIBRARY)
    assert (await index.similar("fraud", NO_FILTERS)).matches[0].campaign.id == "cedar-security"
    await index.put(others)
    assert (await index.similar("fraud", NO_FILTERS)).matches[0].campaign.id == "cedar-security"
    await index.delete([other.id for other in others])
    assert (await index.similar("fraud", NO_FILTERS)).matches[0].campaign.id == "cedar-security"
    assert await index.count() == 6


async def test_similarity_search_uses_the_configured_embeddings(storage, endpoint, double):
    index = await own_library(storage, "ana", endpoint)
    await index.put(LIBRARY)
    assert "" not in double.texts
    result = await index.similar("travel", NO_FILTERS)
    assert result.matches[0].campaign.id == "alder-travel"
    assert double.requests[0]["model"] == "counts"


async def test_the_libraries_that_tools_and_routes_open_use_the_configured_embeddings(
    storage, double, monkeypatch
):
    for name, value in double.environ.items():
        monkeypatch.setenv(name, value)
    await (await libraries.own_library(storage, "ana")).put(LIBRARY)
    result = await (await libraries.library(storage, "ana")).similar("fraud", NO_FILTERS)
    assert result.matches[0].campaign.id == "cedar-security"
    assert double.texts[-1] == "fraud"
    await libraries.delete_library(storage, "ana")
    assert await (await libraries.own_library(storage, "ana")).count() == 0


async def test_many_or_long_texts_are_sent_in_batches(endpoint, double):
    vectors = await endpoint.vectors([f"cash {number}" for number in range(600)])
    assert len(vectors) == 600
    assert [len(request["input"]) for request in double.requests] == [256, 256, 88]
    double.requests.clear()
    await endpoint.vectors(["x" * 150_000, "y" * 150_000])
    assert len(double.requests) == 2
    assert await endpoint.vectors([]) == []


@pytest.mark.parametrize(
    ("status", "body", "error", "problem"),
    [
        (401, {"error": {"message": f"wrong key {KEY}"}}, Unavailable, "CALLSHEET_EMBEDDINGS_KEY"),
        (404, {"error": {"message": "no such model"}}, Invalid, "counts"),
        (429, {"error": {"message": "slow down"}}, Limited, "limits"),
        (500, {"error": {"message": "oops"}}, Unavailable, "500"),
        (200, {"object": "list", "data": [], "model": "m"}, Unavailable, "vectors"),
        (
            200,
            {"object": "list", "data": [{"index": 0, "embedding": []}], "model": "m"},
            Unavailable,
            "0 vectors",
        ),
        (200, ["nonsense"], CallsheetError, "embeddings"),
    ],
)
async def test_an_error_of_the_endpoint_is_raised_without_the_key(
    endpoint, double, status, body, error, problem
):
    double.replies.extend([(status, body)] * 3)
    with pytest.raises(error) as caught:
        await endpoint.vectors(["x"])
    message = f"{caught.value} {caught.value.remedy}"
    assert problem in message
    assert KEY not in message


async def test_vectors_of_several_lengths_are_refused(endpoint, double):
    data = [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]
    double.replies.append((200, {"object": "list", "data": data, "model": "m"}))
    with pytest.raises(Unavailable, match=r"lengths \[1, 2\]"):
        await endpoint.vectors(["x", "y"])


async def test_other_searches_work_while_the_endpoint_is_unreachable(storage):
    environ = {"CALLSHEET_EMBEDDINGS_URL": "http://127.0.0.1:9/v1", "CALLSHEET_EMBEDDINGS_MODEL": "m"}
    index = await own_library(storage, "ana", configured_embeddings(environ))
    assert await index.put([campaign("one", campaign_text="cash")]) == 1
    assert (await index.full_text("cash", NO_FILTERS)).total == 1
    with pytest.raises(Unavailable, match="cannot be reached") as caught:
        await index.similar("cash", NO_FILTERS)
    assert "CALLSHEET_EMBEDDINGS_URL" in caught.value.remedy


def test_no_endpoint_is_used_without_its_url_and_model():
    assert configured_embeddings({}) is None
    assert configured_embeddings({"CALLSHEET_EMBEDDINGS_KEY": "k"}) is None


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"URL": "http://localhost/v1"}, "CALLSHEET_EMBEDDINGS_MODEL is not set"),
        ({"MODEL": "m"}, "CALLSHEET_EMBEDDINGS_URL is not set"),
        ({"MODEL": "m", "URL": "localhost"}, "CALLSHEET_EMBEDDINGS_URL is 'localhost'"),
        ({"MODEL": "m", "URL": "http://x", "TIMEOUT_S": "soon"}, "CALLSHEET_EMBEDDINGS_TIMEOUT_S is 'soon'"),
    ],
)
def test_the_error_for_an_invalid_setting_names_it(settings, problem):
    environ = {f"CALLSHEET_EMBEDDINGS_{name}": value for name, value in settings.items()}
    with pytest.raises(Invalid, match=problem):
        configured_embeddings(environ)
