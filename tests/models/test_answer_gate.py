"""Odd answers of models over REST: what the person is told, what is stored, and that the thread goes on.

The endpoint refuses every request that breaks the vendor's rules, so each case ends with a message that must
be answered normally (A70-A76, C42, X12).
"""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import httpx
import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from callsheet.state.answers import kept_answer
from callsheet.state.model_input import model_input
from tests.doubles.ad_model import call
from tests.doubles.chat_double import ChatDouble, Say
from tests.doubles.served import GENERATE, VOICE, app_client, started_app

BRIEF = {**GENERATE, "provider": "openai"}
TRACKS = [{"voiceId": VOICE, "text": "Bread at four."}, {"voiceId": VOICE, "text": "Miel, in Lyon."}]
MUSIC = call("c2", "create_music_draft", prompt="gentle piano")
CALMER = call("c4", "create_music_draft", prompt="calmer piano")
CUT = ("c1", "create_voice_draft", json.dumps({"tracks": TRACKS})[:60])
VOICES = call("c1", "create_voice_draft", tracks=TRACKS)
DONE = Say("Ready to review.")


@pytest.fixture(params=["openai", "llama.cpp"])
def double(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatDouble]:
    with ChatDouble(vendor=request.param) as one:
        for name, value in one.environ.items():
            monkeypatch.setenv(name, value)
        yield one


@pytest.fixture
async def http(valkey_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with started_app(valkey_url) as app, app_client(app) as client:
        yield client


async def generated(http: httpx.AsyncClient) -> dict[str, Any]:
    reply = await http.post("/api/ai/generate", json=BRIEF)
    assert reply.status_code == 200, reply.text
    told: dict[str, Any] = reply.json()
    return told


async def goes_on(http: httpx.AsyncClient, double: ChatDouble) -> None:
    """The next message on the thread is answered under the vendor's rules."""
    assert double.unused == 0
    double.script(Say("Calmer it is.", calls=[CALMER]), DONE)
    reply = await http.post("/api/ads/ad-1/chat", json={"message": "calmer", "provider": "openai"})
    assert (reply.status_code, reply.json()["message"]) == (200, "Ready to review."), reply.text
    assert "music" in reply.json()["drafts"]


async def versions(http: httpx.AsyncClient, stream: str) -> list[str]:
    return [one["id"] for one in (await http.get(f"/api/ads/ad-1/{stream}")).json()["versions"]]


async def script(http: httpx.AsyncClient) -> list[str]:
    tracks = (await http.get("/api/ads/ad-1/voices/v1")).json()["data"]["voiceTracks"]
    return [track["text"] for track in tracks]


async def test_calls_that_were_cut_off_are_asked_for_again_and_never_carried_out(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    whole = Say(calls=[VOICES, MUSIC])
    double.script(Say(calls=[CUT], finish="length"), whole, DONE)
    told = await generated(http)
    assert told["drafts"] == {"voices": "v1", "music": "v1"}
    assert await script(http) == ["Bread at four.", "Miel, in Lyon."]
    assert "cut off" in double.requests[1].messages[-1]["content"]
    assert told["turnUsage"]["modelCalls"] == 3
    await goes_on(http, double)


async def test_calls_that_stay_cut_off_do_nothing_and_the_person_is_told(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(*[Say(calls=[CUT], finish="length")] * 3)
    told = await generated(http)
    assert (told["drafts"], told["toolCalls"]) == ({}, [])
    assert "nothing was carried out" in told["message"]
    assert "No draft was made" in told["message"]
    await goes_on(http, double)


async def test_a_call_written_beside_words_is_asked_for_once(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    """C42: a text may speak of a call; only the model knows whether it wants one."""
    name, arguments = MUSIC[1:]
    words = f"First the music:\n\n{name} {arguments}"
    double.script(Say(words), Say(calls=[MUSIC]), DONE)
    told = await generated(http)
    assert (told["drafts"], told["message"]) == ({"music": "v1"}, "Ready to review.")
    assert "as text" in double.requests[1].messages[-1]["content"]
    await goes_on(http, double)


async def test_a_text_that_was_cut_off_is_continued(http: httpx.AsyncClient, double: ChatDouble) -> None:
    double.script(
        Say(calls=[MUSIC]), Say("The music is a gen", finish="length"), Say("tle piano. Ready to review.")
    )
    told = await generated(http)
    assert told["message"] == "The music is a gentle piano. Ready to review."
    assert double.requests[-1].messages[-2]["content"] == "The music is a gen"
    await goes_on(http, double)


async def test_a_refusal_is_told_in_the_models_words(http: httpx.AsyncClient, double: ChatDouble) -> None:
    double.script(Say(refusal="I cannot advertise that."))
    told = await generated(http)
    assert told["message"].startswith("I cannot advertise that.")
    assert told["drafts"] == {}
    await goes_on(http, double)


async def test_a_filtered_answer_says_so(http: httpx.AsyncClient, double: ChatDouble) -> None:
    double.script(Say("Fresh bre", calls=[MUSIC], finish="content_filter"))
    told = await generated(http)
    assert "content policy" in told["message"]
    assert told["drafts"] == {}
    await goes_on(http, double)


async def test_an_empty_answer_is_asked_for_once_more(http: httpx.AsyncClient, double: ChatDouble) -> None:
    double.script(Say(""), Say(calls=[MUSIC]), DONE)
    assert (await generated(http))["drafts"] == {"music": "v1"}
    await goes_on(http, double)


async def test_a_brief_without_a_draft_is_nudged_once_and_then_told_honestly(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(Say("Lovely brief!"), Say("What is the name of the bakery?"))
    told = await generated(http)
    assert told["message"] == "What is the name of the bakery?\n\n(No draft was made.)"
    assert "No draft was made yet" in double.requests[1].messages[-1]["content"]
    await goes_on(http, double)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "create_music_draft", "arguments": {"prompt": "gentle piano"}}',
        '```json\n{"name": "create_music_draft", "parameters": {"prompt": "gentle piano"}}\n```',
        '<tool_call>\n{"name": "create_music_draft", "arguments": {"prompt": "gentle piano"}}\n</tool_call>',
    ],
)
async def test_a_call_that_was_written_as_text_is_carried_out(
    http: httpx.AsyncClient, double: ChatDouble, text: str
) -> None:
    double.script(Say(text), DONE)
    told = await generated(http)
    assert (told["drafts"], told["message"]) == ({"music": "v1"}, "Ready to review.")
    await goes_on(http, double)


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        (("x" * 60, "y" * 60), ("create_music_draft", "create_sfx_draft")),
        (("same", "same"), ("create_music_draft", "create_sfx_draft")),
        (("", ""), ("create_music_draft", "create_sfx_draft")),
        (("a b/c", "d\n"), ("functions.create_music_draft", "create_sfx_draft")),
    ],
)
async def test_odd_ids_and_names_lose_no_call(
    http: httpx.AsyncClient, double: ChatDouble, ids: tuple[str, str], names: tuple[str, str]
) -> None:
    arguments = ('{"prompt": "gentle piano"}', '{"prompts": [{"description": "an oven door"}]}')
    calls = [*zip(ids, names, arguments, strict=True)]
    double.script(Say(calls=calls), DONE)
    told = await generated(http)
    assert told["drafts"] == {"music": "v1", "sfx": "v1"}
    stored = [one["id"] for one in told["toolCalls"]]
    assert len(set(stored)) == 2
    assert all(0 < len(one) <= 40 for one in stored)
    await goes_on(http, double)


