"""Questions about campaigns over REST, with the offline and a scripted model (E1-E31, E-R1 to E-R11)."""

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doubles.chat_double import ChatDouble, Say
from tests.doubles.command import Finished, command_in_process
from tests.doubles.served import served_app


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatDouble]:
    with ChatDouble() as one:
        for name, value in one.environ.items():
            monkeypatch.setenv(name, value)
        yield one


@pytest.fixture
async def http(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url) as client:
        yield client


def search(name: str = "filter_campaigns", **args: Any) -> Say:
    return Say(calls=[("call_1", name, json.dumps(args))])


def statements(*given: dict[str, Any], **more: Any) -> Say:
    return Say(calls=[("call_2", "answer", json.dumps({"statements": [*given], **more}))])


async def ask(http: httpx.AsyncClient, message: str, status: int = 200, **more: Any) -> dict[str, Any]:
    reply = await http.post("/api/chat", json={"message": message, "provider": "offline", **more})
    assert reply.status_code == status, reply.text
    return dict(reply.json())


async def test_offers_are_answered_from_the_campaigns_that_have_them(http: httpx.AsyncClient):
    """E24, E27, E-R1: value prop and sentiment from loose words; every offer is a returned one."""
    told = await ask(http, "what are the offers from cash back, premium campaigns")
    assert told["detectedFilters"] == {
        "value_prop": ["Cash Back / Rewards"],
        "sentiment": ["Premium"],
        "has_offer": True,
    }
    assert told["total"] == len(told["campaigns"]) > 5
    assert told["campaignsSource"] == "filter_campaigns"
    offers = {f"{one['company']}: {one['offer']}" for one in told["campaigns"]}
    lines = told["response"].splitlines()
    assert lines[0] == f"{told['total']} campaigns match."
    assert {*lines[1:]} <= offers
    assert {*told["campaigns"][0]} >= {"id", "company", "key_value_props", "capture_date", "image_s3_urls"}
    assert told["steps"][0]["name"] == "filter_campaigns"
    assert "campaigns" not in told["steps"][0]["result"]


async def test_a_conversation_goes_on_with_its_filters(http: httpx.AsyncClient):
    """E-R6: "and on Instagram?", "only the urgent ones"."""
    first = await ask(http, "show me travel campaigns")
    then = await ask(http, "and on instagram", conversationId=first["conversationId"])
    assert then["detectedFilters"] == {"channel": ["instagram"], "value_prop": ["Travel Benefits"]}
    last = await ask(http, "only urgent", conversationId=first["conversationId"])
    assert last["detectedFilters"]["sentiment"] == ["Urgent"]
    assert 0 < last["total"] < then["total"] < first["total"]
    exported = await http.get(f"/api/campaigns/export?conversationId={first['conversationId']}")
    assert exported.headers["content-type"].startswith("text/csv")
    assert len(exported.text.splitlines()) == 1 + len(last["campaigns"])


async def test_counts_groups_and_trends_are_aggregations(http: httpx.AsyncClient):
    """E20, E-R7."""
    common = await ask(http, "what is the most common channel")
    groups = common["aggregation"]["groups"]
    assert [row["count"] for row in groups] == sorted((row["count"] for row in groups), reverse=True)
    assert sum(row["count"] for row in groups) == 360
    trend = await ask(http, "trend of travel campaigns")
    months = [row["value"] for row in trend["aggregation"]["groups"]]
    assert months == sorted(months)
    assert len(months) > 12


async def test_words_are_searched_in_the_copy_and_ideas_by_meaning(http: httpx.AsyncClient):
    """E19, E21, E25."""
    words = await ask(http, 'find campaigns mentioning "window seat"')
    assert words["total"] > 2
    assert all("window seat" in one["full_campaign_text"].casefold() for one in words["campaigns"])
    idea = await ask(http, "find campaigns about airport lounges and boarding")
    first = idea["campaigns"][:10]
    assert sum("Travel Benefits" in one["key_value_props"] for one in first) >= 8
    assert idea["campaignsSource"] == "semantic_search"


async def test_filters_of_the_page_apply_to_every_search(http: httpx.AsyncClient):
    """E5, E23, E-R3: a tool's own value replaces the page's for its dimension."""
    page = {"channel": "email", "sentiment": ["Playful"]}
    told = await ask(http, "show me travel campaigns", activeFilters=page)
    assert {one["channel"] for one in told["campaigns"]} == {"email"}
    assert told["detectedFilters"]["sentiment"] == ["Playful"]
    other = await ask(http, "show me instagram campaigns", activeFilters=page)
    assert other["detectedFilters"]["channel"] == ["instagram"]
    free = await ask(http, "show me travel campaigns", activeFilters=page, applyFiltersToQuery=False)
    assert len({one["channel"] for one in free["campaigns"]}) > 1
    wrong = await ask(http, "show me travel campaigns", 400, activeFilters={"channel": "radio"})
    assert "use one of: facebook" in wrong["remedy"]


