"""Logs: one line a record, JSON for machines or text for a terminal, and never a secret.

Everything is logged through the standard library, ours and the libraries' alike. What is being done (run,
thread, owner, request) is bound to the context once, and every line logged meanwhile has it.
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

Format = Literal["auto", "json", "text"]
"""`auto` is `text` on a terminal and `json` elsewhere."""
REQUEST_LOGGER: Final = "server.requests"
"""The logger with a line a request; quiet in `text` unless everything is shown."""
REDACTED: Final = "[hidden]"
_CHATTY: Final = ("httpx", "httpcore", "docket", "asyncio")
_SHORTEST: Final = 8
"""Characters of a value in the environment that is taken for a secret; shorter ones occur by chance."""

_NAME: Final = re.compile(
    r"""(?ix) ^(?:
        .*(?:authorization|passw(?:or)?d|passphrase|secret|credential|cookie)s? |
        .*api[-_ ]?key | .*private[-_]?key | (?:.*[-_])?token
    )$"""
)
_SPOKEN: Final = re.compile(
    r"""(?ix)
    (?P<head> \b[a-z][\w+.-]*://[^\s/@:"']*: )(?P<url>[^\s@/"']+(?=@)) |
    (?P<scheme> \b(?:bearer|basic)\s+ )(?=\S*[\d=])[\w.~+/=-]{6,} |
    (?P<field> \b[\w-]*(?:authorization|passw(?:or)?d|secret|api[-_]?key|(?:access|refresh|id|auth)[-_]token|
        (?<![a-z])token) ["']?\s*[:=]\s*["']? (?:b['"])? )(?!\[hidden\]|bearer\b|basic\b)[^\s"',;&}\])]{3,} |
    \b(?:sk|cs|pk|ghp|lsv2)[-_][\w-]{12,} |
    \beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*
    """
)

_bound: ContextVar[Mapping[str, str]] = ContextVar("callsheet_log_fields")


@contextmanager
def log_context(**fields: str) -> Iterator[None]:
    """Give every line logged in this context meanwhile these fields; empty ones are left out."""
    told = {name: value for name, value in fields.items() if value}
    token = _bound.set({**_bound.get({}), **told})
    try:
        yield
    finally:
        _bound.reset(token)


def context_fields() -> Mapping[str, str]:
    """Return what is bound in this context."""
    return _bound.get({})


def configure(level: str, form: Format = "auto", stream: TextIO | None = None) -> None:
    """Send every log record to `stream`, stderr unless told otherwise; earlier handlers go. Twice is safe."""
    where = stream or sys.stderr
    chosen = form if form != "auto" else "text" if where.isatty() else "json"
    handler = logging.StreamHandler(where)
    handler.setFormatter(LineFormatter(chosen, colours=where.isatty() and "NO_COLOR" not in os.environ))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    quiet = logging.NOTSET if level == "debug" else logging.WARNING
    for name in _CHATTY:
        logging.getLogger(name).setLevel(quiet)
    logging.getLogger(REQUEST_LOGGER).setLevel(quiet if chosen == "text" else logging.NOTSET)


def known_secrets(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of variables that are named like secrets, the longest first."""
    found = {value for name, value in environment.items() if _NAME.match(name) and len(value) >= _SHORTEST}
    return tuple(sorted(found, key=len, reverse=True))


class Redactor:
    """Takes secrets out of what is to be shown: known values, values under telling names, telling shapes."""

    def __init__(self, known: Sequence[str] = ()) -> None:
        self._known = tuple(known)

    def redact(self, value: Any) -> Any:
        """Return `value` without secrets, looked for in all of its text, mappings and lists."""
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, bytes):
            return self.redact_text(value.decode(errors="backslashreplace"))
        if isinstance(value, Mapping):
            return {
                str(name): REDACTED if part and _NAME.match(str(name)) else self.redact(part)
                for name, part in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [self.redact(part) for part in value]
        return value if value is None or isinstance(value, int | float) else self.redact_text(str(value))

    def redact_text(self, text: str) -> str:
        """Return `text` without secrets."""
        for secret in self._known:
            text = text.replace(secret, REDACTED)
        return _SPOKEN.sub(_covered, text)


def _covered(found: re.Match[str]) -> str:
    return (found["head"] or found["scheme"] or found["field"] or "") + REDACTED


class LineFormatter(logging.Formatter):
    """Log records as lines of one form. structlog is imported with the first line, not at the start."""

    def __init__(self, form: Literal["json", "text"], *, colours: bool = False) -> None:
        super().__init__()
        self._form = form
        self._colours = colours
        self._redactor = Redactor(known_secrets(os.environ))

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line; in text, a trace follows on lines of its own."""
        return self._formatter.format(record)

    @cached_property
    def _formatter(self) -> logging.Formatter:
        # Two tenths of a second that a server which logs nothing need not spend before it answers.
        from structlog import dev, processors, stdlib  # noqa: PLC0415

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
                self._redacted,
                *rendering,
            ],
        )

    def _redacted(self, _logger: Any, _name: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
        cleaned: dict[str, Any] = self._redactor.redact(event)
        return cleaned


def _with_context(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    event.pop("color_message", None)
    first = {name: event[name] for name in ("timestamp", "level", "logger", "event") if name in event}
    return {**first, **context_fields(), **event}


def _on_one_line(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape control characters, which could steer a terminal or forge a line; a trace keeps its lines."""
    return {
        name: value if name == "exception" or not isinstance(value, str) else _printable(value)
        for name, value in event.items()
    }


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
