"""The tools over REST: what there is, each of the six errors through the front door, the record of calls."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest
from pydantic import TypeAdapter

from callsheet.server.operations.replies import ToolExecution, ToolExecutionList, ToolList
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import Invalid
from callsheet.tools import REGISTRY
from tests.doubles.chat_double import Say
from tests.doubles.served import generate_ad, served_app, started_app

TERMS = {
    "search_voices": {"output_bytes": 1},
    "get_current_state": {"timeout_s": 1e-9},
    "create_music_draft": {"calls": 1},
}


@pytest.fixture
async def client(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with served_app(valkey_url, tools=json.dumps(TERMS)) as one:
        yield one


async def listed(client: httpx.AsyncClient, **wanted: str | int) -> ToolExecutionList:
    reply = await client.get("/api/tool-executions", params=wanted)
    assert reply.status_code == 200, reply.text
    return TypeAdapter(ToolExecutionList).validate_python(reply.json())


async def test_the_tools_are_listed_with_what_they_take_and_on_what_terms(client):
    """C3, C56."""
    found = (await client.get("/api/tools")).json()
    TypeAdapter(ToolList).validate_python(found)
    by_name = {one["name"]: one for one in found["tools"]}
    assert set(by_name) == set(REGISTRY)
    music = by_name["create_music_draft"]
    assert music["inputSchema"]["required"] == ["prompt"]
    assert (music["domain"], music["effect"], music["safetyLevel"]) == ("ad", "write", "safe")
    assert (music["allowed"], music["available"], music["breaker"]["state"]) == (True, True, "closed")
    assert (music["limits"]["calls"], music["limits"]["cacheSeconds"]) == (1, 0)
    assert by_name["get_current_state"]["limits"]["timeoutSeconds"] == 1e-9
    assert by_name["search_voices"]["limits"]["cacheSeconds"] == 300


def asking(call, name, **arguments):
    return Say(calls=[(call, name, json.dumps(arguments))])


SIX: dict[str, tuple[str, dict[str, object]]] = {
    "unknown_tool": ("launch_rocket", {}),
    "validation_error": ("create_sfx_draft", {"adId": "ad-1"}),
    "permission_denied": ("create_sfx_draft", {"adId": "someone-elses", "prompts": []}),
    "timeout_error": ("get_current_state", {"adId": "ad-1"}),
    "execution_error": ("search_voices", {"language": "thai"}),
    "rate_limit_error": ("create_music_draft", {"adId": "ad-1", "prompt": "calm"}),
}


async def test_each_of_the_six_errors_reaches_the_model_and_is_recorded(client, model):
    """C31-C39: through REST, with status and endTime; the model has its answer and ends with words (C43)."""
    model.script(
        asking("first", "create_music_draft", adId="ad-1", prompt="warm"),
        *(asking(kind, name, **arguments) for kind, (name, arguments) in SIX.items()),
        Say("Only the music could be done; here is what we can do instead."),
    )
    reply = await generate_ad(client, provider="openai")
    assert reply["message"].startswith("Only the music")
    assert reply["drafts"] == {"music": "v1"}
    told = {}
    for message in model.requests[-1].messages:
        if message["role"] == "tool":
            told[message["tool_call_id"]] = json.loads(message["content"].partition("\n\n<state>")[0])
    page = await listed(client, conversationId=reply["conversationId"])
    records = {one["toolCallId"]: one for one in page["executions"]}
    for kind in SIX:
        record, answer = records[kind], told[kind]
        assert (record["errorType"], answer["type"]) == (kind, kind)
        assert record["status"] == ("timeout" if kind == "timeout_error" else "failed")
        assert record["endTime"]
        assert record["endTime"] >= record["startTime"]
        assert answer["error"] == record["error"]
        assert answer["suggestion"]


async def test_the_calls_of_a_turn_are_on_record_page_by_page_and_one_by_one(valkey_url):
    """C29, C50."""
    async with served_app(valkey_url) as client:
        made = await generate_ad(client)
        whole = (await listed(client, conversationId=made["conversationId"]))["executions"]
        assert {one["toolName"] for one in whole} >= {"create_voice_draft", "create_music_draft"}
        assert {one["status"] for one in whole} == {"completed"}
        first = await listed(client, limit=2)
        rest = await listed(client, after=str(first["next"]), limit=100)
        assert [*first["executions"], *rest["executions"]] == whole
        assert rest["next"] is None
        drafts = (await listed(client, toolName="create_voice_draft"))["executions"]
        assert [one["output"]["versionId"] for one in drafts] == ["v1"]
        reply = await client.get(f"/api/tool-executions/{drafts[0]['id']}")
        assert TypeAdapter(ToolExecution).validate_python(reply.json()) == drafts[0]
        assert (await client.get("/api/tool-executions/none")).status_code == 404
        assert (await listed(client, conversationId="another"))["executions"] == []


async def test_health_and_figures_tell_which_tool_rests(valkey_url):
    """C54, C56, C57: one breaker for all processes, so each of them tells of it and refuses."""
    terms = json.dumps({"create_music_draft": {"timeout_s": 1e-9, "failures": 1}})
    async with served_app(valkey_url, tools=terms) as client:
        assert (await client.get("/health")).json()["tools"] == {"available": len(REGISTRY), "resting": {}}
        await generate_ad(client)
    async with served_app(valkey_url, tools=terms) as other:
        assert list((await other.get("/health")).json()["tools"]["resting"]) == ["create_music_draft"]
        figures = (await other.get("/metrics")).text
        assert 'callsheet_tool_breaker{tool="create_music_draft"} 2.0' in figures
        assert 'callsheet_tool_breaker{tool="search_voices"} 0.0' in figures
        by_name = {one["name"]: one for one in (await other.get("/api/tools")).json()["tools"]}
        assert by_name["create_music_draft"]["available"] is False
        assert 0 < by_name["create_music_draft"]["breaker"]["retryAfterSeconds"] <= 30


async def test_a_person_without_a_permission_is_told_so_by_the_list(valkey_url):
    async with served_app(valkey_url, tool_grants='{"*": []}') as client:
        tools = (await client.get("/api/tools")).json()["tools"]
    assert {one["allowed"] for one in tools} == {not one["permissions"] for one in tools} | {True}


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({"tools": '{"search_voices": {"timeout_s": -1}}'}, "'timeout_s' of 'search_voices' is -1"),
        ({"tool_grants": '{"ana": "page:write"}'}, "the grants of 'ana'"),
    ],
)
async def test_a_server_with_wrong_terms_does_not_start(valkey_url, chosen, told, caplog):
    with pytest.raises(Invalid, match=told):
        async with started_app(valkey_url, **chosen):
            raise AssertionError
    assert "cannot be loaded" not in caplog.text, "who starts it is told, without a trace"


@pytest.mark.parametrize("text", ["[]", "{", "3"])
def test_terms_that_are_no_json_object_are_refused_at_once(text):
    with pytest.raises(ValueError, match=r"JSON|Expecting"):
        Settings(tools=text)
