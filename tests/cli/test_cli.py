"""The `callsheet` command: creating and refining ads, help, and errors."""

import io
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from callsheet.server.cli import main as cli
from callsheet.server.cli.kinds import KINDS
from callsheet.server.settings.local_sockets import local_sockets
from callsheet.state.errors import CallsheetError
from tests.cli.conftest import RunCommand
from tests.doubles.chat_double import ChatDouble, Fail
from tests.doubles.command import BRIEF, UPBEAT, Finished, assert_refused
from tests.doubles.documented import OURS
from tests.storage.embedded_server import data_directory

TEXTS = {
    "ads": BRIEF,
    "pages": "make the headline teal",
    "lessons": "Leaves make sugar from light. Roots take water from the soil.",
    "videos": "make all scenes faster",
}
LISTS = {"ads": "ads", "pages": "pages", "lessons": "sessions", "videos": "projects"}


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


def test_a_short_option_that_does_not_exist_is_no_file_name(tmp_path: Path, run_command: RunCommand) -> None:
    result = run_command("ads", "export", "ad-1", "-o", "--json")
    assert_refused(result, "unknown argument '-o'", code=2)
    assert [*tmp_path.iterdir()] == []


def test_the_folder_of_the_sockets_does_not_follow_from_the_password_of_redis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others may read its name, and could guess passwords until one fits."""
    urls = (
        f"redis://{login}127.0.0.1:6379/{number}" for login in ("me:one@", "me:two@") for number in (0, 1)
    )
    with data_directory() as short_path:
        monkeypatch.setattr("tempfile.tempdir", str(short_path))
        folders = [local_sockets(None, url, None, {}).shared.parent for url in urls]
        monkeypatch.undo()
    assert folders[:2] == folders[2:]
    assert folders[0] != folders[1]


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
    assert "callsheet ads chat ad-1 'make the music more upbeat'" in result.out
    assert "\x1b" not in result.out + result.err, "no colours unless the output is a terminal"


def test_a_refinement_shows_the_changed_streams_and_names_the_unchanged_ones(run_command: RunCommand) -> None:
    """A56, A58: only the music is new, and its prompt says so."""
    run_command("ad", BRIEF, "--ad-id", "ad-1")
    result = run_command("ad", "--thread", "ad-1", UPBEAT)
    assert "Music  v1 → v2" in result.out
    assert "upbeat" in result.out.partition("Music  v1 → v2")[2]
    assert "Unchanged  voices v1, effects v1" in result.out
    assert "Voices  v" not in result.out


def test_a_receipt_names_all_variations_of_an_ad(run_command: RunCommand) -> None:
    """A51: versions of one stream that one message made stand beside each other."""
    run_command("ads", "new", BRIEF, "--id", "ad-1")
    shown = run_command("ads", "chat", "ad-1", "create 3 variations")
    assert "voices v2 · voices v3 · voices v4" in " ".join(shown.out.split())
    receipt = json.loads(run_command("ads", "chat", "ad-1", UPBEAT, "--json").out)["receipt"]
    assert receipt["text"] == "Changed: music v2."


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
    content: bytes | None,
    words: tuple[str, ...],
) -> None:
    """X13: the error names the rule."""
    if content is not None:
        (tmp_path / "brief.json").write_bytes(content)
    assert_refused(run_command("ad", "--file", "brief.json"), *words)
    assert json.loads(run_command("ads", "list", "--json").out)["ads"] == []


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((BRIEF, "--language", "klingon"), ("klingon",)),
        ((BRIEF, "--provider", "acme"), ("no provider 'acme'", "offline")),
        ((BRIEF, "--ad-id", ""), ("adId ''", "1 to 255")),
        ((BRIEF, "--ad-id", "a\x00b"), ("'a\\x00b'", "printable")),
        (("caf\udce9",), ("not UTF-8",)),
        (("",), ("the brief is empty", "say in words")),
        (("--thread", "nowhere", UPBEAT), ("no ad 'nowhere'", "ads new --id nowhere")),
    ],
)
def test_invalid_options_are_refused_and_nothing_is_written(
    run_command: RunCommand, args: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_refused(run_command("ad", *args), *words)
    assert json.loads(run_command("ads", "list", "--json").out)["ads"] == []


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


@pytest.mark.parametrize("noun", [kind.noun for kind in KINDS if kind.versioned])
def test_a_mistyped_id_makes_nothing_and_names_the_nearest_one(run_command: RunCommand, noun: str) -> None:
    """`new` makes things, `chat` only refines them."""
    starter = ("--starter", "app-promo") if noun == "videos" else ()
    created = json.loads(run_command(noun, "new", TEXTS[noun], "--json", *starter).out)
    name = created.get("adId") or created.get("pageId") or created.get("sessionId") or created["projectId"]
    for verb in (("chat", "-", "undo that"), ("show", "-"), ("versions", "-")):
        words = [f"{name}x" if word == "-" else word for word in verb]
        assert_refused(run_command(noun, *words), f"{name}x'; did you mean {name!r}?", f"{noun} list")
    assert len(json.loads(run_command(noun, "list", "--json").out)[LISTS[noun]]) == 1


def test_a_new_thing_of_an_id_in_use_is_refused(run_command: RunCommand) -> None:
    run_command("ads", "new", BRIEF, "--id", "ad-1")
    assert_refused(run_command("ads", "new", BRIEF, "--id", "ad-1"), "already an ad 'ad-1'", "ads chat ad-1")


def test_versions_are_listed_compared_activated_restored_and_exported(
    run_command: RunCommand, tmp_path: Path
) -> None:
    run_command("ads", "new", BRIEF, "--id", "ad-1")
    run_command("ads", "chat", "ad-1", UPBEAT)
    lines = run_command("ads", "versions", "ad-1", "music").out.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [["music", "v1", "frozen"], ["music", "v2", "draft"]]
    assert "the offline model" in lines[1]
    assert "more upbeat" in run_command("ads", "diff", "ad-1", "music", "v1", "v2").out
    assert run_command("ads", "diff", "ad-1", "music", "v1", "v1").out.strip() == "Nothing is different."
    assert run_command("ads", "activate", "ad-1", "music", "v1").err.strip() == "Activated v1."
    assert "active v1" in run_command("ads", "show", "ad-1").out
    assert run_command("ads", "restore", "ad-1", "music", "v1").code == 0
    lines = run_command("ads", "versions", "ad-1", "music").out.splitlines()
    assert [" active " in line for line in lines] == [False, True, False, False]
    assert "frozen, active" in lines[1]
    assert run_command("ads", "export", "ad-1", "ad.jsonl").code == 0
    assert run_command("threads", "import", "ad.jsonl", "--as", "ad-2").out.strip() == "ad-2"
    assert run_command("ads", "show", "ad-2").code == 0


def test_remedies_name_commands_and_the_nearest_source(run_command: RunCommand) -> None:
    run_command("ads", "new", BRIEF, "--id", "nordlys")
    page = run_command("pages", "new", "--from-ad", "nordlis")
    assert_refused(page, "no ad 'nordlis'; did you mean 'nordlys'?", "ads list")
    assert_refused(run_command("videos", "new", "--from-lesson", "moon"), "no lesson 'moon'", "lessons list")
    offer = run_command("ads", "new", "--from-campaign", "c-0001", "--from-campaign", "c-00x1")
    assert_refused(offer, "campaign 'c-00x1'; did you mean 'c-00", "campaigns list")
    assert run_command("pages", "new", "--from-ad", "nordlys", "--id", "nordlys-page").code == 0
    checked = run_command("pages", "check", "nordlys-page")
    assert checked.code == 1
    assert "no text of the starter page" in checked.out
    assert "pages chat nordlys-page 'the description of the page is" in " ".join(checked.out.split())
    for result in (page, offer, checked):
        assert "/api/" not in result.out + result.err


def test_an_argument_may_follow_an_option(run_command: RunCommand) -> None:
    run_command("ads", "new", BRIEF, "--id", "ad-1")
    assert run_command("ads", "chat", "ad-1", "--provider", "offline", UPBEAT).code == 0
    assert_refused(run_command("ads", "chat", "ad-1", UPBEAT, "one more"), "'one more'", code=2)
    assert_refused(run_command("ads", "shw"), "did you mean 'show'?", code=2)
    for words, nearest in {"find": "search", "ads remove": "delete", "pages ls": "list"}.items():
        assert_refused(run_command(*words.split()), f"did you mean {nearest!r}?", code=2)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(run_command: RunCommand, shell: str) -> None:
    script = run_command("completion", shell).out
    assert all(word in script for word in ("campaigns", "versions", "starter"))
    assert "for-terminals" not in script
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed here")
    check = "COMP_WORDS=(callsheet ads ''); COMP_CWORD=2; _callsheet; echo \"${COMPREPLY[@]}\""
    lines = f"{script}\n{check}" if shell == "bash" else script
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True, timeout=20)
    assert shell != "bash" or done.stdout.split()[:3] == ["new", "chat", "list"]


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
        assert "..." not in output.out.partition("commands:")[2]


def test_output_into_a_pipe_has_no_trailing_spaces(
    run_command: RunCommand,
) -> None:
    result = run_command("ad", BRIEF, "--ad-id", "nordlys")
    threads = run_command("threads", "list")
    assert "nordlys" in threads.out
    for line in [*result.out.splitlines(), *result.err.splitlines(), *threads.out.splitlines()]:
        assert line == line.rstrip()


def test_an_invalid_option_value_is_named_by_the_option(run_command: RunCommand) -> None:
    assert_refused(run_command("serve", "--port", "99999"), "--port is 99999", "correct --port")


def test_without_arguments_help_is_shown_and_version_shows_the_version(run_command: RunCommand) -> None:
    assert run_command().out == run_command("--help").out
    assert run_command("--version").out.startswith("callsheet ")


def test_the_help_names_every_packaged_workflow(run_command: RunCommand) -> None:
    """Each has a group of commands of the same form."""
    assert {kind.graph for kind in KINDS} == set(OURS.specs)
    for kind in KINDS:
        assert "new, chat, list, show" in run_command(kind.noun).out


def test_with_debug_an_error_keeps_its_traceback(run_command: RunCommand) -> None:
    with pytest.raises(CallsheetError):
        run_command("ads", "show", "nowhere", "--debug")


def test_an_unexpected_error_is_shown_in_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    cli.report_unexpected(KeyError, KeyError("x"), None)
    assert_refused(Finished(1, "", capsys.readouterr().err), "KeyError", "--debug")


@pytest.mark.parametrize("words", ["campaigns delete . --yes", "campaigns delete .. --yes", "ads show ''"])
def test_an_id_that_means_the_list_is_refused(run_command: RunCommand, words: str) -> None:
    assert_refused(run_command(*shlex.split(words)), "is no id", "copy it from the list")
