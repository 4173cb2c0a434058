"""Declarations of keys, and the check of every test's keys against them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis
from redis.crc import key_slot

from callsheet.state.errors import Invalid
from callsheet.storage.redis import caller_keys, key_table, keys
from tests.doubles.key_leaks import declaration_of, leaks

IDS = st.text(min_size=1, max_size=255)
ROOT = Path(__file__).parents[2]

ARTEFACT = {
    keys.artefact_meta: "hash",
    keys.receipts: "hash",
    keys.fences: "hash",
}
STREAM = {
    keys.versions: "list",
    keys.active_version: "string",
    keys.version_counter: "string",
}


def artefact_keys(kind: str, name: str) -> dict[str, str]:
    """Every key of one artefact with its type."""
    return (
        {make(kind, name): type_ for make, type_ in ARTEFACT.items()}
        | {make(kind, name, "voices"): type_ for make, type_ in STREAM.items()}
        | {keys.version(kind, name, "voices", "v3"): "string"}
        | {keys.mixer(kind, name): "string"}
    )


def thread_keys(name: str) -> dict[str, str]:
    """Every key of one thread with its type."""
    return {
        keys.run(name, "r"): "hash",
        **dict(zip(keys.run_keys(name), ("hash", "zset", "list", "string", "stream"), strict=True)),
        keys.idempotency(name, "k"): "string",
        keys.thread_meta(name): "hash",
        keys.question(name, "task"): "string",
        keys.consent(name, "0a"): "string",
    }


def test_artefact_keys_have_the_documented_form() -> None:
    """A35, with the id as hash tag."""
    assert keys.version("ad", "ad-1", "voices", "v3") == "ad:{ad-1}:voices:v:v3"
    assert keys.versions("ad", "ad-1", "music") == "ad:{ad-1}:music:versions"
    assert keys.active_version("ad", "ad-1", "sfx") == "ad:{ad-1}:sfx:active"
    assert keys.version_counter("ad", "ad-1", "voices") == "ad:{ad-1}:voices:counter"
    assert keys.artefact_meta("ad", "ad-1") == "ad:{ad-1}:meta"
    assert keys.mixer("ad", "ad-1") == "ad:{ad-1}:mixer"


@pytest.mark.parametrize("kind", ["ad", "page", "lesson", "slogan"])
@given(name=IDS)
def test_every_key_of_an_artefact_is_declared_with_its_type(kind: str, name: str) -> None:
    for key, type_ in artefact_keys(kind, name).items():
        declaration = declaration_of(key)
        assert declaration is not None, key
        assert (declaration.type, declaration.lifetime) == (type_, "forever")


@given(name=IDS, key=st.text(min_size=1))
def test_every_key_of_a_thread_is_declared_with_its_type(name: str, key: str) -> None:
    for thread_key, type_ in (thread_keys(name) | {keys.idempotency(name, key): "string"}).items():
        declaration = declaration_of(thread_key)
        assert declaration is not None, thread_key
        assert declaration.type == type_


def test_a_lease_lives_15_seconds_and_an_idempotency_key_a_day() -> None:
    lease, memo = (
        declaration_of(keys.run_keys("t").lease),
        declaration_of(keys.idempotency("t", "k")),
    )
    assert lease is not None
    assert memo is not None
    assert (lease.lifetime, memo.lifetime) == (15, 24 * 60 * 60)


@given(owner=IDS)
def test_the_owner_index_is_declared(owner: str) -> None:
    declaration = declaration_of(keys.owned_artefacts(owner, "ad"))
    assert declaration is not None
    assert (declaration.type, declaration.lifetime) == ("zset", "forever")


@given(owner=IDS)
def test_the_keys_of_callers_are_declared(owner: str) -> None:
    expected = {
        caller_keys.API_KEYS: ("zset", "forever"),
        caller_keys.api_key(owner): ("hash", "forever"),
        caller_keys.request_window(owner): ("zset", 60),
        caller_keys.open_streams(owner): ("zset", 30),
    }
    for key, type_and_lifetime in expected.items():
        declaration = declaration_of(key)
        assert declaration is not None, key
        assert (declaration.type, declaration.lifetime) == type_and_lifetime


@given(name=IDS)
def test_all_keys_of_an_artefact_and_all_of_a_thread_share_a_cluster_slot(name: str) -> None:
    assert len({key_slot(key.encode("utf-8", "surrogatepass")) for key in artefact_keys("ad", name)}) == 1
    assert len({key_slot(key.encode("utf-8", "surrogatepass")) for key in thread_keys(name)}) == 1


@given(one=IDS, other=IDS)
def test_two_ids_never_share_a_tag(one: str, other: str) -> None:
    assert (keys.hash_tag(one) == keys.hash_tag(other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("ad-1", "{ad-1}"),
        ("100%", "{100%25}"),
        ("a{b}c", "{a%7Bb%7Dc}"),
        ("%7B", "{%257B}"),
        ("วิทยุ:1", "{วิทยุ:1}"),
    ],
)
def test_characters_that_would_end_a_hash_tag_are_escaped(name: str, tag: str) -> None:
    assert keys.hash_tag(name) == tag


def test_an_empty_id_is_refused_because_it_would_be_no_tag() -> None:
    with pytest.raises(Invalid, match="empty id"):
        keys.hash_tag("")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ad",
        "ad:{}:meta",
        "ad:{a}b}:meta",
        "ad:a:meta",
        "ad:{a}:metadata",
        "ad:{a}:mixer:x",
        "ad:{a}::versions",
        "ad:{a}:voices:v:",
        "ad:{a}:voices:v:v1:x",
        "ad:{a}:{voices}:active",
        "thread:{a}:idempotency:",
    ],
)
def test_a_key_that_only_resembles_a_declared_one_is_not_declared(name: str) -> None:
    assert declaration_of(name) is None


def test_every_kind_of_key_has_a_declaration_of_its_own() -> None:
    concrete = [*artefact_keys("ad", "a"), *thread_keys("t"), keys.owned_artefacts("o", "ad")]
    declarations = [declaration_of(key) for key in concrete]
    assert len({key.pattern for key in declarations if key}) == len(concrete)


def test_every_declaration_has_a_purpose_and_a_pattern_of_its_own() -> None:
    assert all(key.purpose for key in key_table.KEYS)
    assert len({key.pattern for key in key_table.KEYS}) == len(key_table.KEYS)


def sample_declaration(name: str) -> key_table.Key | None:
    """Declarations for the tests of the check itself."""
    return {
        "kept": key_table.Key("kept", "string", "forever", "-"),
        "short": key_table.Key("short", "string", 15, "-"),
        "chosen": key_table.Key("chosen", "string", "chosen", "-"),
    }.get(name)


@pytest.fixture
def server(valkey_url: str) -> Iterator[Redis]:
    with Redis.from_url(valkey_url) as client:
        yield client
        client.flushall()


def test_keys_as_declared_are_no_leaks(server: Redis) -> None:
    server.set("kept", 1)
    server.set("short", 1, px=14_999)
    server.set("chosen", 1, ex=3600)
    assert leaks(server, sample_declaration) == []
    server.persist("chosen")
    assert leaks(server, sample_declaration) == []


def test_an_undeclared_key_is_a_leak_in_any_database(valkey_url: str, server: Redis) -> None:
    server.set("kept", 1)
    with Redis.from_url(valkey_url.replace("db=0", "db=7")) as seventh:
        seventh.set("stray", 1)
    assert leaks(server, sample_declaration) == ["'stray' is declared nowhere in storage/redis/key_table.py"]


def test_a_key_of_another_type_is_a_leak(server: Redis) -> None:
    server.rpush("kept", 1)
    assert leaks(server, sample_declaration) == ["'kept' is a list, declared as a string"]


def test_a_key_that_expires_though_declared_to_stay_is_a_leak(server: Redis) -> None:
    server.set("kept", 1, ex=3600)
    (leak,) = leaks(server, sample_declaration)
    assert "declared to live forever" in leak


def test_a_key_that_stays_though_declared_to_expire_is_a_leak(server: Redis) -> None:
    server.set("short", 1)
    assert leaks(server, sample_declaration) == ["'short' does not expire, declared to live 15"]


def test_a_key_that_outlives_its_declaration_is_a_leak(server: Redis) -> None:
    server.set("short", 1, ex=16)
    (leak,) = leaks(server, sample_declaration)
    assert leak.startswith("'short' expires in 1")


_SAMPLE = """
import pytest
from callsheet.storage.redis import key_table, keys

