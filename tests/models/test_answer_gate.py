"""Odd answers of models over REST: the reply, the stored versions, and the next message on the thread.

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


async def generate(http: httpx.AsyncClient) -> dict[str, Any]:
    reply = await http.post("/api/ai/generate", json=BRIEF)
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


async def assert_next_message_is_answered(http: httpx.AsyncClient, double: ChatDouble) -> None:
    """Assert that the next message on the thread is answered under the vendor's rules."""
    assert double.unused == 0
    double.script(Say("Calmer it is.", calls=[CALMER]), DONE)
    reply = await http.post("/api/ads/ad-1/chat", json={"message": "calmer", "provider": "openai"})
    assert (reply.status_code, reply.json()["message"]) == (200, "Ready to review."), reply.text
    assert "music" in reply.json()["drafts"]


async def versions(http: httpx.AsyncClient, stream: str) -> list[str]:
    return [one["id"] for one in (await http.get(f"/api/ads/ad-1/{stream}")).json()["versions"]]


async def script_texts(http: httpx.AsyncClient) -> list[str]:
    tracks = (await http.get("/api/ads/ad-1/voices/v1")).json()["data"]["voiceTracks"]
    return [track["text"] for track in tracks]


async def test_truncated_calls_are_requested_again_and_never_executed(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    complete = Say(calls=[VOICES, MUSIC])
    double.script(Say(calls=[CUT], finish="length"), complete, DONE)
    body = await generate(http)
    assert body["drafts"] == {"voices": "v1", "music": "v1"}
    assert await script_texts(http) == ["Bread at four.", "Miel, in Lyon."]
    assert "cut off" in double.requests[1].messages[-1]["content"]
    assert body["turnUsage"]["modelCalls"] == 3
    await assert_next_message_is_answered(http, double)


async def test_calls_that_stay_truncated_make_no_draft_and_the_reply_says_so(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(*[Say(calls=[CUT], finish="length")] * 3)
    body = await generate(http)
    assert (body["drafts"], body["toolCalls"]) == ({}, [])
    assert "none of its calls was carried out" in body["message"]
    assert body["receipt"]["text"] == "Nothing was changed."
    await assert_next_message_is_answered(http, double)


async def test_a_call_written_among_other_text_is_requested_again_once(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    """C42: the text may only mention a call, so the model is asked to make it."""
    name, arguments = MUSIC[1:]
    words = f"First the music:\n\n{name} {arguments}"
    double.script(Say(words), Say(calls=[MUSIC]), DONE)
    body = await generate(http)
    assert (body["drafts"], body["message"]) == ({"music": "v1"}, "Ready to review.")
    assert "as text" in double.requests[1].messages[-1]["content"]
    await assert_next_message_is_answered(http, double)


async def test_a_truncated_text_is_continued(http: httpx.AsyncClient, double: ChatDouble) -> None:
    double.script(
        Say(calls=[MUSIC]), Say("The music is a gen", finish="length"), Say("tle piano. Ready to review.")
    )
    body = await generate(http)
    assert body["message"] == "The music is a gentle piano. Ready to review."
    assert double.requests[-1].messages[-2]["content"] == "The music is a gen"
    await assert_next_message_is_answered(http, double)


async def test_a_refusal_reaches_the_person_in_the_models_words(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(Say(refusal="I cannot advertise that."))
    body = await generate(http)
    assert body["message"].startswith("I cannot advertise that.")
    assert body["drafts"] == {}
    await assert_next_message_is_answered(http, double)


async def test_the_reply_names_the_content_policy_when_an_answer_is_filtered(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(Say("Fresh bre", calls=[MUSIC], finish="content_filter"))
    body = await generate(http)
    assert "content policy" in body["message"]
    assert body["drafts"] == {}
    await assert_next_message_is_answered(http, double)


@pytest.mark.parametrize(
    "broken", [[Say("It", finish="content_filter")], [Say(calls=[CUT], finish="length")] * 3]
)
async def test_the_words_for_a_broken_answer_do_not_deny_what_an_earlier_round_did(
    http: httpx.AsyncClient, double: ChatDouble, broken: list[Say]
) -> None:
    double.script(Say(calls=[MUSIC]), *broken)
    body = await generate(http)
    assert body["drafts"] == {"music": "v1"}
    assert "none of its calls was carried out" in body["message"]
    assert "othing was" not in body["message"]


async def test_an_empty_answer_is_requested_once_more(http: httpx.AsyncClient, double: ChatDouble) -> None:
    double.script(Say(""), Say(calls=[MUSIC]), DONE)
    assert (await generate(http))["drafts"] == {"music": "v1"}
    await assert_next_message_is_answered(http, double)


async def test_a_missing_draft_is_requested_once_and_then_reported(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(Say("Lovely brief!"), Say("What is the name of the bakery?"))
    body = await generate(http)
    assert body["message"] == "What is the name of the bakery?"
    assert "No draft was made yet" in double.requests[1].messages[-1]["content"]
    await assert_next_message_is_answered(http, double)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "create_music_draft", "arguments": {"prompt": "gentle piano"}}',
        '```json\n{"name": "create_music_draft", "parameters": {"prompt": "gentle piano"}}\n```',
        '<tool_call>\n{"name": "create_music_draft", "arguments": {"prompt": "gentle piano"}}\n</tool_call>',
    ],
)
async def test_a_call_written_as_text_is_executed(
    http: httpx.AsyncClient, double: ChatDouble, text: str
) -> None:
    double.script(Say(text), DONE)
    body = await generate(http)
    assert (body["drafts"], body["message"]) == ({"music": "v1"}, "Ready to review.")
    await assert_next_message_is_answered(http, double)


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        (("x" * 60, "y" * 60), ("create_music_draft", "create_sfx_draft")),
        (("same", "same"), ("create_music_draft", "create_sfx_draft")),
        (("", ""), ("create_music_draft", "create_sfx_draft")),
        (("a b/c", "d\n"), ("functions.create_music_draft", "create_sfx_draft")),
    ],
)
async def test_calls_with_odd_ids_or_names_are_all_executed(
    http: httpx.AsyncClient, double: ChatDouble, ids: tuple[str, str], names: tuple[str, str]
) -> None:
    arguments = ('{"prompt": "gentle piano"}', '{"prompts": [{"description": "an oven door"}]}')
    calls = [*zip(ids, names, arguments, strict=True)]
    double.script(Say(calls=calls), DONE)
    body = await generate(http)
    assert body["drafts"] == {"music": "v1", "sfx": "v1"}
    stored = [one["id"] for one in body["toolCalls"]]
    assert len(set(stored)) == 2
    assert all(0 < len(one) <= 40 for one in stored)
    await assert_next_message_is_answered(http, double)


@pytest.mark.parametrize("name", ["make coffee!", "", "n" * 500])
async def test_a_call_of_an_unknown_tool_is_refused_and_the_thread_continues(
    http: httpx.AsyncClient, double: ChatDouble, name: str
) -> None:
    double.script(Say(calls=[("c9", name, "{}")]), Say("Sorry."), Say("Sorry."))
    body = await generate(http)
    assert body["toolCalls"][0]["result"]["type"] == "unknown_tool"
    await assert_next_message_is_answered(http, double)


async def test_equal_draft_calls_in_one_turn_make_one_version(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(Say(calls=[MUSIC, ("c3", *MUSIC[1:])]), Say(calls=[("c5", *MUSIC[1:])]), DONE)
    body = await generate(http)
    assert await versions(http, "music") == ["v1"]
    assert [one["stream"] for one in body["created"]] == ["music"]
    double.script(Say(calls=[("c6", *CALMER[1:])]), Say(calls=[("c7", *MUSIC[1:])]), DONE)
    await http.post("/api/ads/ad-1/chat", json={"message": "calmer, no, back", "provider": "openai"})
    assert await versions(http, "music") == ["v1", "v2", "v3"]


async def test_calls_after_the_sixteenth_of_a_round_are_refused(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    calls = [(f"c{n}", "create_music_draft", json.dumps({"prompt": f"piano {n}"})) for n in range(40)]
    double.script(Say(calls=calls), DONE)
    body = await generate(http)
    assert await versions(http, "music") == [f"v{n}" for n in range(1, 17)]
    refused = [one for one in body["toolCalls"] if one["status"] != "completed"]
    assert len(refused) == 24
    assert "at most 16 calls" in refused[0]["result"]["error"]
    await assert_next_message_is_answered(http, double)


async def test_invalid_arguments_are_removed_from_the_history(
    http: httpx.AsyncClient, double: ChatDouble
) -> None:
    double.script(Say(calls=[("c1", "create_music_draft", '{"prompt": "x')]), Say(calls=[MUSIC]), DONE)
    assert (await generate(http))["drafts"] == {"music": "v1"}
    await assert_next_message_is_answered(http, double)


def test_a_broken_history_is_sent_in_valid_form() -> None:
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


LOOK_CALL: Final = ("look", {"x": 1})
CALL_TEXT: Final = '{"name": "look", "arguments": {"x": 1}}'


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (CALL_TEXT, [LOOK_CALL]),
        (f"<tool_call>\n{CALL_TEXT}\n</tool_call>\n<tool_call>\n{CALL_TEXT}", [LOOK_CALL, LOOK_CALL]),
        (f"```json\n{CALL_TEXT}\n```", [LOOK_CALL]),
        (f"<tools>\n    {CALL_TEXT}\n</tools>\n\n<tools>\n{CALL_TEXT}\n</tools>", [LOOK_CALL, LOOK_CALL]),
        (f"[{CALL_TEXT},\n{CALL_TEXT}]", [LOOK_CALL, LOOK_CALL]),
        (f"{CALL_TEXT}\n{CALL_TEXT}", [LOOK_CALL, LOOK_CALL]),
        # The template of Qwen 2.5 Coder shows doubled braces, which models close once or twice.
        (f"{{{CALL_TEXT}\n{{{CALL_TEXT}}}", [LOOK_CALL, LOOK_CALL]),
        (
            '### look\n```json\n{"x": 1}\n```\n\n### change\n```json\n{"to": "a\nb"}\n```',
            [LOOK_CALL, ("change", {"to": "a\nb"})],
        ),
        ('look {"x": 1}\nchange({"to": "b"})', [LOOK_CALL, ("change", {"to": "b"})]),
        ('1. **look**: {"x": 1}\n2. `functions.look` {"x": 1}', [LOOK_CALL, LOOK_CALL]),
        ('look {"arguments": {"x": 1}, "name": "functions.look"}', [LOOK_CALL]),
        (
            (
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>"
                '{"x": 1}<|tool_call_end|><|tool_calls_section_end|>'
            ),
            [LOOK_CALL],
        ),
        (f"<|python_tag|>{CALL_TEXT}", [LOOK_CALL]),
        ('{"tool": "look", "x": 1}', [LOOK_CALL]),
        ('<function=look>{"x": 1}</function>', [LOOK_CALL]),
        (f"[TOOL_CALLS] [{CALL_TEXT}]", [LOOK_CALL]),
        ('[TOOL_CALLS]look[ARGS]{"x": 1}', [LOOK_CALL]),
        (
            (
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n"
                '```json\n{"x": 1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
            ),
            [LOOK_CALL],
        ),
        ('<｜tool▁call▁begin｜>look<｜tool▁sep｜>{"x": 1}<｜tool▁call▁end｜>', [LOOK_CALL]),
        (
            (
                "<tool_call>\n<function=change>\n<parameter=to>\n<b>\n</parameter>\n<parameter=style>\n"
                '{"x": 1}\n</parameter>\n</function>\n</tool_call>'
            ),
            [("change", {"to": "<b>", "style": {"x": 1}})],
        ),
    ],
)
def test_calls_written_as_text_are_parsed_as_calls(
    text: str, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    """C42: formats of local models whose server does not parse them."""
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
        '{"tool": "other", "x": 1}',
        "[1]",
        "<tool_call>{broken</tool_call>",
        "<function=look>",
        "<function=look><parameter=x>1",
        "{broken",
    ],
)
def test_a_text_that_is_no_call_stays_text(text: str) -> None:
    kept = kept_answer(AIMessage(text), [], {"look"})
    assert (kept.text, kept.tool_calls) == (text, [])


@pytest.mark.parametrize(
    ("answer", "shown"), [("```json" + "\n" * 3000, "```json"), (" Done. \n\n", " Done.")]
)
async def test_whitespace_at_the_end_of_an_answer_is_trimmed_and_nothing_else(
    http: httpx.AsyncClient, double: ChatDouble, answer: str, shown: str
) -> None:
    double.script(Say(calls=[VOICES, MUSIC]), Say(answer))
    assert (await generate(http))["message"] == shown
    await assert_next_message_is_answered(http, double)