async def test_a_false_claim_is_sent_back_and_then_left_out(http: httpx.AsyncClient, model: ChatDouble):
    """An offer, a figure, a company and a date that no campaign has are caught, each by its name."""
    listed = (await http.get("/api/campaigns?channel=email&has_offer=true&limit=1")).json()["campaigns"][0]
    good: dict[str, Any] = {"text": f"{listed['company']}: {listed['offer']}", "campaigns": [listed["id"]]}
    good["offers"] = [listed["offer"]]
    false: list[dict[str, Any]] = [
        {"text": "They give a free car.", "campaigns": [listed["id"]], "offers": ["a free car"]},
        {"text": "It cost 123456789 dollars.", "figures": [123456789]},
        {"text": "Acme Corp does it, too.", "companies": ["Acme Corp"]},
        {"text": "It ran on 1999-01-01.", "dates": ["1999-01-01"]},
        {"text": "There were 77777 of them."},
        {"text": "And this one.", "campaigns": ["c-9999"]},
    ]
    model.script(search(channel=["email"], has_offer=True), statements(good, *false))
    model.script(statements(good, *false))
    told = await ask(http, "offers by email?", provider="openai")
    refusal = model.requests[2].messages[-1]["content"]
    for fault in ("'a free car' is", "123456789", "'Acme Corp' is", "'1999-01-01'", "'77777'", "'c-9999'"):
        assert fault in refusal
    assert told["response"] == f"{good['text']}\n\n(6 statements were left out: no campaign supports them.)"
    assert len(told["campaigns"]) == 50 < told["total"]


async def test_what_is_supported_is_sent_at_once_with_suggestions(http: httpx.AsyncClient, model: ChatDouble):
    """E9, E-R10: the model gets count and summary alone."""
    count = {"text": "Email has 74 campaigns in 2 rows of cards.", "figures": [74]}
    model.script(search(channel=["email"], group_by="channel"), statements(count, suggestions=["And X?"]))
    told = await ask(http, "how many?", provider="openai")
    assert (told["response"], told["suggestions"]) == (count["text"], ["And X?"])
    sent = model.requests[1].messages[-1]["content"]
    assert "full_campaign_text" not in sent
    assert len(sent) < 10_000
    assert "<now>" in model.requests[0].messages[1]["content"]


async def test_text_without_statements_is_checked_too(http: httpx.AsyncClient, model: ChatDouble):
    model.script(search(channel=["email"]), Say("There are 74 of them."))
    assert (await ask(http, "how many?", provider="openai"))["response"] == "There are 74 of them."
    model.script(search(channel=["email"]), Say("There are 75 of them."))
    told = await ask(http, "how many?", provider="openai")
    assert told["response"].startswith("74 campaigns match:")
    model.script(Say("Hello! Ask me about 1,000 things."))
    assert (await ask(http, "hi", provider="openai"))["response"] == "Hello! Ask me about 1,000 things."


async def test_five_searches_are_the_most(http: httpx.AsyncClient, model: ChatDouble):
    """E2, E-R5."""
    model.script(*(search(channel=[name]) for name in ("email", "facebook", "instagram", "twitter", "email")))
    model.script(Say("I looked five times."))
    told = await ask(http, "everything", provider="openai")
    assert len(told["steps"]) == 5
    assert model.requests[-1].body["tool_choice"] == "none"
    assert told["response"]


async def test_no_hit_is_an_answer(http: httpx.AsyncClient):
    """E18."""
    told = await ask(http, 'find campaigns mentioning "zebra crossing at noon"')
    assert (told["response"], told["campaigns"], told["total"]) == ("No campaign matches.", [], 0)


ODD = ["AND OR NOT", '"', "(((", "a:b^2~3", "x" * 2_000, "*", "' OR 1=1 --", "12345", "\\"]


@pytest.mark.parametrize("query", ODD, ids=range(len(ODD)))
async def test_odd_queries_are_plain_text(http: httpx.AsyncClient, model: ChatDouble, query: str):
    """E-R9, X13."""
    for tool in ("full_text_search", "search_offers"):
        model.script(search(tool, query=query), Say("Nothing."))
        assert (await ask(http, "find it", provider="openai"))["steps"][0]["status"] == "completed"


