"""Logs: one line a record, what was being done in every line, and never a secret."""

import asyncio
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from callsheet.server.telemetry import logs
from callsheet.server.telemetry.logs import REDACTED, Redactor

ROOT = Path(__file__).parents[2]
KEY = "sk-proj-4bXq9TzR7mWn2LpKc8"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm5hIn0.c2lnbmF0dXJlLW9mLXRva2Vu"
_log = logging.getLogger("server.some.where")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Give the root logger back to pytest afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)
    for name in ("httpx", "httpx2", "httpcore", "docket", "asyncio", "openai", logs.REQUEST_LOGGER):
        logging.getLogger(name).setLevel(logging.NOTSET)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def to(form: logs.Format = "json", level: str = "info", stream: io.StringIO | None = None) -> io.StringIO:
    stream = stream or io.StringIO()
    logs.configure(level, form, stream)
    return stream


def test_a_record_is_one_line_of_json_with_time_level_logger_and_its_own_fields() -> None:
    stream = to("auto")
    _log.warning("lost %s of\n%s", "one", "two", extra={"thread_id": "t-1", "took_s": 0.5})
    (line,) = lines(stream)
    assert line["event"] == "lost one of\ntwo"
    assert (line["level"], line["logger"]) == ("warning", "server.some.where")
    assert (line["thread_id"], line["took_s"]) == ("t-1", 0.5)
    assert str(line["timestamp"]).endswith("Z")


def test_on_a_terminal_it_is_text_that_no_message_can_forge_or_steer() -> None:
    stream = to("auto", stream=Terminal())
    _log.error("first\n2026 [info] forged \x1b[2Jcleared")
    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b[2J" not in stream.getvalue()
    assert "first\\n2026" in stream.getvalue()


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = to(stream=Terminal(), form="text")
    _log.error("said")
    monkeypatch.setenv("NO_COLOR", "1")
    plain = to(stream=Terminal(), form="text")
    _log.error("said")
    assert "\x1b[" in coloured.getvalue()
    assert "\x1b[" not in plain.getvalue()


def test_what_is_bound_is_in_every_line_of_its_context_and_in_no_other() -> None:
    """X14: a run's lines are found by its id, also when runs interleave."""
    stream = to()

    async def run(name: str) -> None:
        with logs.log_context(run_id=name, thread_id=f"t-{name}", owner=""):
            _log.info("begins")
            await asyncio.sleep(0)
            _log.info("ends")

    async def both() -> None:
        await asyncio.gather(run("a"), run("b"))

    asyncio.run(both())
    _log.info("after")
    told = [(line["event"], line.get("run_id"), line.get("thread_id")) for line in lines(stream)]
    assert sorted(told[:4]) == sorted(
        [("begins", "a", "t-a"), ("begins", "b", "t-b"), ("ends", "a", "t-a"), ("ends", "b", "t-b")]
    )
    assert told[4] == ("after", None, None)
    assert all("owner" not in line for line in lines(stream))


@pytest.mark.parametrize(
    "said",
    [
        "connecting to redis://user:hunter2-pass@db.example:6379/0",
        "Authorization: Bearer hunter2-pass",
        "Proxy-Authorization: Basic aHVudGVyMi1wYXNz",
        "headers {'authorization': 'hunter2-pass', 'accept': '*/*'}",
        'body {"password": "hunter2-pass"}',
        "X-Api-Key: hunter2-pass",
        "GET /?api_key=hunter2-pass&limit=3",
        "access_token=hunter2-pass",
        "raw {b'authorization': b'hunter2-pass'}",
    ],
)
def test_a_secret_in_a_sentence_is_hidden(said: str) -> None:
    stream = to()
    _log.info(said)
    _log.info("%s", said)
    assert not {"hunter2", "aHVudGVy"} & set(re.findall(r"hunter2|aHVudGVy", stream.getvalue()))
    assert stream.getvalue().count(REDACTED) >= 2


@pytest.mark.parametrize("secret", [KEY, JWT, "cs_Zm9vYmFyYmF6cXV4", "Bearer abcdef123456"])
def test_a_secret_is_known_by_its_shape(secret: str) -> None:
    assert secret.removeprefix("Bearer ") not in Redactor().redact_text(
        f"the client sent {secret}, which is wrong"
    )


def test_a_secret_under_a_telling_name_is_hidden_however_deep() -> None:
    found = Redactor().redact(
        {
            "request": {
                "headers": [{"x-api-key": "hunter2"}],
                "client_secret": b"hunter2",
                "cookie": ("a", "b"),
            }
        }
    )
    assert "hunter2" not in str(found)
    assert found == {
        "request": {"headers": [{"x-api-key": REDACTED}], "client_secret": REDACTED, "cookie": REDACTED}
    }


def test_keys_in_the_environment_are_hidden_wherever_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "plainword-key")
    stream = to()
    try:
        int("plainword-key")
    except ValueError:
        _log.exception("no luck with plainword-key")
    assert "plainword-key" not in stream.getvalue()
    assert "ValueError" in str(lines(stream)[0]["exception"])


@pytest.mark.parametrize(
    "said",
    [
        "used 120 tokens, input_tokens=80 output_tokens: 40",
        "see https://example.org:8080/a@b and keys.py",
        "the token limit: none",
        "skipped 3 of the basic trainings",
    ],
)
def test_what_is_no_secret_stays(said: str) -> None:
    assert Redactor().redact_text(said) == said
    assert Redactor().redact({"input_tokens": 80, "idempotency_key": "k-1"}) == {
        "input_tokens": 80,
        "idempotency_key": "k-1",
    }


def test_requests_and_chatty_libraries_are_told_to_machines_or_to_who_wants_everything() -> None:
    for form, level, expected in (("text", "info", []), ("text", "debug", [1, 2]), ("json", "info", [1])):
        stream = to(form, level)  # type: ignore[arg-type]
        logging.getLogger(logs.REQUEST_LOGGER).info("request 1")
        logging.getLogger("httpx").info("request 2")
        assert [n for n in (1, 2) if f"request {n}" in stream.getvalue()] == expected, (form, level)