@pytest.mark.parametrize("name", ["make coffee!", "", "n" * 500])
async def test_a_tool_that_does_not_exist_is_named_and_the_thread_goes_on(
    http: httpx.AsyncClient, double: ChatDouble, name: str
) -> None:
    double.script(Say(calls=[("c9", name, "{}")]), Say("Sorry."), Say("Sorry."))
    told = await generated(http)
    assert told["toolCalls"][0]["result"]["type"] == "unknown_tool"
    await goes_on(http, double)


async def test_equal_drafts_of_a_turn_are_made_once(http: httpx.AsyncClient, double: ChatDouble) -> None:
    double.script(Say(calls=[MUSIC, ("c3", *MUSIC[1:])]), Say(calls=[("c5", *MUSIC[1:])]), DONE)
    told = await generated(http)
    assert await versions(http, "music") == ["v1"]
    assert [one["stream"] for one in told["created"]] == ["music"]
    double.script(Say(calls=[("c6", *CALMER[1:])]), Say(calls=[("c7", *MUSIC[1:])]), DONE)
    await http.post("/api/ads/ad-1/chat", json={"message": "calmer, no, back", "provider": "openai"})
    assert await versions(http, "music") == ["v1", "v2", "v3"]


async def test_a_round_has_at_most_sixteen_calls(http: httpx.AsyncClient, double: ChatDouble) -> None:
    calls = [(f"c{n}", "create_music_draft", json.dumps({"prompt": f"piano {n}"})) for n in range(40)]
    double.script(Say(calls=calls), DONE)
    told = await generated(http)
    assert await versions(http, "music") == [f"v{n}" for n in range(1, 17)]
    refused = [one for one in told["toolCalls"] if one["status"] != "completed"]
    assert len(refused) == 24
    assert "at most 16 calls" in refused[0]["result"]["error"]
    await goes_on(http, double)


