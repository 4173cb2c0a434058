"""Logs: one line per record, JSON or text, without secrets.

Everything goes through the standard library's logging. Run, thread, owner and request are bound to the
context once, and every line logged in it has them.
"""

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Final, Literal, TextIO

from structlog import dev, processors, stdlib

Format = Literal["auto", "json", "text"]
"""`auto` is `text` on a terminal and `json` elsewhere."""
REQUEST_LOGGER: Final = "server.requests"
"""Logger with one line per request; silent in `text` unless the level is debug."""
REDACTED: Final = "[hidden]"
_VERBOSE_LOGGERS: Final = ("httpx", "httpx2", "httpcore", "docket", "asyncio", "openai")
_RETRYING_LOGGERS: Final = ("docket.worker", "docket.strikelist")
"""Loggers of the task queue, which log each second of an outage of Redis."""
_OUTAGE_LINE_S: Final = 60.0
"""Seconds between two of their lines."""
_MIN_SECRET_CHARS: Final = 8
"""Least length of a secret from the environment; shorter values occur in text by chance."""

_SECRET_NAME: Final = re.compile(
    r"""(?ix) ^(?:
        .*(?:authorization|passw(?:or)?d|passphrase|secret|credential|cookie)s? |
        .*api[-_ ]?key | .*private[-_]?key | (?:.*[-_])?token
    )$"""
)
_SECRET_TEXT: Final = re.compile(
    r"""(?ix)
    (?P<head> (?<![\w+.-])[\w+.-]++://[^\s/@:"']*: )(?P<url>[^\s@/"']+(?=@)) |
    (?P<scheme> \b(?:bearer|basic)\s+ )(?=\S*[\d=])[\w.~+/=-]{6,} |
    (?P<field> (?<![\w-])[\w-]*(?:authorization|passw(?:or)?d|secret|api[-_]?key|
        (?:access|refresh|id|auth)[-_]token|(?<![a-z])token)
        ["']?\s*[:=]\s*["']? (?:b['"])? )(?!\[hidden\]|bearer\b|basic\b)[^\s"',;&}\])]{3,} |
    \b(?:sk|cs|pk|ghp|lsv2)[-_][\w-]{12,} |
    \beyJ[\w-]{8,1000}\.[\w-]{8,}+\.[\w-]*
    """
)

_bound: ContextVar[Mapping[str, str]] = ContextVar("callsheet_log_fields")


@contextmanager
def log_context(**fields: str) -> Iterator[None]:
    """Add these fields to every line logged in this context; empty ones are left out."""
    present = {name: value for name, value in fields.items() if value}
    token = _bound.set({**_bound.get({}), **present})
    try:
        yield
    finally:
        _bound.reset(token)


def context_fields() -> Mapping[str, str]:
    """Return the fields of this context."""
    return _bound.get({})


def configure(level: str, form: Format = "auto", stream: TextIO | None = None) -> None:
    """Send every log record to `stream` (stderr by default) and remove other handlers."""
    target = stream or sys.stderr
    chosen = form if form != "auto" else "text" if target.isatty() else "json"
    handler = logging.StreamHandler(target)
    handler.setFormatter(LineFormatter(chosen, colours=target.isatty() and "NO_COLOR" not in os.environ))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    quiet = logging.NOTSET if level == "debug" else logging.WARNING
    for name in _VERBOSE_LOGGERS:
        logging.getLogger(name).setLevel(quiet)
    logging.getLogger(REQUEST_LOGGER).setLevel(quiet if chosen == "text" else logging.NOTSET)
    for name in _RETRYING_LOGGERS:
        retrying = logging.getLogger(name)
        for former in retrying.filters[:]:
            retrying.removeFilter(former)
        retrying.addFilter(_OutageFilter())


class _OutageFilter(logging.Filter):
    """Passes a logger's lines about an outage of Redis once a minute, with the error and no trace."""

    def __init__(self) -> None:
        super().__init__()
        self._next_s = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for a line that repeats the newest one."""
        if record.levelno != logging.WARNING or "Redis" not in str(record.msg):
            return True
        if record.created < self._next_s:
            return False
        self._next_s = record.created + _OUTAGE_LINE_S
        if record.exc_info and record.exc_info[1]:
            record.msg, record.args = "%s %s", (record.getMessage(), record.exc_info[1])
            record.exc_info = None
        return True


def known_secrets(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of variables with names of secrets, longest first."""
    values = {
        value
        for name, value in environment.items()
        if _SECRET_NAME.match(name) and len(value) >= _MIN_SECRET_CHARS
    }
    return tuple(sorted(values, key=len, reverse=True))


class Redactor:
    """Removes secrets: known values, values under names of secrets, and texts in the shape of secrets."""

    def __init__(self, known: Sequence[str] = ()) -> None:
        self._known = tuple(known)

    def redact(self, value: Any) -> Any:
        """Return `value` without secrets, in all its texts, mappings and lists."""
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, bytes):
            return self.redact_text(value.decode(errors="backslashreplace"))
        if isinstance(value, Mapping):
            return {
                str(name): REDACTED if part and _SECRET_NAME.match(str(name)) else self.redact(part)
                for name, part in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [self.redact(part) for part in value]
        return value if value is None or isinstance(value, int | float) else self.redact_text(str(value))

    def redact_text(self, text: str) -> str:
        """Return `text` without secrets."""
        for secret in self._known:
            text = text.replace(secret, REDACTED)
        return _SECRET_TEXT.sub(_mask, text)


def _mask(match: re.Match[str]) -> str:
    return (match["head"] or match["scheme"] or match["field"] or "") + REDACTED


class LineFormatter(logging.Formatter):
    """Formats log records as lines. structlog is imported with the first line, not at the start."""

    def __init__(self, form: Literal["json", "text"], *, colours: bool = False) -> None:
        super().__init__()
        self._form = form
        self._colours = colours
        self._redactor = Redactor(known_secrets(os.environ))

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line; in text, a trace follows on further lines."""
        return self._formatter.format(record)

    @cached_property
    def _formatter(self) -> logging.Formatter:
        as_json = self._form == "json"
        rendering: list[Any] = (
            [processors.JSONRenderer(ensure_ascii=False, default=str)]
            if as_json
            else [
                _on_one_line,
                dev.ConsoleRenderer(colors=self._colours, exception_formatter=dev.plain_traceback),
            ]
        )
        return stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                stdlib.add_log_level,
                stdlib.add_logger_name,
                stdlib.ExtraAdder(),
                processors.TimeStamper(fmt="iso" if as_json else "%H:%M:%S", utc=as_json),
                _with_context,
            ],
            processors=[
                stdlib.ProcessorFormatter.remove_processors_meta,
                processors.format_exc_info,
                self._redact,
                *rendering,
            ],
        )

    def _redact(self, _logger: Any, _name: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
        cleaned: dict[str, Any] = self._redactor.redact(event)
        return cleaned


def _with_context(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    event.pop("color_message", None)
    first = {name: event[name] for name in ("timestamp", "level", "logger", "event") if name in event}
    return {**first, **context_fields(), **event}


def _on_one_line(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape control characters, which could control a terminal or forge a line; a trace keeps its lines."""
    return {
        name: value if name == "exception" or not isinstance(value, str) else _printable(value)
        for name, value in event.items()
    }


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
