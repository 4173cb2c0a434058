"""Every command of the help, the README and the documents, in a terminal of 80 and of 120 columns.

One server and one data folder serve them all. The commands run in processes forked from one that has imported
everything, on a pseudo-terminal of their own.
"""

import fcntl
import json
import os
import pty
import re
import select
import shlex
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from callsheet.server.cli import main as cli
from callsheet.server.cli.kinds import KINDS
from callsheet.server.cli.parsing import MissingArguments, Parser
from tests.doubles.command import ROOT, environment, start_server, stop_server
from tests.doubles.killing import WarmParent
from tests.storage.embedded_server import data_directory

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
PATIENCE_S = 60
ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[()][A-Z0-9])")
BRIEF = "20 seconds for Harbour Bikes, e-bikes by the hour in Porto. harbourbikes.example"
MATERIAL = str(ROOT / "tests/lessons/material/the_moon.txt")
WALK = (
    (f"ads new '{BRIEF}' --id harbour", "", "Voices  v1"),
    ("ads chat harbour 'make the music more upbeat'", "", "Music  v1 → v2"),
    ("ads list", "", "harbour"),
    ("ads show harbour", "", "Harbour Bikes"),
    ("ads versions harbour", "", "music"),
    ("ads diff harbour music v1 v2", "", "more upbeat"),
    ("ads activate harbour music v1", "", "Activated v1."),
    ("ads restore harbour music v1", "", "as a new version"),
    ("ads listen harbour --save harbour.mp3", "", "Wrote"),
    ("ads export harbour harbour.jsonl", "", "Wrote"),
    ("ads pronunciations --set Porto=poor-too", "", "everywhere"),
    ("ads pronunciations harbour --set 'Harbour Bikes=harber bikes'", "", "this ad"),
    (f"ad '{BRIEF}'", "", "Voices  v1"),
    ("pages new 'Change the headline to \"Bread at four\"' --id bakery", "", "Changing the page"),
    ("pages chat bakery 'delete the features section'", "n\n", "stays"),
    ("page --id bakery 'delete the features section'", "y\n", "I removed"),
    ("pages list", "", "Bread at four"),
    ("pages show bakery", "", "heading-1"),
    ("pages versions bakery", "", "v2"),
    ("pages diff bakery start v1", "", "Bread at four"),
    ("pages activate bakery v1", "", "Activated v1."),
    ("pages restore bakery v1", "", "as a new version"),
    ("pages export bakery bakery.html", "", "Wrote"),
    ("pages check bakery", "", "contrast"),
    (f"lessons new --file {MATERIAL} 'My student is 9 and loves football'", "1 and 2\n", "Hook"),
    (f"lesson --file {MATERIAL}", "\n", "Answer"),
    ("lessons list", "", "The Moon"),
    ("lessons show LESSON", "", "Moon"),
    ("lessons versions LESSON", "", "v1"),
    ("lessons chat LESSON 'make the hook shorter'", "", "Rewritten"),
    ("lessons diff LESSON v1 v2", "", "hook: "),
    ("lessons restore LESSON v1", "", "as a new version"),
    ("lessons export LESSON moon.md", "", "Wrote"),
    ("lessons listen LESSON --save moon.mp3", "", "Wrote"),
    ("lessons quiz LESSON quiz.md", "", "Wrote"),
    ("questions list", "", "facts"),
    ("questions answer OTHER '1 and 2'", "", "narration"),
    ("lessons delete LESSON", "y\n", "Deleted"),
    ("videos new 'make all scenes faster' --id launch --starter product-launch", "", "Editing scene 5"),
    ("videos chat launch 'make it slower'", "", "slower"),
    ("videos list", "", "Product launch"),
    ("videos show launch", "", "scene-5"),
    ("videos versions launch scene-1", "", "v2"),
    ("videos diff launch scene-1 v1 v2", "", "durationInFrames"),
    ("videos restore launch scene-1 v1", "", "as in v1 again"),
    ("videos undo launch", "", "Undoing"),
    ("videos redo launch", "", "Redoing"),
    ("videos preview launch launch.html", "", "Wrote"),
    ("videos export launch launch.json", "", "Wrote"),
    ("scenes launch --undo", "", "Undoing"),
    ("campaigns new 'what are the offers from cash back, premium campaigns'", "", "19 campaigns match."),
    ("ask 'how many email campaigns are there'", "", "74 campaigns match."),
    ("campaigns chat ASK 'only the newest'", "", ""),
    ("campaigns list", "", "c-0074"),
    ("campaigns show c-0074", "", "Northfold"),
    ("campaigns export campaigns.csv", "", "Wrote"),
    ("campaigns import own.csv", "", "Imported 1 campaign,"),
    ("campaigns delete own-1 --yes", "", "Deleted own-1."),
    (f"run ad_creation '{BRIEF}'", "", "Made voices v1"),
    ("threads list", "", "harbour"),
    ("search porto bikes", "", "harbour"),
    ("threads rename harbour 'By the water'", "", "Renamed harbour."),
    ("threads show harbour", "", "Ready to review"),
    ("threads export harbour thread.jsonl", "", "Wrote"),
    ("threads import thread.jsonl --as copy", "", "copy"),
    ("threads delete copy", "y\n", "Deleted copy."),
    ("runs list", "", "No run is pending"),
    ("runs list --id harbour", "", "success"),
    ("runs show RUN --id harbour", "", "success"),
    ("runs cancel RUN --id harbour", "", "has ended already"),
    ("keys create alice", "", "cs_"),
    ("keys list", "", "alice"),
    ("keys rotate KEY", "", "cs_"),
    ("keys revoke KEY", "", "Revoked"),
    ("audit list", "", "key.revoke"),
    ("audit export actions.jsonl", "", "Wrote"),
    ("usage --by day", "", "No paid model has been used"),
    ("usage --by owner,model", "", "No paid model has been used"),
    ("runs list --all-owners", "", "no such runs"),
    ("config show", "", "CALLSHEET_DATA_DIR"),
    ("ads delete harbour", "y\n", "Deleted harbour."),
    ("pages delete bakery", "y\n", "Deleted bakery."),
    ("videos delete launch", "y\n", "Deleted launch."),
    ("data export all.jsonl", "", "all.jsonl"),
    ("data import all.jsonl", "", "already"),
    ("completion bash", "", "complete"),
)
"""Commands in order, with what a person types, and words of their output."""
FAILING = ("runs cancel", "pages check", "data import")
"""Commands that are refused, or make nothing, on purpose."""
READING = {"list", "show", "versions", "diff"}
NAMES = {
    "LESSON": ("lessons list", "id", "script_generated"),
    "OTHER": ("lessons list", "id", "facts_extracted"),
    "ASK": ("threads list", "thread", "campaign_search"),
    "RUN": ("runs list --id harbour", "run_id", ""),
    "KEY": ("keys list", "id", ""),
}
"""Ids in the walk that the server chooses: the list that has them, their field, and words beside them."""
IN_ONE_PIECE = ("remedy:", "error:", "Store it now", "cs_")
"""Beginnings of lines that are in one piece, to be copied, however long they are."""