async def test_offers_are_counted_beyond_a_page(http: httpx.AsyncClient, model: ChatDouble):
    """E12, E-R8, E-R11: `count` has all offers with the word, and no copy that has it."""
    rows = [
        {"id": f"n-{at}", "company": "Acme", "channel": "email", "capture_date": "2026-01-01"}
        | {"offer": "Free miles" if at % 2 else "A pen", "campaign_text": "miles miles"}
        for at in range(120)
    ]
    lines = "\n".join(json.dumps(row) for row in rows)
    done = await http.post("/api/campaigns/import", params={"fileName": "x.jsonl"}, content=lines)
    assert done.json()["imported"] == 120, done.text
    model.script(search("search_offers", query="miles"), Say("60 of them."))
    told = await ask(http, "which offers have miles?", provider="openai")
    assert (told["total"], len(told["campaigns"])) == (60, 50)


@pytest.mark.parametrize(
    "call",
    [
        search(channel=["email"]),
        search("search_offers", query="for"),
        search("full_text_search", query="card"),
        search("semantic_search", query="travel", embedding_field="copy"),
    ],
    ids=lambda call: call.calls[0][1],
)
async def test_the_export_of_a_result_has_every_campaign_that_matches(
    http: httpx.AsyncClient, model: ChatDouble, call: Say
):
    """E30: the reply has the first ones alone, and says how many there are."""
    model.script(call, Say("Many."))
    told = await ask(http, "which?", provider="openai")
    assert told["total"] > len(told["campaigns"])
    exported = await http.get(f"/api/campaigns/export?conversationId={told['conversationId']}")
    rows = [row["id"] for row in csv.DictReader(io.StringIO(exported.text))]
    assert len(rows) == len({*rows}) == told["total"]
    assert {one["id"] for one in told["campaigns"]} <= {*rows}
    assert exported.headers.get("x-left-out", "0") == "0"


async def test_an_export_has_the_whole_library(http: httpx.AsyncClient):
    """In portions, so that a large library does not fill the memory."""
    lines = "".join(f"c-{n},Alder,email,2026-03-{1 + n % 28:02}\n" for n in range(1_201))
    content = f"id,company,channel,capture_date\n{lines}"
    await http.post("/api/campaigns/import?fileName=x.csv", content=content)
    exported = await http.get("/api/campaigns/export")
    assert "content-length" not in exported.headers
    rows = [*csv.DictReader(io.StringIO(exported.text))]
    assert {row["id"] for row in rows} == {f"c-{n}" for n in range(1_201)}
    assert len(rows) == 1_201
    days = [row["capture_date"] for row in rows]
    assert days == sorted(days, reverse=True)


@pytest.mark.slow
async def test_an_export_has_more_campaigns_than_a_list_may_have(http: httpx.AsyncClient):
    """E31."""
    lines = "".join(f"c-{n},Alder,email,2026-03-01\n" for n in range(10_050))
    content = f"id,company,channel,capture_date\n{lines}"
    await http.post("/api/campaigns/import?fileName=x.csv", content=content)
    exported = await http.get("/api/campaigns/export")
    assert len(exported.text.splitlines()) == 10_051


async def test_wrong_values_go_back_with_the_right_ones(http: httpx.AsyncClient, model: ChatDouble):
    model.script(search(channel=["radio"]), search(channel=["email"]), Say("74 there."))
    told = await ask(http, "radio?", provider="openai")
    refusal = model.requests[1].messages[-1]["content"]
    assert "there is no channel 'radio'" in refusal
    assert "direct_mail" in refusal
    assert told["response"] == "74 there."


async def test_what_does_not_fit_is_refused(http: httpx.AsyncClient):
    """X13."""
    assert "empty" in (await ask(http, " ", 400))["error"]
    assert (await ask(http, "x" * 30_000, 400))["error"]
    assert (await ask(http, "show me email campaigns", 404, conversationId="none"))["type"] == "missing"
    for path in ("/api/campaigns/none", "/api/campaigns?channel=radio", "/api/campaigns?limit=0"):
        assert (await http.get(path)).status_code in {400, 404, 422}


ROWS = """\
ID;Company;Channel;Offer;Key Value Props;Imagery Sentiment;Capture Date;Volume
a-1;Own & Co;E-mail;5% back;cash back|travel;premium;2026-09-30;1,200
a-2;Own & Co;radio;;;;2026-09-30;
a-1;Own & Co;email;;;;2026-09-30;
a-3;Other;instagram;;no fee;playful;30.09.2026;
a-4;Other;instagram;;;;someday;
"""


