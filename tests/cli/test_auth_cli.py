"""`callsheet keys`: create, list and revoke API keys, and use them on a server (X16)."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import RunCommand
from tests.doubles.command import assert_refused
from tests.doubles.served import served_app


def create_key(run_command: RunCommand, *options: str) -> str:
    result = run_command("keys", "create", *options)
    assert result.code == 0, result
    return result.out.strip()


def key_id(key: str) -> str:
    """Return the public part of a key, `id` of `cs_id_secret`."""
    return key.split("_")[1]


async def status_with_key(valkey_url: str, key: str) -> int:
    async with served_app(valkey_url, auth=("keys",)) as client:
        reply: httpx.Response = await client.get("/api/ads", headers={"X-Api-Key": key})
    return reply.status_code


def test_only_the_new_key_goes_to_stdout(run_command: RunCommand) -> None:
    """So `KEY=$(callsheet keys create alice)` works; the key's id goes to stderr."""
    result = run_command("keys", "create", "alice", "--name", "laptop", "--days", "90")
    assert result.code == 0
    assert result.out.startswith("cs_")
    assert len(result.out.split()) == 1
    assert key_id(result.out) in result.err
    assert result.out.strip() not in result.err


def test_the_list_of_keys_has_all_their_properties_but_no_secret(run_command: RunCommand) -> None:
    keys = [
        create_key(run_command, "alice", "--permission", "admin", "--name", "laptop"),
        create_key(run_command, "bob", "--days", "2"),
    ]
    for options in ((), ("--json",)):
        output = run_command("keys", "list", *options).out
        assert all(key_id(key) in output for key in keys)
        assert not any(key.split("_", 2)[2] in output for key in keys)
    [alices_key] = json.loads(run_command("keys", "list", "--owner", "alice", "--json").out)
    assert (alices_key["owner"], alices_key["name"], alices_key["status"]) == ("alice", "laptop", "active")
    assert (alices_key["permissions"], alices_key["expiresAt"]) == (["read", "write", "admin"], None)
    [bobs_key] = json.loads(run_command("keys", "list", "--owner", "bob", "--json").out)
    assert bobs_key["expiresAt"] > bobs_key["createdAt"]
    assert bobs_key["permissions"] == ["read", "write"]


async def test_a_key_is_accepted_by_a_server_until_it_is_revoked(
    run_command: RunCommand, valkey_url: str
) -> None:
    key = await asyncio.to_thread(create_key, run_command, "alice")
    assert await status_with_key(valkey_url, key) == 200
    result = await asyncio.to_thread(run_command, "keys", "revoke", key_id(key))
    assert (result.code, result.out) == (0, "")
    assert await status_with_key(valkey_url, key) == 401
    listing = await asyncio.to_thread(run_command, "keys", "list")
    assert "revoked" in listing.out


def test_an_empty_list_of_keys_names_the_command_to_create_one(run_command: RunCommand) -> None:
    assert "callsheet keys create" in run_command("keys", "list").out
    assert json.loads(run_command("keys", "list", "--json").out) == []


@pytest.mark.parametrize(
    ("args", "problem", "code"),
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
def test_invalid_arguments_are_refused_in_two_lines_and_create_no_key(
    run_command: RunCommand, args: tuple[str, ...], problem: str, code: int
) -> None:
    assert_refused(run_command("keys", *args), problem, code=code)
    assert json.loads(run_command("keys", "list", "--json").out) == []


def test_the_command_line_rotates_keys_and_shows_and_exports_the_audit(
    run_command: RunCommand, tmp_path: Path
) -> None:
    key = run_command("keys", "create", "anna", "--name", "laptop").out.strip()
    key_id = key.split("_")[1]
    rotated = run_command("keys", "rotate", key_id, "--grace", "2")
    assert rotated.code == 0, rotated.err
    new_id = rotated.out.split("_")[1]
    assert f"{key_id} works for 2 hours more" in rotated.err
    assert f"{key_id} works for 2 hours more" in run_command("keys", "rotate", key_id, "--grace", "5").err
    assert run_command("keys", "revoke", key_id).code == 0
    assert run_command("keys", "rotate", key_id).code == 1
    assert "never" in run_command("keys", "list").out
    listed = json.loads(run_command("audit", "list", "--json").out)
    assert [(one["action"], one["target"]) for one in listed] == [
        ("key.revoke", key_id),
        ("key.rotate", key_id),
        ("key.rotate", key_id),
        ("key.create", key_id),
    ]
    assert listed[2]["details"]["new"] == new_id
    assert key not in str(listed)
    assert listed[0]["owner"].startswith("operator ")
    header, first, *_ = run_command("audit", "list", "--since", "1h").out.splitlines()
    assert header.split()[:2] == ["Time", "(UTC)"]
    assert "key.revoke" in first
    assert run_command("audit", "export", str(tmp_path / "audit.jsonl")).code == 0
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert lines == listed[::-1]
    only = run_command("audit", "export", "--action", "key.create")
    assert [json.loads(line)["action"] for line in only.out.splitlines()] == ["key.create"]