async def test_that_leaves_a_declared_key(storage):
    await storage.redis.hset(keys.artefact_meta("ad", "a"), "owner", "local")

async def test_that_finds_an_empty_server(storage):
    assert await storage.redis.dbsize() == 0

async def test_that_leaves_a_stray_key(storage):
    await storage.redis.set("stray", 1)

@pytest.mark.long
def test_that_is_long():
    pass
"""


def run_pytest(folder: Path, *options: str) -> str:
    """Run pytest on the sample, which fails because of one of its tests; its output."""
    (folder / "test_sample.py").write_text(_SAMPLE)
    plugins = [
        word
        for name in ("pytest_asyncio.plugin", "pytest_timeout", "xdist.plugin", "tests.conftest")
        for word in ("-p", name)
    ]
    process = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-c", str(ROOT / "pyproject.toml"), *options, str(folder)],
        cwd=ROOT,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 1, process.stdout + process.stderr
    return process.stdout


@pytest.mark.slow
def test_a_test_that_leaves_a_stray_key_fails_and_the_next_finds_an_empty_server(tmp_path: Path) -> None:
    printed = run_pytest(tmp_path)
    assert "ERROR at teardown of test_that_leaves_a_stray_key" in printed
    assert "'stray' is declared nowhere" in printed
    assert "3 passed, 1 skipped, 1 error" in printed


@pytest.mark.long
def test_long_tests_run_with_the_long_option(tmp_path: Path) -> None:
    assert "4 passed, 1 error" in run_pytest(tmp_path, "--long")
