"""The `callsheet` command as people run it: ads made and refined, and every way to go wrong."""

import asyncio
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis

from callsheet.graphs import ad_creation
from callsheet.server.ads import service as jobs
from callsheet.server.ads.bodies import AdGenerate
from callsheet.server.artefacts.service import RequestContext, run_and_ack
from callsheet.server.assembly import reply_builders
from callsheet.server.cli import main as cli
from callsheet.server.engine.worker import WorkerOptions, running_worker
from callsheet.state.errors import CallsheetError
from callsheet.storage import connect, use
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from tests.doubles.chat_double import ChatDouble, Fail
from tests.doubles.command import BRIEF, UPBEAT, Finished, assert_refused, command_in_process
from tests.doubles.served import OURS


@pytest.fixture
def here(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Finished]:
    return command_in_process(valkey_url, tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::"])
def test_the_server_does_not_listen_where_others_could_reach_it(
    here: Callable[..., Finished], host: str
) -> None:
    """X16: there is no authentication yet."""
    assert_refused(here("serve", "--host", host), repr(host), "authentication")


def test_an_unusable_data_folder_is_named(tmp_path: Path, here: Callable[..., Finished]) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert_refused(
        here("ad", BRIEF, "--data-dir", str(tmp_path / "file")),
        "file",
        "not a directory",
        "CALLSHEET_DATA_DIR",
    )


def test_a_wrong_setting_is_named_by_its_variable(
    here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLSHEET_PORT", "99999")
    assert_refused(here("serve"), "CALLSHEET_PORT", "65535")


def test_a_brief_becomes_an_ad_with_times_voices_music_and_effects(here: Callable[..., Finished]) -> None:
    """A53, A59: the command shows what the endpoint replies."""
    done = here("ad", BRIEF, "--ad-id", "ad-1")
    assert done.code == 0
    assert sorted(line.split(" (")[0] for line in done.err.splitlines()) == [
        "✔ Describing the music: v1",
        "✔ Placing the sound effects: v1",
        "✔ Searching voices: 10 found",
        "✔ Writing and casting the voices: v1",
    ]
    for title in ("Voices  v1", "Music  v1", "Effects  v1", "fits the spot of 30 s", "offline"):
        assert title in done.out
    assert done.out.rstrip().endswith('callsheet ad --thread ad-1 "make the music more upbeat"')
    assert "\x1b" not in done.out + done.err, "no colours where nobody is watching"


def test_a_refinement_shows_what_changed_and_names_what_did_not(here: Callable[..., Finished]) -> None:
    """A56, A58: only the music is new, and its prompt says so."""
    here("ad", BRIEF, "--ad-id", "ad-1")
    done = here("ad", "--thread", "ad-1", UPBEAT)
    assert "Music  v1 → v2" in done.out
    assert "upbeat" in done.out.partition("Music  v1 → v2")[2]
    assert "Unchanged  voices v1, effects v1" in done.out
    assert "Voices  v" not in done.out


def test_options_beat_what_the_brief_says(here: Callable[..., Finished]) -> None:
    """A-R15: the request's own language, market and length win."""
    done = here(
        "ad",
        BRIEF,
        "--json",
        "--language",
        "pl",
        "--market",
        "PL",
        "--duration",
        "15",
        "--provider",
        "offline",
    )
    reply = json.loads(done.out)
    assert reply["timeline"]["spotSeconds"] == 15
    assert (reply["provider"], reply["providerReason"]) == (
        "offline",
        "the caller asked for the offline model",
    )
    searched = next(call for call in reply["toolCalls"] if call["name"] == "search_voices")
    assert searched["arguments"]["language"] == "polish"
    assert reply["adId"] == reply["conversationId"]
    changed = json.loads(here("ad", "--thread", reply["adId"], UPBEAT, "--duration", "20", "--json").out)
    assert changed["timeline"]["spotSeconds"] == 20


@pytest.mark.parametrize("name", ["brief.json", "brief.txt"])
def test_a_brief_is_read_from_a_file(here: Callable[..., Finished], tmp_path: Path, name: str) -> None:
    """A51: an object with the source's fields, or plain text; a byte order mark is no part of it."""
    fields = {"clientDescription": "Café Łódź, kawiarnia", "duration": 20, "language": "polish"}
    (tmp_path / name).write_bytes("\ufeff".encode() + json.dumps(fields, ensure_ascii=False).encode())
    assert json.loads(here("ad", "--file", name, "--json").out)["timeline"]["spotSeconds"] == 20


def test_the_body_of_a_request_is_a_brief_too(here: Callable[..., Finished], tmp_path: Path) -> None:
    """What was sent to POST /api/ai/generate can be kept in a file; the request's own fields win (A-R15)."""
    brief = {"clientDescription": "Nordlys, a bakery in Oslo", "duration": 30, "language": "thai"}
    body = {"adId": "nordlys", "brief": brief, "duration": 20, "language": "english"}
    (tmp_path / "brief.json").write_text(json.dumps(body))
    reply = json.loads(here("ad", "--file", "brief.json", "--json").out)
    assert (reply["adId"], reply["timeline"]["spotSeconds"]) == ("nordlys", 20)
    assert reply["toolCalls"][0]["arguments"]["language"] == "english"
    assert json.loads(here("ad", "--file", "brief.json", "--json", "--ad-id", "other").out)["adId"] == "other"


@pytest.mark.parametrize("args", [("-",), ("--file", "-")])
def test_a_brief_is_read_from_stdin(
    here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]
) -> None:
    text = "Świeży chleb z piekarni Nordlys, 20 s"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert json.loads(here("ad", *args, "--json").out)["timeline"]["spotSeconds"] == 20


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ("cannot be read", "no such file")),
        (b'{"clientDescription": ', ("is not JSON", "line 1")),
        (b'{"brief": "a", "brief": "b"}', ("is not JSON", "'brief' twice")),
        (b'{"clientDescription": "\\ud800"}', ("is not JSON", "surrogate")),
        (b'{"clientDescription": 7}', ("brief.clientDescription is int", "string")),
        (b'{"clientDescription": "a bank", "duration": 0}', ("brief.duration is 0 s", "more than 0")),
        (b'"\xe9"', ("is not UTF-8", "byte 1")),
        (b" " * 1_000_001, ("has over 1000000 bytes", "shorten")),
        (b"{}", ("the brief is empty", "clientDescription")),
    ],
)
def test_a_bad_file_is_refused_by_name_and_rule(
    here: Callable[..., Finished],
    tmp_path: Path,
    valkey_url: str,
    content: bytes | None,
    words: tuple[str, ...],
) -> None:
    """X13: nothing is written for a brief that cannot be."""
    if content is not None:
        (tmp_path / "brief.json").write_bytes(content)
    assert_refused(here("ad", "--file", "brief.json"), *words)
    with Redis.from_url(valkey_url) as server:
        assert server.dbsize() == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((BRIEF, "--language", "klingon"), ("klingon",)),
        ((BRIEF, "--provider", "acme"), ("no provider 'acme'", "offline")),
        ((BRIEF, "--ad-id", ""), ("adId ''", "1 to 255")),
        ((BRIEF, "--ad-id", "a\x00b"), ("adId", "printable")),
        (("caf\udce9",), ("not UTF-8",)),
        (("",), ("the brief is empty", "say in words")),
        (("--thread", "nowhere", " "), ("the message is empty", "say in words")),
        (("--thread", "nowhere", UPBEAT), ("no conversation or ad 'nowhere'", "callsheet ad")),
    ],
)
def test_a_bad_request_is_refused_before_anything_is_written(
    here: Callable[..., Finished], valkey_url: str, args: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_refused(here("ad", *args), *words)
    with Redis.from_url(valkey_url) as server:
        assert server.dbsize() == 0


@pytest.mark.parametrize(
    "args",
    [
        ("ad",),
        ("ad", BRIEF, "--file", "brief.json"),
        ("ad", BRIEF, "--thread", "a", "--ad-id", "b"),
        ("ad", BRIEF, "--duration", "long"),
        ("ad", "--bogus"),
        ("bogus",),
        ("serve", "--port", "http"),
    ],
)
def test_wrong_usage_exits_with_2_and_points_to_the_help(
    here: Callable[..., Finished], args: tuple[str, ...]
) -> None:
    assert_refused(here(*args), "--help", code=2)


def test_an_ad_is_found_by_its_own_id_where_its_conversation_has_another(
    valkey_url: str, here: Callable[..., Finished]
) -> None:
    """A-R14: one conversation an ad; either id leads to it."""

    async def begun() -> None:
        async with (
            connect(valkey_url) as storage,
            running_worker(
                storage,
                {jobs.GRAPH: ad_creation.graph},
                WorkerOptions(5, replies=reply_builders(storage, OURS)),
            ) as worker,
        ):
            use(storage)
            body = AdGenerate(adId="ad-1", brief=BRIEF, conversationId="talk-1")
            await run_and_ack(worker, await jobs.generate_run(storage, body, RequestContext()))
            use(None)

    asyncio.run(begun())
    assert "Music  v1 → v2" in here("ad", "--thread", "ad-1", UPBEAT).out
    assert "Music  v2 → v3" in here("ad", "--thread", "talk-1", "Make the music calmer").out


def test_a_thread_that_is_no_ads_or_says_nothing_yet_is_refused(
    valkey_url: str, here: Callable[..., Finished]
) -> None:
    """A57: there must be something to refine."""

    async def bound() -> None:
        async with connect(valkey_url) as storage:
            await threads.bind(storage, Thread("lesson-1", "local", "fact_narration", "lesson:1"))
            await threads.bind(storage, Thread("ad-1", "local", jobs.GRAPH, "ad:ad-1"))

    asyncio.run(bound())
    assert_refused(here("ad", "--thread", "lesson-1", UPBEAT), "'lesson-1' is about 'lesson:1'")
    assert_refused(
        here("ad", "--thread", "ad-1", UPBEAT), "No conversation found. Generate initial ad first."
    )


def test_a_vendors_failure_is_told_like_any_other(
    here: Callable[..., Finished], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChatDouble(Fail(500, "the engine stopped")) as double:
        for name, value in double.environ.items():
            monkeypatch.setenv(name, value)
        assert_refused(here("ad", BRIEF, "--provider", "openai"), "OpenAI failed (500)", "the engine stopped")


@pytest.mark.parametrize("group", ["threads", "runs", "keys"])
def test_a_group_without_a_command_shows_its_help_in_whole_sentences(
    here: Callable[..., Finished], group: str
) -> None:
    done = here(group)
    assert (done.code, done.out, done.err) == (0, here(group, "--help").out, "")
    for one in (done, here()):
        assert "..." not in one.out.partition("Commands:")[2]


def test_what_goes_through_a_pipe_has_no_spaces_at_the_ends_of_its_lines(
    here: Callable[..., Finished],
) -> None:
    done = here("ad", BRIEF, "--ad-id", "nordlys")
    listed = here("threads", "list")
    assert "ad:nordlys" in listed.out
    for line in [*done.out.splitlines(), *done.err.splitlines(), *listed.out.splitlines()]:
        assert line == line.rstrip()


def test_a_wrong_option_is_named_as_it_was_given(here: Callable[..., Finished]) -> None:
    assert_refused(here("serve", "--port", "99999"), "--port is 99999", "correct --port")


def test_a_bare_command_shows_the_help_and_version_the_version(here: Callable[..., Finished]) -> None:
    assert here().out == here("--help").out
    assert here("--version").out.startswith("callsheet ")


def test_the_help_names_every_packaged_workflow(here: Callable[..., Finished]) -> None:
    summary = " ".join(here().out.split())
    assert all(spec.title in summary for spec in OURS.specs.values())


def test_debug_shows_where_an_error_comes_from(here: Callable[..., Finished]) -> None:
    with pytest.raises(CallsheetError):
        cli.main(["ad", "--debug", ""])


def test_an_error_nobody_foresaw_is_two_lines_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    cli.report_unexpected(KeyError, KeyError("x"), None)
    assert_refused(Finished(1, "", capsys.readouterr().err), "KeyError", "--debug")
