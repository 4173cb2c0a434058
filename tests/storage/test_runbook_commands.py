"""Commands for Redis in the runbook and the operations page: a real Redis takes each of them."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.doubles.command import ROOT
from tests.doubles.needs import need
from tests.doubles.redis_server import running_redis

COMMANDS = re.compile(r"`(?:redis-cli ([^`]+)|((?:CONFIG SET|SLOWLOG|LASTSAVE)[^`]*))`")


def commands() -> list[list[str]]:
    """The commands, in order; those of the page for operations are over several lines."""
    words = [
        shlex.split(match[1] or match[2])
        for match in COMMANDS.finditer((ROOT / "docs/runbook.md").read_text())
    ]
    page = (ROOT / "docs/operations.md").read_text()
    rights = re.search(r"^ACL SETUSER (?:.*\\\n)*.*$", page, re.MULTILINE)
    assert rights
    return [*words, rights[0].replace("\\\n", "").split()]


@pytest.mark.slow
def test_redis_takes_every_command_of_the_runbook(tmp_path: Path) -> None:
    given = commands()
    assert len(given) >= 7
    client = str(need("redis-cli"))
    with running_redis(need("redis-server", "valkey-server"), tmp_path) as server:
        for words in given:
            args = [client, "-p", str(server.port), *words]
            done = subprocess.run(args, capture_output=True, text=True, timeout=30, check=False)
            output = done.stdout + done.stderr
            assert done.returncode == 0, (words, output)
            assert not re.search(r"^\(?(error|ERR|WRONG)", output, re.IGNORECASE), (words, output)