def in_terminal(words: list[str], typed: str, columns: int, folder: Path, data_dir: Path) -> tuple[int, str]:
    """Run a command on a pseudo-terminal of so many columns; its exit code, and the text on the screen."""
    child, screen = pty.fork()
    if child == 0:
        os.environ.clear()
        os.environ.update(environment(CALLSHEET_DATA_DIR=str(data_dir), TERM="xterm"))
        del os.environ["COLUMNS"]
        os.chdir(folder)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, mode, buffering)
            for number, mode, buffering in ((0, "r", 1), (1, "w", 1), (2, "w", 1))
        )
        code = 1
        try:
            cli.main(words)
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            sys.stdout.flush()
            os._exit(code)
    fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    output, deadline, waiting = b"", time.monotonic() + PATIENCE_S, typed
    while time.monotonic() < deadline:
        if select.select([screen], [], [], 0.1)[0]:
            try:
                output += os.read(screen, 65536)
            except OSError:
                break
        if waiting and re.search(rb"(\[y/N\]|Your answer:) $", output):
            os.write(screen, waiting.encode())
            waiting = ""
    else:
        os.kill(child, signal.SIGKILL)
    os.close(screen)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), output.decode(errors="replace")


def lines_of(screen: str) -> list[str]:
    """The last state of each line; a progress display moves the cursor and writes again."""
    return [line.rpartition("\r")[2] for line in ESCAPES.sub("", screen.replace("\r\n", "\n")).split("\n")]


