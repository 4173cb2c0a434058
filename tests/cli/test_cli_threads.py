"""`callsheet threads` and `data`: list, show, export, import and delete threads, and move all data."""

import asyncio
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from callsheet.server.artefacts.service import claim
from callsheet.server.cli.artefacts import write_pieces
from callsheet.storage import connect
from callsheet.storage.threads.threads import NewThread, Thread, create
from tests.cli.conftest import RunCommand
from tests.doubles.command import BRIEF, UPBEAT, assert_refused


def test_an_export_that_is_interrupted_leaves_no_partial_file(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a download."""

    def pieces() -> Iterator[bytes]:
        yield b"x"
        raise KeyboardInterrupt

    (tmp_path / "data.jsonl").write_bytes(b"earlier")
    with pytest.raises(KeyboardInterrupt):
        write_pieces(pieces(), str(tmp_path / "data.jsonl"))
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("data.jsonl", b"earlier")]


def flush(url: str) -> None:
    with Redis.from_url(url) as redis:
        redis.flushall()


def test_the_list_has_every_thread_with_its_title(run_command: RunCommand) -> None:
    assert run_command("threads", "list").out.strip() == "There are no threads."
    run_command("ad", BRIEF, "--ad-id", "nordlys")
    result = run_command("threads", "list")
    assert result.code == 0
    header, line = result.out.splitlines()
    assert header.split()[:3] == ["Id", "About", "Status"]
    assert line.split()[:3] == ["nordlys", "ad", "idle"]
    assert "Nordlys, a bakery" in line
    for limit in ("1", "500"):
        (thread,) = json.loads(run_command("threads", "list", "--json", "--limit", limit).out)
        assert (thread["thread"], thread["status"]) == ("nordlys", "idle")
        assert thread["title"] in line
        assert run_command("threads", "list", "--limit", limit).out == result.out
    assert_refused(run_command("threads", "list", "--limit", "501"), "must be 1 to 500")


def test_the_title_of_a_person_stays_and_a_search_finds_it(run_command: RunCommand) -> None:
    run_command("ad", BRIEF, "--ad-id", "nordlys")
    assert run_command("threads", "rename", "nordlys", "Northern lights").code == 0
    run_command("ads", "chat", "nordlys", UPBEAT)
    for command in (["threads", "list"], ["search", "northern", "BAKERY"], ["ads", "list"]):
        line = run_command(*command).out.splitlines()[1]
        assert line.startswith("nordlys ")
        assert line.endswith("Northern lights")
    run_command("threads", "rename", "nordlys", "")
    assert "Northern" not in run_command("threads", "list").out
    assert "Nothing has these words" in run_command("search", "northern").out


def test_a_thread_is_shown_with_its_dialogue(run_command: RunCommand) -> None:
    run_command("ad", BRIEF, "--ad-id", "nordlys")
    shown = run_command("threads", "show", "nordlys").out
    assert "Graph    ad_creation" in shown
    assert "Model  Ready to review" in shown
    thread = json.loads(run_command("threads", "show", "nordlys", "--json").out)
    assert len(thread["values"]["messages"]) > 3
    assert_refused(run_command("threads", "show", "nordlis"), "'nordlis'; did you mean 'nordlys'?")


@pytest.mark.slow
def test_an_exported_thread_can_be_imported_and_continued_elsewhere(
    run_command: RunCommand, valkey_url: str, tmp_path: Path
) -> None:
    """X5: by its id, with all of its state."""
    run_command("ad", BRIEF, "--ad-id", "nordlys")
    before = json.loads(run_command("threads", "show", "nordlys", "--json").out)["values"]
    result = run_command("threads", "export", "nordlys", "moved.jsonl")
    assert (result.code, result.out) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["moved.jsonl"]
    flush(valkey_url)
    assert run_command("threads", "import", "moved.jsonl").out.strip() == "nordlys"
    assert json.loads(run_command("threads", "show", "nordlys", "--json").out)["values"] == before
    turn = run_command("ad", "--thread", "nordlys", UPBEAT, "--json")
    assert json.loads(turn.out)["drafts"] == {"music": "v2"}


def test_export_to_stdout_can_be_imported_from_stdin(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_command("ad", BRIEF, "--ad-id", "nordlys")
    content = run_command("threads", "export", "nordlys").out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    assert run_command("threads", "import", "-", "--as", "copy").code == 0
    assert len(json.loads(run_command("threads", "list", "--json").out)) == 2
    limited = run_command("threads", "list", "--json", "--limit", "1")
    assert (len(json.loads(limited.out)), "more with --limit" in limited.err) == (1, True)
    assert run_command("threads", "list", "--limit", "2").err == ""


def test_importing_an_existing_thread_is_refused_with_the_option_for_another_id(
    run_command: RunCommand,
) -> None:
    run_command("ad", BRIEF, "--ad-id", "nordlys")
    run_command("threads", "export", "nordlys", "a.jsonl")
    assert_refused(run_command("threads", "import", "a.jsonl"), "'nordlys' exists already", "another id")
    assert run_command("threads", "import", "a.jsonl", "--as", "copy").out.strip() == "copy"


def test_an_unreadable_unwritable_or_foreign_file_is_an_error(run_command: RunCommand) -> None:
    run_command("ad", BRIEF, "--ad-id", "nordlys")
    assert_refused(run_command("threads", "import", "none.jsonl"), "none.jsonl", "no such file")
    assert_refused(
        run_command("threads", "export", "nordlys", "none/a.jsonl"), "none/a.jsonl", "cannot be written"
    )
    assert_refused(run_command("threads", "export", "other"), "'other'")
    Path("b.jsonl").write_text("hello")
    assert_refused(run_command("threads", "import", "b.jsonl"), "not an exported thread")


def test_a_thread_is_deleted_only_after_confirmation(
    run_command: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_command("ad", BRIEF, "--ad-id", "nordlys")
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert run_command("threads", "delete", "nordlys").code == 1
    assert run_command("threads", "show", "nordlys").code == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    unanswered = run_command("threads", "delete", "nordlys")
    assert unanswered.code == 1
    assert "error: nobody is there to answer\nremedy: use --yes" in unanswered.err
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert run_command("threads", "delete", "nordlys").code == 130
    assert run_command("threads", "show", "nordlys").code == 0
    assert run_command("threads", "delete", "nordlys", "--yes").code == 0
    assert_refused(run_command("threads", "show", "nordlys"), "'nordlys'")
    assert_refused(run_command("threads", "delete", "nordlys", "--yes"), "'nordlys'")


@pytest.mark.parametrize("columns", ["40", "80"])
def test_the_list_never_breaks_or_shortens_an_id(
    run_command: RunCommand, valkey_url: str, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    ids = [f"{number}{'0123456789abcdef' * 5}" for number in (1, 2)]

    async def create_threads() -> None:
        async with connect(valkey_url) as storage:
            for name in ids:
                await create(
                    storage, NewThread(name, "local", "a_graph_with_a_long_name", {"note": "x" * 90})
                )
                await claim(storage, Thread(f"t-{name}", "local", "ad_creation", f"ad:{name}"))

    asyncio.run(create_threads())
    monkeypatch.setenv("COLUMNS", columns)
    _, *lines = run_command("threads", "list").out.splitlines()
    assert sorted(line.split()[0] for line in lines) == sorted([*ids, *(f"t-{name}" for name in ids)])


def test_all_data_of_an_owner_is_exported_and_imported_for_another_one(
    run_command: RunCommand, valkey_url: str
) -> None:
    run_command("ad", BRIEF, "--ad-id", "nordlys")
    result = run_command("data", "export", "all.jsonl")
    assert (result.code, "Wrote" in result.err) == (0, True), result
    refused = run_command("data", "import", "all.jsonl", "--owner", "ben")
    assert_refused(refused, "thread 'nordlys'", "nothing was imported")
    assert_refused(run_command("threads", "import", "all.jsonl"), "not an exported thread")
    flush(valkey_url)
    result = run_command("data", "import", "all.jsonl", "--owner", "ben")
    assert result.code == 0, result
    assert [line.split() for line in result.out.splitlines()][1:] == [["thread", "1"]]
    assert run_command("threads", "list").out.strip() == "There are no threads."
    assert "nordlys" in run_command("data", "export", "--owner", "ben", "-").out


def test_a_title_that_a_person_gave_is_shown_in_every_list_and_view(run_command: RunCommand) -> None:
    offline = ("--provider", "offline")
    run_command("ad", BRIEF, "--ad-id", "one-ad")
    run_command("pages", "new", "--id", "one-page", 'Change the headline to "Bread at four"', *offline)
    run_command("lessons", "new", "--id", "one-lesson", "My student is 10 and loves soccer", *offline)
    run_command("videos", "new", "--id", "one-video", "make a video about a bakery", *offline)
    for noun in ("ad", "page", "lesson", "video"):
        name, title = f"one-{noun}", f"The {noun} of spring"
        assert run_command("threads", "rename", name, title).code == 0
        [line] = [one for one in run_command(f"{noun}s", "list").out.splitlines() if one.startswith(name)]
        assert line.endswith(title)
        assert title in run_command(f"{noun}s", "show", name).out


def test_a_threads_dialogue_has_the_words_that_a_person_entered(run_command: RunCommand) -> None:
    run_command("ad", BRIEF, "--ad-id", "plain")
    shown = run_command("threads", "show", "plain").out
    assert f"You  {BRIEF[:40]}" in shown
    assert "Create an audio ad" not in shown
    run_command("ads", "new", "--id", "form", BRIEF, "--market", "NO")
    lines = run_command("threads", "show", "form").out
    assert f"You  brief: {BRIEF[:30]}" in lines
    assert "market: NO" in lines
