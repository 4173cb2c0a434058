"""`callsheet threads`: looked at, carried away, brought back and taken away on the command line."""

import asyncio
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis

from callsheet.server.artefacts.service import claim
from callsheet.storage import connect
from callsheet.storage.threads.threads import NewThread, Thread, create
from tests.doubles.command import BRIEF, UPBEAT, Finished, assert_refused, command_in_process

Command = Callable[..., Finished]


@pytest.fixture
def here(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    return command_in_process(valkey_url, tmp_path, monkeypatch, capsys)


def emptied(url: str) -> None:
    with Redis.from_url(url) as redis:
        redis.flushall()


def test_the_list_has_every_thread_and_says_what_it_is_about(here: Command) -> None:
    assert here("threads", "list").out.strip() == "There are no threads."
    here("ad", BRIEF, "--ad-id", "nordlys")
    done = here("threads", "list")
    assert done.code == 0
    title, line = done.out.splitlines()
    assert title.split()[:3] == ["Id", "Graph", "Status"]
    assert line.split()[:3] == ["nordlys", "ad_creation", "idle"]
    assert line.endswith("ad:nordlys")
    (told,) = json.loads(here("threads", "list", "--json").out)
    assert (told["id"], told["artefact"], told["status"]) == ("nordlys", "ad:nordlys", "idle")
    assert json.loads(here("threads", "list", "--json", "--owner", "anna").out) == []


def test_a_thread_is_shown_with_how_long_it_is(here: Command) -> None:
    here("ad", BRIEF, "--ad-id", "nordlys")
    told = json.loads(here("threads", "show", "nordlys").out)
    assert told["states"] > 3
    assert told["messages"] > 3
    assert_refused(here("threads", "show", "none"), "'none'")
    assert_refused(here("threads", "show", "nordlys", "--owner", "anna"), "'nordlys'")


@pytest.mark.slow
def test_a_thread_moves_to_another_machine_in_a_file(here: Command, valkey_url: str, tmp_path: Path) -> None:
    """X5: resumed by its id, with everything it knew."""
    here("ad", BRIEF, "--ad-id", "nordlys")
    before = json.loads(here("threads", "show", "nordlys").out)
    done = here("threads", "export", "nordlys", "moved.jsonl")
    assert (done.code, done.out) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["moved.jsonl"]
    emptied(valkey_url)
    assert here("threads", "import", "moved.jsonl").out.strip() == "nordlys"
    after = json.loads(here("threads", "show", "nordlys").out)
    assert {**after, "updatedAt": ""} == {**before, "updatedAt": ""}
    turn = here("ad", "--thread", "nordlys", UPBEAT, "--json")
    assert json.loads(turn.out)["drafts"] == {"music": "v2"}


def test_a_time_stays_on_its_line_where_the_terminal_is_narrow(
    here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    here("ad", BRIEF, "--ad-id", "a-name-of-an-ad-that-is-longer-than-most")
    changed = json.loads(here("threads", "list", "--json").out)[0]["updatedAt"][:16].replace("T", " ")
    monkeypatch.setenv("COLUMNS", "60")
    assert changed in here("threads", "list").out


def test_it_goes_through_a_pipe(here: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    here("ad", BRIEF, "--ad-id", "nordlys")
    content = here("threads", "export", "nordlys").out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    assert here("threads", "import", "-", "--as", "copy").code == 0
    assert len(json.loads(here("threads", "list", "--json").out)) == 2
    first = here("threads", "list", "--json", "--limit", "1")
    assert (len(json.loads(first.out)), "more with --limit" in first.err) == (1, True)
    assert here("threads", "list", "--limit", "2").err == ""


def test_what_is_there_stays_and_the_way_out_is_told(here: Command) -> None:
    here("ad", BRIEF, "--ad-id", "nordlys")
    here("threads", "export", "nordlys", "a.jsonl")
    assert_refused(here("threads", "import", "a.jsonl"), "'nordlys' exists already", "another id")
    assert here("threads", "import", "a.jsonl", "--as", "copy", "--owner", "local").out.strip() == "copy"


def test_files_that_cannot_be_are_named(here: Command) -> None:
    here("ad", BRIEF, "--ad-id", "nordlys")
    assert_refused(here("threads", "import", "none.jsonl"), "none.jsonl", "no such file")
    assert_refused(here("threads", "export", "nordlys", "none/a.jsonl"), "none/a.jsonl", "cannot be written")
    assert_refused(here("threads", "export", "other"), "'other'")
    Path("b.jsonl").write_text("hello")
    assert_refused(here("threads", "import", "b.jsonl"), "not an exported thread")


def test_a_thread_is_taken_away_once_that_was_confirmed(
    here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    here("ad", BRIEF, "--ad-id", "nordlys")
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    assert here("threads", "delete", "nordlys").code == 1
    assert here("threads", "show", "nordlys").code == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    unanswered = here("threads", "delete", "nordlys")
    assert unanswered.code == 1
    assert "error: nobody is there to answer\nremedy: run it again with --yes" in unanswered.err
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert here("threads", "delete", "nordlys").code == 130
    assert here("threads", "show", "nordlys").code == 0
    assert here("threads", "delete", "nordlys", "--yes").code == 0
    assert_refused(here("threads", "show", "nordlys"), "'nordlys'")
    assert_refused(here("threads", "delete", "nordlys", "--yes"), "'nordlys'")


@pytest.mark.parametrize("columns", ["40", "80"])
def test_the_list_never_breaks_or_shortens_an_id(
    here: Command, valkey_url: str, monkeypatch: pytest.MonkeyPatch, columns: str
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
    _, *lines = here("threads", "list").out.splitlines()
    assert sorted(line.split()[0] for line in lines) == sorted([*ids, *(f"t-{name}" for name in ids)])
    assert sorted(line.split()[-1] for line in lines if line.startswith("t-")) == [
        f"ad:{name}" for name in ids
    ]
