"""Logs: one line per record, its context in every line, and never a secret."""

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
def restored_logging() -> Iterator[None]:
    """Restore the root logger for pytest after the test."""
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


class TerminalStream(io.StringIO):
    def isatty(self) -> bool:
        return True


def json_lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def configure_logs(
    form: logs.Format = "json", level: str = "info", stream: io.StringIO | None = None
) -> io.StringIO:
    stream = stream or io.StringIO()
    logs.configure(level, form, stream)
    return stream


def test_a_json_record_is_one_line_with_time_level_logger_and_extra_fields() -> None:
    stream = configure_logs("auto")
    _log.warning("lost %s of\n%s", "one", "two", extra={"thread_id": "t-1", "took_s": 0.5})
    (record,) = json_lines(stream)
    assert record["event"] == "lost one of\ntwo"
    assert (record["level"], record["logger"]) == ("warning", "server.some.where")
    assert (record["thread_id"], record["took_s"]) == ("t-1", 0.5)
    assert str(record["timestamp"]).endswith("Z")


def test_text_for_a_terminal_escapes_line_breaks_and_control_sequences() -> None:
    stream = configure_logs("auto", stream=TerminalStream())
    _log.error("first\n2026 [info] forged \x1b[2Jcleared")
    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b[2J" not in stream.getvalue()
    assert "first\\n2026" in stream.getvalue()


def test_text_for_a_terminal_is_coloured_unless_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = configure_logs(stream=TerminalStream(), form="text")
    _log.error("failed")
    monkeypatch.setenv("NO_COLOR", "1")
    plain = configure_logs(stream=TerminalStream(), form="text")
    _log.error("failed")
    assert "\x1b[" in coloured.getvalue()
    assert "\x1b[" not in plain.getvalue()


def test_context_fields_are_in_the_lines_of_their_own_context_only() -> None:
    """X14: a run's lines are found by its id, also when runs interleave."""
    stream = configure_logs()

    async def run(name: str) -> None:
        with logs.log_context(run_id=name, thread_id=f"t-{name}", owner=""):
            _log.info("begins")
            await asyncio.sleep(0)
            _log.info("ends")

    async def run_both() -> None:
        await asyncio.gather(run("a"), run("b"))

    asyncio.run(run_both())
    _log.info("after")
    records = [(line["event"], line.get("run_id"), line.get("thread_id")) for line in json_lines(stream)]
    assert sorted(records[:4]) == sorted(
        [("begins", "a", "t-a"), ("begins", "b", "t-b"), ("ends", "a", "t-a"), ("ends", "b", "t-b")]
    )
    assert records[4] == ("after", None, None)
    assert all("owner" not in line for line in json_lines(stream))


@pytest.mark.parametrize(
    "message",
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
def test_a_secret_in_a_message_is_redacted(message: str) -> None:
    stream = configure_logs()
    _log.info(message)
    _log.info("%s", message)
    assert not {"hunter2", "aHVudGVy"} & set(re.findall(r"hunter2|aHVudGVy", stream.getvalue()))
    assert stream.getvalue().count(REDACTED) >= 2


@pytest.mark.parametrize("secret", [KEY, JWT, "cs_Zm9vYmFyYmF6cXV4", "Bearer abcdef123456"])
def test_a_secret_is_recognised_by_its_format(secret: str) -> None:
    assert secret.removeprefix("Bearer ") not in Redactor().redact_text(
        f"the client sent {secret}, which is wrong"
    )


def test_a_value_under_a_secret_field_name_is_redacted_at_any_depth() -> None:
    redacted = Redactor().redact(
        {
            "request": {
                "headers": [{"x-api-key": "hunter2"}],
                "client_secret": b"hunter2",
                "cookie": ("a", "b"),
            }
        }
    )
    assert "hunter2" not in str(redacted)
    assert redacted == {
        "request": {"headers": [{"x-api-key": REDACTED}], "client_secret": REDACTED, "cookie": REDACTED}
    }


def test_values_of_api_key_variables_are_redacted_in_messages_and_tracebacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "plainword-key")
    stream = configure_logs()
    try:
        int("plainword-key")
    except ValueError:
        _log.exception("no luck with plainword-key")
    assert "plainword-key" not in stream.getvalue()
    assert "ValueError" in str(json_lines(stream)[0]["exception"])


@pytest.mark.parametrize(
    "message",
    [
        "used 120 tokens, input_tokens=80 output_tokens: 40",
        "see https://example.org:8080/a@b and keys.py",
        "the token limit: none",
        "skipped 3 of the basic trainings",
    ],
)
def test_text_without_secrets_is_unchanged(message: str) -> None:
    assert Redactor().redact_text(message) == message
    assert Redactor().redact({"input_tokens": 80, "idempotency_key": "k-1"}) == {
        "input_tokens": 80,
        "idempotency_key": "k-1",
    }


def test_request_lines_are_in_json_logs_and_library_requests_in_debug_logs() -> None:
    for form, level, expected in (("text", "info", []), ("text", "debug", [1, 2]), ("json", "info", [1])):
        stream = configure_logs(form, level)  # type: ignore[arg-type]
        logging.getLogger(logs.REQUEST_LOGGER).info("request 1")
        logging.getLogger("httpx").info("request 2")
        assert [n for n in (1, 2) if f"request {n}" in stream.getvalue()] == expected, (form, level)
