"""Questions about the values of a library as its owner wrote them (E28, E-R1)."""

import httpx
import pytest

from tests.campaigns.test_campaign_questions import answer_call, post_question, search_call
from tests.campaigns.test_import_of_libraries import import_file
from tests.doubles.chat_double import ChatDouble

ROWS = """id,company,channel,product,date,value_prop,offer
1,Ofen,email,Rewards Credit Card,2026-03-01,cash back,5 % back
2,Ofen,email,Loan,2026-03-01,cash back,
3,Ofen,kino,Loan,2026-03-02,no fee,
4,Ofen,kino,Loan,2026-03-02,No-Fee,free month
5,Ofen,kino,Loan,2026-03-02,no annual fee,
6,Ofen,kino,Loan,2026-03-03,fresh bread,
7,Ofen,kino,Loan,2026-03-03,premium,
8,Ofen,kino,Loan,2026-03-03,travel,
9,Ofen,kino,Loan,2026-03-03,?!,
"""


@pytest.fixture(autouse=True)
async def _library(api: httpx.AsyncClient) -> None:
    await import_file(api, "own.csv", ROWS.encode())


@pytest.mark.parametrize(
    ("question", "count", "filters"),
    [
        ("how many cash back campaigns are there", 2, {"value_prop": ["cash back"]}),
        ("show me no fee campaigns", 3, {"value_prop": ["No-Fee", "no annual fee", "no fee"]}),
        ("show the offers from no fee campaigns", 1, {"value_prop": ["No-Fee", "no annual fee", "no fee"]}),
        ("how many travel campaigns are there", 1, {"value_prop": ["travel"]}),
        ("how many premium campaigns are there", 1, {"value_prop": ["premium"]}),
        ("how many credit card campaigns are there", 1, {"product": ["Rewards Credit Card"]}),
        ("how many non-premium campaigns are there", 8, {"exclude": {"value_prop": ["premium"]}}),
    ],
)
async def test_a_question_means_the_values_of_the_library(
    api: httpx.AsyncClient, question: str, count: int, filters: dict[str, list[str]]
):
    """E-R1: a synonym means all values of the library that mean the same, in whichever field they are."""
    reply = await post_question(api, question)
    assert reply["total"] == count, reply["response"]
    detected = {name: values for name, values in reply["detectedFilters"].items() if name != "has_offer"}
    assert detected == filters


@pytest.mark.parametrize(
    ("question", "response"),
    [
        (
            "what is the most common sentiment",
            "9 campaigns match.\n\nNone of these campaigns has a sentiment.",
        ),
        (
            "what is the most common style in email campaigns",
            "2 campaigns match.\n\nNone of these campaigns has a visual style.",
        ),
    ],
)
async def test_counts_by_what_no_campaign_has_say_so(api: httpx.AsyncClient, question: str, response: str):
    """E-R1: no campaigns are listed in place of the answer."""
    reply = await post_question(api, question)
    assert reply["response"] == response
    assert "None of these campaigns" in reply["steps"][0]["result"]["summary_for_llm"]


async def test_a_count_is_that_of_the_library_as_it_is_now(api: httpx.AsyncClient):
    """E-R1: in the same conversation, after an import and after deletions."""
    await api.delete("/api/campaigns")
    question = "how many email campaigns are there"
    first = await post_question(api, question)
    more = {"conversationId": first["conversationId"]}
    assert first["total"] > 2
    await import_file(api, "own.csv", ROWS.encode())
    assert (await post_question(api, question, **more))["response"].splitlines()[0] == "2 campaigns match."
    assert (await api.delete("/api/campaigns/1")).json() == {"deleted": True}
    assert (await post_question(api, question, **more))["total"] == 1
    await api.delete("/api/campaigns")
    assert (await post_question(api, question, **more))["total"] == first["total"]


async def test_an_import_notes_that_value_propositions_are_kept_as_written(api: httpx.AsyncClient):
    """E28: one value that is not known keeps all of the file's, which were read as the known ones else."""
    report = await import_file(api, "own.csv", ROWS.encode())
    assert report["notes"] == ["value propositions are kept as written, since '?!' is none of the known ones"]
    report = await import_file(api, "own.csv", ROWS.replace("cash back", "crumbs").encode())
    assert len(report["notes"]) == 1
    only_others = "id,company,channel,date,value_prop\n9,Ofen,email,2026-03-01,fresh bread\n"
    assert (await import_file(api, "own.csv", only_others.encode()))["notes"] == []


async def test_a_value_as_it_is_stored_means_itself(api: httpx.AsyncClient):
    """E-R1: the usual name means every spelling of it, and a spelling that the library has means that one."""
    pages = {
        value: (await api.get("/api/campaigns", params={"value_prop": value})).json()["total"]
        for value in ("no annual fee", "no fee", "No Fee / No Minimum", "no fees")
    }
    assert pages == {"no annual fee": 1, "no fee": 2, "No Fee / No Minimum": 3, "no fees": 3}


async def test_an_answer_names_a_value_that_the_library_lacks_and_the_nearest(api: httpx.AsyncClient):
    """E-R1: none is only said beside the reason."""
    reply = await post_question(api, "how many urgent campaigns are there")
    assert reply["response"].splitlines()[0] == "No campaign matches."
    assert "No campaign of this library has the sentiment “Urgent”; it has none." in reply["response"]
    reply = await post_question(api, "how many travel card campaigns are there")
    assert "has the product “travel card”; the nearest is “Rewards Credit Card”" in reply["response"]
    page = (await api.get("/api/campaigns?company=Ofenn&channel=instagram")).json()
    assert page["notes"] == [
        "No campaign of this library has the channel “instagram”; it has “kino”, “email”.",
        "No campaign of this library has the company “Ofenn”; the nearest is “Ofen”.",
    ]


async def test_a_model_of_any_vendor_gets_the_values_of_the_library(
    api: httpx.AsyncClient, model: ChatDouble
):
    """E-R1, E24: its claims in the library's words are proven, and an absent value is named to it."""
    model.script(
        search_call(value_prop=["Cash Back / Rewards"]),
        answer_call({"text": "2 campaigns are about cash back.", "figures": [2], "values": ["cash back"]}),
    )
    reply = await post_question(api, "how many with rewards?", provider="openai")
    assert (reply["total"], reply["response"]) == (2, "2 campaigns are about cash back.")
    model.script(
        search_call(sentiment=["Playful"]),
        answer_call({"text": "No campaign is playful."}),
    )
    reply = await post_question(api, "and playful ones?", provider="openai")
    [step] = reply["steps"]
    assert "has the sentiment “Playful”" in step["result"]["summary_for_llm"]
    assert "has the sentiment “Playful”; it has none." in reply["response"]