def leaves(parser: Parser, path: str = "") -> Iterator[str]:
    for name, (_, below) in parser.commands.items():
        yield from leaves(below, f"{path} {name}".strip())
    if not parser.commands:
        yield path


def name_of(word: str, folder: Path, data_dir: Path) -> str:
    """The id that stands for a word in capitals, which the server has chosen."""
    listing, key, filters = NAMES[word]
    screen = in_terminal([*listing.split(), "--json"], "", 200, folder, data_dir)[1]
    reply: Any = json.loads(screen)
    items = reply["sessions"] if isinstance(reply, dict) else reply
    return str(next(one[key] for one in items if filters in json.dumps(one)))


def test_every_command_of_the_help_runs_in_a_terminal(tmp_path: Path, warm_parent: WarmParent) -> None:
    """No table is broken by the width, no text has raw JSON, and the exit code is right."""
    (tmp_path / "own.csv").write_text("id,company,channel,capture_date\nown-1,Own,email,2026-09-01\n")
    serving = tmp_path / "serving"
    serving.mkdir()
    with data_directory() as data_dir:
        server = start_server(serving, data_dir, warm_parent)
        try:
            problems = [one for step in WALK for one in run_step(step, tmp_path, data_dir)]
        finally:
            stop_server(server)
    assert not problems, "\n\n".join(problems)


def run_step(step: tuple[str, str, str], folder: Path, data_dir: Path) -> list[str]:
    """Run a step of the walk, one that only reads in both widths; the problems with its output."""
    line, typed, expected = step
    words = [name_of(word, folder, data_dir) if word in NAMES else word for word in shlex.split(line)]
    problems = []
    for columns in (80, 120) if words[1] in READING else (80,):
        code, screen = in_terminal(words, typed, columns, folder, data_dir)
        text = " ".join(" ".join(lines_of(screen)).split())
        problems += [] if (code != 0) == line.startswith(FAILING) else [f"exit code {code}\n{text[-600:]}"]
        problems += [] if " ".join(expected.split()) in text else [f"no {expected!r}\n{text[-600:]}"]
        problems += wide_lines(line, screen, columns)
    return [f"{line}: {problem}" for problem in problems]


def wide_lines(line: str, screen: str, columns: int) -> list[str]:
    """The lines that are wider than the terminal, but for those to be copied, or that have raw JSON."""
    if line.startswith(("completion", "runs show")):
        return []
    lines = [
        one
        for one in lines_of(screen)
        if not one.strip().startswith(IN_ONE_PIECE) and "callsheet " not in one
    ]
    return [one for one in lines if cell_len(one) > columns or '{"' in one or "Traceback" in one]


def test_the_walk_has_every_command_but_those_that_do_not_end() -> None:
    known = {*leaves(cli.build_parser())} - {"serve", "worker", "doctor"}
    assert {
        leaf for leaf in known if not any(f"{line} ".startswith(f"{leaf} ") for line, *_ in WALK)
    } == set()
    assert {kind.noun for kind in KINDS} <= {line.split()[0] for line, *_ in WALK}


@pytest.mark.parametrize("columns", [80, 120])
def test_every_help_fits_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for leaf in leaves(cli.build_parser()):
        with pytest.raises(SystemExit):
            cli.main([*leaf.split(), "--help"])
        text = capsys.readouterr().out
        assert "==SUPPRESS==" not in text
        for line in text.splitlines():
            assert len(line) <= columns or line.startswith("  callsheet "), (leaf, line)


def test_every_command_of_the_documents_is_understood() -> None:
    """The commands in the README, the documents and the examples are parsed as they are written."""
    pattern = re.compile(
        r"(?:^|\$ |`|\()(?:\.venv/bin/|\.\./\.\./\.venv/bin/)?callsheet ([a-z]+[^`#\n]*)", re.MULTILINE
    )
    files = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")]
    parser, count = cli.build_parser(), 0
    for file in files:
        for match in pattern.finditer(file.read_text(encoding="utf-8")):
            line = re.sub(r"\$\([^)]*\)", "x", match[1])
            words = shlex.split(re.split(r" && | \| | > ", line)[0])
            # A text that names a command need not name its arguments.
            with suppress(MissingArguments):
                parser.parse([word.strip("…") or "x" for word in words if word != "…"])
            count += 1
    assert count > 20
