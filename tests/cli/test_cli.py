"""The `callsheet` command: creating and refining ads, help, and errors."""

import asyncio
import io
import json
import sys
from pathlib import Path

import pytest
from redis import Redis

from callsheet.graphs import ad_creation
from callsheet.server.ads import service as jobs
from callsheet.server.ads.schemas import AdGenerate
from callsheet.server.app import reply_builders
from callsheet.server.artefacts.service import RequestContext, run_and_ack
from callsheet.server.cli import main as cli
from callsheet.server.engine.worker import WorkerOptions, running_worker
from callsheet.state.errors import CallsheetError
from callsheet.storage import connect, use
from callsheet.storage.threads import threads
from callsheet.storage.threads.threads import Thread
from tests.cli.conftest import RunCommand
from tests.doubles.chat_double import ChatDouble, Fail
from tests.doubles.command import BRIEF, UPBEAT, Finished, assert_refused
from tests.doubles.served import OURS


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::"])
def test_serve_refuses_an_address_beyond_loopback_without_authentication(
    run_command: RunCommand, host: str
) -> None:
    """X16: authentication is off by default."""
    assert_refused(run_command("serve", "--host", host), repr(host), "authentication")


def test_an_unusable_data_folder_is_named(tmp_path: Path, run_command: RunCommand) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert_refused(
        run_command("ad", BRIEF, "--data-dir", str(tmp_path / "file")),
        "file",
        "not a directory",
        "CALLSHEET_DATA_DIR",
    )


