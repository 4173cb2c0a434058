"""Tools over REST: their list, each of the six errors, and the records of calls."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest
from pydantic import TypeAdapter
from redis import Redis

from callsheet.server.operations.tool_routes import ToolExecution, ToolExecutionList, ToolList
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
    async with served_app(valkey_url, tools=json.dumps(TERMS)) as client:
        yield client


async def list_executions(client: httpx.AsyncClient, **params: str | int) -> ToolExecutionList:
    reply = await client.get("/api/tool-executions", params=params)
    assert reply.status_code == 200, reply.text
    return TypeAdapter(ToolExecutionList).validate_python(reply.json())


async def test_the_list_of_tools_has_schemas_limits_and_breakers(client):
    """C3, C56."""
    body = (await client.get("/api/tools")).json()
    TypeAdapter(ToolList).validate_python(body)
    by_name = {tool["name"]: tool for tool in body["tools"]}
    assert set(by_name) == set(REGISTRY)
    music = by_name["create_music_draft"]
    assert music["inputSchema"]["required"] == ["prompt"]
    assert (music["domain"], music["effect"], music["safetyLevel"]) == ("ad", "write", "safe")
    assert (music["allowed"], music["available"], music["breaker"]["state"]) == (True, True, "closed")
    assert (music["limits"]["calls"], music["limits"]["cacheSeconds"]) == (1, 0)
    assert by_name["get_current_state"]["limits"]["timeoutSeconds"] == 1e-9
    assert by_name["search_voices"]["limits"]["cacheSeconds"] == 300


def call_of(call_id, name, **arguments):
    return Say(calls=[(call_id, name, json.dumps(arguments))])


ERROR_CASES: dict[str, tuple[str, dict[str, object]]] = {
    "unknown_tool": ("launch_rocket", {}),
    "validation_error": ("create_sfx_draft", {"adId": "ad-1"}),
    "permission_denied": ("create_sfx_draft", {"adId": "someone-elses", "prompts": []}),
    "timeout_error": ("get_current_state", {"adId": "ad-1"}),
    "execution_error": ("search_voices", {"language": "thai"}),
    "rate_limit_error": ("create_music_draft", {"adId": "ad-1", "prompt": "calm"}),
}


async def test_each_of_the_six_errors_reaches_the_model_and_is_recorded(client, model):
    """C31-C39: records have a status and an endTime; the model reads each error and then answers (C43)."""
    model.script(
        call_of("first", "create_music_draft", adId="ad-1", prompt="warm"),
        *(call_of(kind, name, **arguments) for kind, (name, arguments) in ERROR_CASES.items()),
        Say("Only the music could be done; here is what we can do instead."),
    )
    reply = await generate_ad(client, provider="openai")
    assert reply["message"].startswith("Only the music")
    assert reply["drafts"] == {"music": "v1"}
    answers = {}
    for message in model.requests[-1].messages:
        if message["role"] == "tool":
            answers[message["tool_call_id"]] = json.loads(message["content"].partition("\n\n<state>")[0])
    page = await list_executions(client, conversationId=reply["conversationId"])
    records = {record["toolCallId"]: record for record in page["executions"]}
    for kind in ERROR_CASES:
        record, answer = records[kind], answers[kind]
        assert (record["errorType"], answer["type"]) == (kind, kind)
        assert record["status"] == ("timeout" if kind == "timeout_error" else "failed")
        assert record["endTime"]
        assert record["endTime"] >= record["startTime"]
        assert answer["error"] == record["error"]
        assert answer["suggestion"]


async def test_the_calls_of_a_turn_can_be_listed_filtered_paged_and_read(valkey_url):
    """C29, C50."""
    async with served_app(valkey_url) as client:
        ad = await generate_ad(client)
        executions = (await list_executions(client, conversationId=ad["conversationId"]))["executions"]
        assert {execution["toolName"] for execution in executions} >= {
            "create_voice_draft",
            "create_music_draft",
        }
        assert {execution["status"] for execution in executions} == {"completed"}
        first = await list_executions(client, limit=2)
        rest = await list_executions(client, after=str(first["next"]), limit=100)
        assert [*first["executions"], *rest["executions"]] == executions
        assert rest["next"] is None
        drafts = (await list_executions(client, toolName="create_voice_draft"))["executions"]
        assert [execution["output"]["versionId"] for execution in drafts] == ["v1"]
        reply = await client.get(f"/api/tool-executions/{drafts[0]['id']}")
        assert TypeAdapter(ToolExecution).validate_python(reply.json()) == drafts[0]
        assert (await client.get("/api/tool-executions/none")).status_code == 404
        assert (await list_executions(client, conversationId="another"))["executions"] == []


async def test_health_metrics_and_the_list_of_tools_report_an_open_breaker(valkey_url):
    """C54, C56, C57: all processes share one breaker, so each reports it and refuses calls."""
    terms = json.dumps({"create_music_draft": {"timeout_s": 1e-9, "failures": 1}})
    async with served_app(valkey_url, tools=terms) as client:
        assert (await client.get("/health")).json()["tools"] == {"available": len(REGISTRY), "resting": {}}
        await generate_ad(client)
    async with served_app(valkey_url, tools=terms) as other:
        assert list((await other.get("/health")).json()["tools"]["resting"]) == ["create_music_draft"]
        metrics = (await other.get("/metrics")).text
        assert 'callsheet_tool_breaker{tool="create_music_draft"} 2.0' in metrics
        assert 'callsheet_tool_breaker{tool="search_voices"} 0.0' in metrics
        by_name = {tool["name"]: tool for tool in (await other.get("/api/tools")).json()["tools"]}
        assert by_name["create_music_draft"]["available"] is False
        assert 0 < by_name["create_music_draft"]["breaker"]["retryAfterSeconds"] <= 30


async def test_the_list_of_tools_shows_which_ones_the_caller_may_not_use(valkey_url):
    async with served_app(valkey_url, tool_grants='{"*": []}') as client:
        tools = (await client.get("/api/tools")).json()["tools"]
    assert {tool["allowed"] for tool in tools} == {not tool["permissions"] for tool in tools} | {True}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tools": '{"search_voices": {"timeout_s": -1}}'}, "'timeout_s' of 'search_voices' is -1"),
        ({"tool_grants": '{"ana": "page:write"}'}, "the grants of 'ana'"),
    ],
)
async def test_a_server_with_invalid_tool_settings_does_not_start(valkey_url, settings, message, caplog):
    with pytest.raises(Invalid, match=message):
        async with started_app(valkey_url, **settings):
            raise AssertionError
    assert "cannot be loaded" not in caplog.text, "the exception alone reports it, not the log"


@pytest.mark.parametrize("text", ["[]", "{", "3"])
def test_tool_settings_that_are_no_json_object_are_refused(text):
    with pytest.raises(ValueError, match=r"JSON|Expecting"):
        Settings(tools=text)


async def test_the_operator_bounds_the_records_of_calls_by_number_and_age(valkey_url: str, inspector: Redis):
    async with served_app(valkey_url, kept_tool_calls=10, tool_call_days=0.5) as client:
        for number in range(4):
            await generate_ad(client, adId=f"ad-{number}")
        executions = (await list_executions(client, limit=100))["executions"]
    assert [call["artefactId"] for call in executions][:4] == ["ad-3"] * 4
    assert len(executions) == 10
    lives = [inspector.ttl(name) for name in inspector.scan_iter("owner:{local}:tool-call*")]
    assert all(0 < seconds <= 43_200 for seconds in lives)
