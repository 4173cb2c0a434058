"""`callsheet keys`: made, shown once, listed, revoked, and good on a server (X16)."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.doubles.command import Finished, assert_refused, command_in_process
from tests.doubles.served import served_app

Command = Callable[..., Finished]


@pytest.fixture
def here(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    return command_in_process(valkey_url, tmp_path, monkeypatch, capsys)


def made(here: Command, *options: str) -> str:
    done = here("keys", "create", *options)
    assert done.code == 0, done
    return done.out.strip()


async def opens(valkey_url: str, text: str) -> int:
    async with served_app(valkey_url, auth=("keys",)) as client:
        reply: httpx.Response = await client.get("/api/ads", headers={"X-Api-Key": text})
    return reply.status_code


def test_a_new_key_is_all_that_goes_to_stdout(here: Command) -> None:
    """So that KEY=$(callsheet keys create alice) has the key and nothing else."""
    done = here("keys", "create", "alice", "--name", "laptop", "--days", "90")
    assert done.code == 0
    assert done.out.startswith("cs_")
    assert len(done.out.split()) == 1
    assert done.out.split("_")[1] in done.err
    assert done.out.strip() not in done.err


def test_a_listed_key_says_all_but_itself(here: Command) -> None:
    keys = [
        made(here, "alice", "--permission", "admin", "--name", "laptop"),
        made(here, "bob", "--days", "2"),
    ]
    for options in ((), ("--json",)):
        said = here("keys", "list", *options).out
        assert all(key.split("_")[1] in said for key in keys)
        assert not any(key.split("_", 2)[2] in said for key in keys)
    (alices,) = json.loads(here("keys", "list", "--owner", "alice", "--json").out)
    assert (alices["owner"], alices["name"], alices["status"]) == ("alice", "laptop", "active")
    assert (alices["permissions"], alices["expiresAt"]) == (["read", "write", "admin"], None)
    (bobs,) = json.loads(here("keys", "list", "--owner", "bob", "--json").out)
    assert bobs["expiresAt"] > bobs["createdAt"]
    assert bobs["permissions"] == ["read", "write"]


async def test_a_key_opens_a_server_until_it_is_revoked(here: Command, valkey_url: str) -> None:
    import asyncio

    key = await asyncio.to_thread(made, here, "alice")
    assert await opens(valkey_url, key) == 200
    done = await asyncio.to_thread(here, "keys", "revoke", key.split("_")[1])
    assert (done.code, done.out) == (0, "")
    assert await opens(valkey_url, key) == 401
    listed = await asyncio.to_thread(here, "keys", "list")
    assert "revoked" in listed.out


def test_without_keys_the_list_says_how_to_make_one(here: Command) -> None:
    assert "callsheet keys create" in here("keys", "list").out
    assert json.loads(here("keys", "list", "--json").out) == []


@pytest.mark.parametrize(
    ("args", "word", "code"),
    [
        (("revoke", "nope"), "'nope'", 1),
        (("create", ""), "owner ''", 1),
        (("create", "x" * 256), "255", 1),
        (("create", "alice", "--permission", "root"), "'root'", 2),
        (("create", "alice", "--days", "0"), "0 days", 2),
        (("create", "alice", "--days", "-1"), "-1 days", 2),
        (("create", "alice", "--days", "nan"), "nan days", 2),
        (("create",), "OWNER", 2),
    ],
)
def test_what_cannot_be_is_refused_in_two_lines(
    here: Command, args: tuple[str, ...], word: str, code: int
) -> None:
    assert_refused(here("keys", *args), word, code=code)
    assert json.loads(here("keys", "list", "--json").out) == []