def test_an_invalid_setting_is_named_by_its_variable(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLSHEET_PORT", "99999")
    assert_refused(run_command("serve"), "CALLSHEET_PORT", "65535")


def test_ad_creates_an_ad_from_a_brief_and_shows_its_streams_and_times(run_command: RunCommand) -> None:
    """A53, A59: the command shows the fields of the endpoint's reply."""
    result = run_command("ad", BRIEF, "--ad-id", "ad-1")
    assert result.code == 0
    assert sorted(line.split(" (")[0] for line in result.err.splitlines()) == [
        "✔ Describing the music: v1",
        "✔ Placing the sound effects: v1",
        "✔ Searching voices: 10 found",
        "✔ Writing and casting the voices: v1",
    ]
    for title in ("Voices  v1", "Music  v1", "Effects  v1", "fits the spot of 30 s", "offline"):
        assert title in result.out
    assert result.out.rstrip().endswith('callsheet ad --thread ad-1 "make the music more upbeat"')
    assert "\x1b" not in result.out + result.err, "no colours unless the output is a terminal"


def test_a_refinement_shows_the_changed_streams_and_names_the_unchanged_ones(run_command: RunCommand) -> None:
    """A56, A58: only the music is new, and its prompt says so."""
    run_command("ad", BRIEF, "--ad-id", "ad-1")
    result = run_command("ad", "--thread", "ad-1", UPBEAT)
    assert "Music  v1 → v2" in result.out
    assert "upbeat" in result.out.partition("Music  v1 → v2")[2]
    assert "Unchanged  voices v1, effects v1" in result.out
    assert "Voices  v" not in result.out


def test_options_take_precedence_over_the_brief(run_command: RunCommand) -> None:
    """A-R15: the request's own language, market and length win."""
    result = run_command(
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
    reply = json.loads(result.out)
    assert reply["timeline"]["spotSeconds"] == 15
    assert (reply["provider"], reply["providerReason"]) == (
        "offline",
        "the caller asked for the offline model",
    )
    search = next(call for call in reply["toolCalls"] if call["name"] == "search_voices")
    assert search["arguments"]["language"] == "polish"
    assert reply["adId"] == reply["conversationId"]
    refined = json.loads(
        run_command("ad", "--thread", reply["adId"], UPBEAT, "--duration", "20", "--json").out
    )
    assert refined["timeline"]["spotSeconds"] == 20


@pytest.mark.parametrize("name", ["brief.json", "brief.txt"])
def test_a_brief_is_read_from_a_file(run_command: RunCommand, tmp_path: Path, name: str) -> None:
    """A51: an object with the fields of a brief, or plain text; a byte order mark is ignored."""
    fields = {"clientDescription": "Café Łódź, kawiarnia", "duration": 20, "language": "polish"}
    (tmp_path / name).write_bytes("\ufeff".encode() + json.dumps(fields, ensure_ascii=False).encode())
    assert json.loads(run_command("ad", "--file", name, "--json").out)["timeline"]["spotSeconds"] == 20


def test_a_saved_request_body_is_accepted_as_a_brief(run_command: RunCommand, tmp_path: Path) -> None:
    """The body of POST /api/ai/generate; its own fields take precedence over those of the brief (A-R15)."""
    brief = {"clientDescription": "Nordlys, a bakery in Oslo", "duration": 30, "language": "thai"}
    body = {"adId": "nordlys", "brief": brief, "duration": 20, "language": "english"}
    (tmp_path / "brief.json").write_text(json.dumps(body))
    reply = json.loads(run_command("ad", "--file", "brief.json", "--json").out)
    assert (reply["adId"], reply["timeline"]["spotSeconds"]) == ("nordlys", 20)
    assert reply["toolCalls"][0]["arguments"]["language"] == "english"
    assert (
        json.loads(run_command("ad", "--file", "brief.json", "--json", "--ad-id", "other").out)["adId"]
        == "other"
    )


@pytest.mark.parametrize("args", [("-",), ("--file", "-")])
def test_a_brief_is_read_from_stdin(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]
) -> None:
    text = "Świeży chleb z piekarni Nordlys, 20 s"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert json.loads(run_command("ad", *args, "--json").out)["timeline"]["spotSeconds"] == 20


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
def test_an_invalid_brief_file_is_refused_and_nothing_is_written(
    run_command: RunCommand,
    tmp_path: Path,
    valkey_url: str,
    content: bytes | None,
    words: tuple[str, ...],
) -> None:
    """X13: the error names the rule."""
    if content is not None:
        (tmp_path / "brief.json").write_bytes(content)
    assert_refused(run_command("ad", "--file", "brief.json"), *words)
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
def test_invalid_options_are_refused_and_nothing_is_written(
    run_command: RunCommand, valkey_url: str, args: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_refused(run_command("ad", *args), *words)
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
def test_wrong_usage_exits_with_2_and_names_the_help_option(
    run_command: RunCommand, args: tuple[str, ...]
) -> None:
    assert_refused(run_command(*args), "--help", code=2)


def test_an_ad_can_be_refined_by_its_own_id_and_by_its_conversations_id(
    valkey_url: str, run_command: RunCommand
) -> None:
    """A-R14: an ad has one conversation, which may have another id."""

    async def create_ad() -> None:
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

    asyncio.run(create_ad())
    assert "Music  v1 → v2" in run_command("ad", "--thread", "ad-1", UPBEAT).out
    assert "Music  v2 → v3" in run_command("ad", "--thread", "talk-1", "Make the music calmer").out


def test_refining_a_thread_of_another_kind_or_without_a_conversation_is_refused(
    valkey_url: str, run_command: RunCommand
) -> None:
    """A57: a thread without a first run has no conversation."""

    async def bind_threads() -> None:
        async with connect(valkey_url) as storage:
            await threads.bind(storage, Thread("lesson-1", "local", "fact_narration", "lesson:1"))
            await threads.bind(storage, Thread("ad-1", "local", jobs.GRAPH, "ad:ad-1"))

    asyncio.run(bind_threads())
    assert_refused(run_command("ad", "--thread", "lesson-1", UPBEAT), "'lesson-1' is about 'lesson:1'")
    assert_refused(
        run_command("ad", "--thread", "ad-1", UPBEAT), "No conversation found. Generate initial ad first."
    )


def test_a_vendors_failure_is_an_error_with_a_remedy(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChatDouble(Fail(500, "the engine stopped")) as vendor:
        for name, value in vendor.environ.items():
            monkeypatch.setenv(name, value)
        assert_refused(
            run_command("ad", BRIEF, "--provider", "openai"), "OpenAI failed (500)", "the engine stopped"
        )


@pytest.mark.parametrize("group", ["threads", "runs", "keys"])
def test_a_group_without_a_command_shows_help_with_complete_sentences(
    run_command: RunCommand, group: str
) -> None:
    result = run_command(group)
    assert (result.code, result.out, result.err) == (0, run_command(group, "--help").out, "")
    for output in (result, run_command()):
        assert "..." not in output.out.partition("Commands:")[2]


def test_output_into_a_pipe_has_no_trailing_spaces(
    run_command: RunCommand,
) -> None:
    result = run_command("ad", BRIEF, "--ad-id", "nordlys")
    threads = run_command("threads", "list")
    assert "ad:nordlys" in threads.out
    for line in [*result.out.splitlines(), *result.err.splitlines(), *threads.out.splitlines()]:
        assert line == line.rstrip()


def test_an_invalid_option_value_is_named_by_the_option(run_command: RunCommand) -> None:
    assert_refused(run_command("serve", "--port", "99999"), "--port is 99999", "correct --port")


def test_without_arguments_help_is_shown_and_version_shows_the_version(run_command: RunCommand) -> None:
    assert run_command().out == run_command("--help").out
    assert run_command("--version").out.startswith("callsheet ")


def test_the_help_names_every_packaged_workflow(run_command: RunCommand) -> None:
    summary = " ".join(run_command().out.split())
    assert all(spec.title in summary for spec in OURS.specs.values())


def test_with_debug_an_error_keeps_its_traceback(run_command: RunCommand) -> None:
    with pytest.raises(CallsheetError):
        cli.main(["ad", "--debug", ""])


def test_an_unexpected_error_is_shown_in_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    cli.report_unexpected(KeyError, KeyError("x"), None)
    assert_refused(Finished(1, "", capsys.readouterr().err), "KeyError", "--debug")
