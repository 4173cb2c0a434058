"""Files of ads as programs and people write them, imported over HTTP (E28, E29)."""

import json
import tempfile
from typing import Any

import httpx
import pytest

from callsheet.server.campaigns.service import import_campaigns
from callsheet.storage import Storage
from callsheet.storage.campaigns.library import own_library
from callsheet.tools.campaigns.file_reading import FileRequest
from tests.campaigns.test_campaign_questions import answer_call, post_question, search_call
from tests.doubles.ad_libraries import CHANNELS, AdFile, ad_files
from tests.doubles.campaigns import CountingEmbeddings
from tests.doubles.chat_double import ChatDouble


async def import_file(api: httpx.AsyncClient, name: str, content: bytes, **params: str) -> dict[str, Any]:
    reply = await api.post("/api/campaigns/import", params={"fileName": name, **params}, content=content)
    assert reply.status_code == 200, reply.text
    report: dict[str, Any] = reply.json()
    return report


async def library_of(api: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    reply = (await api.get("/api/campaigns", params={"limit": 200})).json()
    return {one["id"]: one for one in reply["campaigns"]}


IGNORED = {"meta.csv": ["bylines"], "report.csv": ["Clicks"]}


@pytest.mark.parametrize("file", ad_files(), ids=lambda file: file.name)
async def test_a_file_of_any_advertisers_is_imported_with_nothing_changed(
    api: httpx.AsyncClient, file: AdFile
):
    """E28, E29: three currencies, six channels, six forms of days, German numbers, tabs, a workbook."""
    report = await import_file(api, file.name, file.content, **file.params)
    assert [row["line"] for row in report["refused"]] == file.refused
    assert (report["imported"], report["warnings"]) == (len(file.campaigns), [])
    assert report["ignoredColumns"] == IGNORED.get(file.name, [])
    library = await library_of(api)
    assert len(library) == len(file.campaigns)
    for expected in file.campaigns:
        imported = library[expected["id"]]
        day = expected["capture_date"].isoformat()
        assert {name: imported[name] for name in expected} == expected | {"capture_date": day}


async def test_the_channels_and_value_propositions_of_a_library_can_be_searched(
    api: httpx.AsyncClient, model: ChatDouble
):
    """E28: they are open lists; the model sees what is in the library."""
    for file in ad_files():
        await import_file(api, file.name, file.content, **file.params)
    for channel in CHANNELS:
        page = (await api.get("/api/campaigns", params={"channel": channel})).json()
        assert page["total"] == 10 - (channel == "youtube")
    loose = (await api.get("/api/campaigns?channel=TikTok&value_prop=repair for life")).json()
    assert (loose["total"], loose["detectedFilters"]["value_prop"]) == (2, ["Repair for life"])
    refused = await api.get("/api/campaigns?channel=radio")
    assert refused.status_code == 422
    assert "out_of_home" in refused.json()["remedy"]
    model.script(
        search_call(channel=["Out of home"], group_by="value_prop"),
        answer_call({"text": "10.", "figures": [10]}),
    )
    answer = await post_question(api, "what do posters promise?", provider="openai")
    assert answer["total"] == 10
    shown = json.dumps(model.requests[0].messages, ensure_ascii=False)
    assert "out_of_home" in shown
    assert "Repair for life" in shown
    model.script(search_call(group_by="channel"), answer_call({"text": "59.", "figures": [59]}))
    answer = await post_question(api, "how many by channel?", provider="openai")
    [note] = answer["steps"][0]["result"]["notes"]
    assert note == "spends are in EUR and GBP and USD; the sums add them as they are"
    assert answer["aggregation"]["currencies"] == ["EUR", "GBP", "USD"]


async def test_the_columns_of_a_shop_are_recognized(api: httpx.AsyncClient):
    """E28: semicolons, decimal commas, and days in two forms."""
    head = "Campaign ID;Advertiser;Medium;Article;Promotion;Copy text;Date;Budget (EUR);County"
    rows = ['g1;Grünwerk;TikTok;Secateurs;10 % off;"Now; ""sharp""";03.09.2025;1.068,72;Kent']
    rows += ["g2;Grünwerk;Radio;Raised bed;;Grow;2025-09-21;68,5;Essex"]
    report = await import_file(api, "x.csv", "\n".join([head, *rows]).encode())
    assert (report["imported"], report["warnings"], report["ignoredColumns"]) == (2, [], ["County"])
    library = await library_of(api)
    fields = ("primary_product", "campaign_text", "capture_date", "spend", "currency")
    assert [[library[one][name] for name in fields] for one in ("g1", "g2")] == [
        ["Secateurs", 'Now; "sharp"', "2025-09-03", 1068.72, "EUR"],
        ["Raised bed", "Grow", "2025-09-21", 68.5, "EUR"],
    ]


async def test_a_mapping_and_defaults_set_the_fields_of_columns(api: httpx.AsyncClient):
    """E28."""
    content = b"Key,Werbemittel,Spender,Tag\n1,Hallo,Miel,2026-03-01\n"
    report = await import_file(api, "x.csv", content)
    assert report["ignoredColumns"] == ["Key", "Werbemittel", "Spender", "Tag"]
    assert "company is missing" in report["refused"][0]["reason"]
    mapping = {"Key": "id", "Werbemittel": "campaign_text", "Spender": "company", "Tag": "capture_date"}
    options = {"mapping": json.dumps(mapping), "defaults": json.dumps({"channel": "Kino"})}
    report = await import_file(api, "x.csv", content, **options)
    assert (report["columns"], report["refused"]) == (mapping, [])
    [campaign] = (await library_of(api)).values()
    assert (campaign["channel"], campaign["campaign_text"]) == ("kino", "Hallo")
    for wrong in (
        {"mapping": "[1]"},
        {"mapping": '{"Tag": "day"}'},
        {"mapping": '{"None": "id"}'},
        {"defaults": '{"id": "1"}'},
    ):
        reply = await api.post(
            "/api/campaigns/import", params={"fileName": "x.csv", **wrong}, content=content
        )
        assert reply.status_code == 422, reply.text
        assert reply.json()["remedy"]


async def test_a_form_as_browsers_send_it_is_imported(api: httpx.AsyncClient):
    """E28: the file's name tells its kind; other fields are left out."""
    content = b"id,company,channel,date\n1,Caf\xc3\xa9,email,2026-03-01\n"
    for size in (0, 70_000, 300_000):
        note = b"x" * size
        rows = (
            content
            + b"2,B,email,2026-03-02\n"
            + b"".join(b"3-%d,%b,tv,2026-01-01\n" % (n, b"C" * 90) for n in range(size // 100))
        )
        reply = await api.post(
            "/api/campaigns/import", files={"file": ("ads.csv", rows)}, data={"note": note[:9].decode()}
        )
        assert reply.status_code == 200, reply.text
        assert reply.json()["imported"] == 2 + size // 100
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n' + content
    for body, words in (
        (part, "incomplete"),
        (b"--b--\r\n", "no file"),
        (part + b"\r\n" + part + b"\r\n--b--", "several files"),
        (b"--b\r\n" + b"x" * 10_000, "no end of its headers"),
        (b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"x" * 80_000, "long fields"),
    ):
        reply = await api.post("/api/campaigns/import", content=body, headers=headers)
        assert (reply.status_code, words in reply.json()["error"]) == (400, True), reply.text
    bare = await api.post(
        "/api/campaigns/import", content=part, headers={"Content-Type": "multipart/form-data"}
    )
    assert "no boundary" in bare.json()["error"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"PK\x03\x04rest", "Excel workbook or another archive"),
        ("a.csv", b"\xd0\xcf\x11\xe0rest", "old Excel workbook"),
        ("a.csv", b"\xef\xbb\xbf <!DOCTYPE html><table>", "web page"),
        ("a.csv", b"%PDF-1.7", "PDF"),
        ("a.xlsx", b"id,company", "no Excel workbook"),
        ("a.json", b"[{} {}]", "a comma is missing"),
        ("a.json", b"[{},]", "a comma is missing or too many"),
        ("a.csv", b"", "no names of columns"),
    ],
)
async def test_a_file_of_another_format_is_refused_with_the_reason(
    api: httpx.AsyncClient, name: str, content: bytes, words: str
):
    """E29."""
    reply = await api.post("/api/campaigns/import", params={"fileName": name}, content=content)
    assert (reply.status_code, words in reply.json()["error"]) == (422, True), reply.text
    assert reply.json()["remedy"]


class SizedEmbeddings(CountingEmbeddings):
    """Slow embeddings for at most 1,500 campaigns, and quick ones for more."""

    def __init__(self) -> None:
        super().__init__("slow")
        self.quick = CountingEmbeddings("quick")

    def suited_to(self, campaigns: int) -> CountingEmbeddings:
        return self if campaigns <= 1_500 else self.quick


async def test_an_import_computes_only_the_embeddings_of_the_size_after_it(storage: Storage):
    """The slow ones of the first thousands would be thrown away."""
    rows = [f"{n},A{n},tv,2026-03-01,Offer {n}" for n in range(3_100)]
    content = "\n".join(["id,company,channel,date,offer", *rows]).encode()
    embeddings = SizedEmbeddings()
    index = await own_library(storage, "ana", embeddings)
    done: list[int] = []
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        report = await import_campaigns(
            index, file, FileRequest("csv"), report=lambda count, _: done.append(count)
        )
    assert (report["imported"], report["new"]) == (3_100, 3_100)
    assert done == [1_000, 2_000, 3_000, 3_100]
    assert embeddings.texts == []
    assert len(embeddings.quick.texts) == 3_100