async def test_a_library_of_ones_own_is_imported_changed_exported_and_deleted(http: httpx.AsyncClient):
    """Re-import updates by id; a refused row has its line and reason; all or nothing on request."""
    rows = ROWS
    refused = await http.post("/api/campaigns/import?fileName=x.csv&allOrNothing=true", content=rows)
    assert (refused.status_code, "line 3" in refused.text) == (400, True)
    assert (await http.get("/api/campaigns")).json()["total"] == 360, "the sample library is searched still"
    report = (await http.post("/api/campaigns/import?fileName=x.csv", content=rows)).json()
    assert (report["imported"], report["new"], report["refusedCount"]) == (2, 2, 3)
    assert [row["line"] for row in report["refused"]] == [3, 4, 6]
    assert "channel is 'radio'" in report["refused"][0]["reason"]
    listed = (await http.get("/api/campaigns")).json()
    assert [one["id"] for one in listed["campaigns"]] == ["a-1", "a-3"] or listed["total"] == 2
    one = (await http.get("/api/campaigns/a-1")).json()
    assert (one["key_value_props"], one["volume"]) == (["Cash Back / Rewards", "Travel Benefits"], 1200)
    told = await ask(http, "show me premium campaigns")
    assert [each["id"] for each in told["campaigns"]] == ["a-1"]
    again = [{**one, "offer": "6% back"}]
    report = (await http.post("/api/campaigns/import?fileName=x.json", json=again)).json()
    assert (report["imported"], report["new"]) == (1, 0)
    exported = (await http.get("/api/campaigns/export")).text
    assert "6% back" in exported
    lines = "\n".join(json.dumps({**one, "id": f"b-{n}"}) for n in range(40)) + "\n{broken\n"
    report = (await http.post("/api/campaigns/import?fileName=x.jsonl", content=lines)).json()
    assert (report["imported"], report["refusedCount"]) == (40, 1)
    assert (await http.delete("/api/campaigns/c-0001")).status_code == 404, (
        "the sample library is not searched"
    )
    assert (await http.delete("/api/campaigns/b-1")).json() == {"deleted": 1}
    assert (await http.delete("/api/campaigns/b-1")).status_code == 404
    assert (await http.delete("/api/campaigns")).json() == {"deleted": 41}
    assert (await http.get("/api/campaigns")).json()["total"] == 360


async def test_a_campaign_of_the_sample_library_is_not_deleted(http: httpx.AsyncClient):
    """X13: it is there, so the refusal says whose it is and what helps."""
    assert (await http.get("/api/campaigns/c-0001")).status_code == 200
    refused = await http.delete("/api/campaigns/c-0001")
    assert refused.status_code == 409
    assert "sample library" in refused.json()["error"]
    assert "import" in refused.json()["remedy"]
    assert (await http.get("/api/campaigns/c-0001")).status_code == 200
    assert (await http.delete("/api/campaigns/none")).status_code == 404


async def test_a_search_is_saved_and_repeated(http: httpx.AsyncClient):
    saved = {"message": "show me travel campaigns", "activeFilters": {"channel": ["email"]}}
    assert (await http.put("/api/searches/mine", json=saved)).json()["searches"]["mine"]["message"]
    told = (await http.post("/api/searches/mine/run")).json()
    assert {one["channel"] for one in told["campaigns"]} == {"email"}
    assert (await http.get("/api/searches")).json()["searches"].keys() == {"mine"}
    assert (await http.post("/api/searches/none/run")).status_code == 404
    assert (await http.delete("/api/searches/mine")).json() == {"searches": {}}
    assert (await http.delete("/api/searches/mine")).status_code == 404


async def test_an_answer_is_streamed(http: httpx.AsyncClient):
    headers = {"Accept": "text/event-stream"}
    body = {"message": "how many email campaigns are there", "provider": "offline"}
    text = (await http.post("/api/chat", json=body, headers=headers)).text
    assert "event: step" in text
    assert "74 campaigns match." in text


def test_the_command_imports_and_asks(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    callsheet: Callable[..., Finished] = command_in_process(valkey_url, tmp_path, monkeypatch, capsys)
    told = callsheet("ask", "how many email campaigns are there", "--provider", "offline")
    assert told.code == 0, told.err
    assert "74 campaigns match." in told.out
    assert "10 of 74 campaigns" in told.out
    rows = ["id,company,channel,capture_date", "1,Own,email,2026-09-01", "2,Own,radio,2026-09-01"]
    (tmp_path / "x.csv").write_text("\n".join(rows))
    made = callsheet("ask", "--import", "x.csv", "show me email campaigns", "--provider", "offline")
    assert made.code == 0, made.err
    assert "Imported 1 campaigns, 1 of them new." in made.out
    assert "Line 3 refused: channel is 'radio'" in made.out
    assert callsheet("ask", "--import", "x.csv", "--all-or-nothing").code == 1
    assert callsheet("ask").code == 2
    shown = callsheet("ask", "show me email campaigns", "--provider", "offline", "--json")
    assert json.loads(shown.out)["total"] == 1