async def test_invalid_arguments_do_not_stay_in_the_history(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(Say(calls=[("c1", "create_music_draft", '{"prompt": "x')]), Say(calls=[MUSIC]), DONE)
    assert (await generated(http))["drafts"] == {"music": "v1"}
    await goes_on(http, double)


def test_a_history_of_any_kind_is_sent_in_a_valid_form() -> None:
    def tool_call(name: str, key: str | None) -> Any:
        return {"name": name, "args": {}, "id": key, "type": "tool_call"}

    stored: list[AnyMessage] = [
        HumanMessage("Hi", id="h1"),
        AIMessage("", tool_calls=[tool_call("look", "k" * 60), tool_call("a b", None)], id="a1"),
        ToolMessage("seen", tool_call_id="k" * 60),
        ToolMessage("of nobody", tool_call_id="lost"),
        AIMessage("", id="a2"),
        AIMessage("Half.", id="a3"),
        AIMessage("Whole.", id="a4"),
        HumanMessage("", id="h2"),
        AIMessage("", tool_calls=[tool_call("look", "k" * 60)], id="a5"),
        HumanMessage("And?", id="h3"),
    ]
    system, hi, calls, first, second, text, more, result, last = model_input("Be brief.", stored)
    assert isinstance(system, SystemMessage)
    assert (hi, last) == (stored[0], stored[-1])
    assert isinstance(calls, AIMessage)
    assert isinstance(more, AIMessage)
    ids = [str(one["id"]) for one in (*calls.tool_calls, *more.tool_calls)]
    assert len(set(ids)) == 3
    assert max(map(len, ids)) <= 40
    assert [one["name"] for one in calls.tool_calls] == ["look", "a_b"]
    results = [one for one in (first, second, result) if isinstance(one, ToolMessage)]
    assert [one.tool_call_id for one in results] == ids
    assert first.text == "seen"
    assert "cancelled" in second.text
    assert text.text == "Half.\n\nWhole."
    assert model_input("Be brief.", stored) == model_input("Be brief.", stored), "the prefix can be cached"
    assert stored[1].tool_calls[0]["id"] == "k" * 60, "what is stored stays as it is"  # type: ignore[union-attr]


LOOK: Final = ("look", {"x": 1})
ONE: Final = '{"name": "look", "arguments": {"x": 1}}'


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (ONE, [LOOK]),
        (f"<tool_call>\n{ONE}\n</tool_call>\n<tool_call>\n{ONE}", [LOOK, LOOK]),
        (f"```json\n{ONE}\n```", [LOOK]),
        (f"<tools>\n    {ONE}\n</tools>\n\n<tools>\n{ONE}\n</tools>", [LOOK, LOOK]),
        (f"[{ONE},\n{ONE}]", [LOOK, LOOK]),
        (f"{ONE}\n{ONE}", [LOOK, LOOK]),
        # The template of Qwen 2.5 Coder shows doubled braces, which models close once or twice.
        (f"{{{ONE}\n{{{ONE}}}", [LOOK, LOOK]),
        (
            '### look\n```json\n{"x": 1}\n```\n\n### change\n```json\n{"to": "a\nb"}\n```',
            [LOOK, ("change", {"to": "a\nb"})],
        ),
        ('look {"x": 1}\nchange({"to": "b"})', [LOOK, ("change", {"to": "b"})]),
        ('1. **look**: {"x": 1}\n2. `functions.look` {"x": 1}', [LOOK, LOOK]),
        ('look {"arguments": {"x": 1}, "name": "functions.look"}', [LOOK]),
    ],
)
def test_calls_written_as_text_are_calls(text: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    """C42: what local models write whose server knows no form of theirs."""
    kept = kept_answer(AIMessage(text), [], {"look", "change"})
    assert [(one["name"], one["args"]) for one in kept.tool_calls] == calls
    assert kept.text == ""
    assert len({one["id"] for one in kept.tool_calls}) == len(calls)


@pytest.mark.parametrize(
    "text",
    [
        'Use {"name": "look", "arguments": {}} for that.',
        'look {"x": 1} is what I would call.',
        'look: I think {"x": 1} is right.',
        "{" * 3_000,
        "[" * 3_000,
        '{"name": "other", "arguments": {}}',
        '{"name": "look"}',
        "[1]",
        "<tool_call>{broken</tool_call>",
        "{broken",
    ],
)
def test_a_text_that_is_no_call_stays_text(text: str) -> None:
    kept = kept_answer(AIMessage(text), [], {"look"})
    assert (kept.text, kept.tool_calls) == (text, [])
