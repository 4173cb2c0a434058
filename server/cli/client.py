"""Connection of a terminal to a server, which it starts if there is none."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx

from callsheet.server.cli.remedies import in_terminal
from callsheet.server.settings.local_sockets import (
    OWNER_HEADER,
    LocalSockets,
    local_sockets,
    project_config,
)
from callsheet.state.errors import Broken, CallsheetError, Invalid, Missing, Unavailable

URL: Final = "CALLSHEET_URL"
API_KEY: Final = "CALLSHEET_API_KEY"
_START_S: Final = 60.0
_POLL_S: Final = 0.02
_ANSWER_S: Final = 2.0
_QUIET_S: Final = 120.0
"""Silence after which a server counts as gone; it sends a heartbeat to a stream every few seconds."""
_TIMEOUT: Final = httpx.Timeout(_QUIET_S, connect=10.0)


def path_part(name: str) -> str:
    """Return a name as one part of a path; raise `Invalid` for one that would address its parent."""
    if name in {"", ".", ".."}:
        raise Invalid(f"{name!r} is no id", remedy="copy it from the list")
    return quote(name, safe="")


class ServerRefusal(CallsheetError):
    """The server refused a request."""

    def __init__(self, body: Mapping[str, Any], status: int) -> None:
        super().__init__(
            str(body.get("error") or body.get("message") or f"the server answered {status}"),
            remedy=in_terminal(str(body.get("remedy") or "")),
        )
        self.status = status


@dataclass(frozen=True)
class Place:
    """The server that a command speaks to."""

    url: str = ""
    """Address of a server; empty for the one on this machine's data."""
    key: str = ""
    owner: str = ""
    """Owner whose things an operator looks at; empty for the local one."""
    data_dir: Path | None = None


class ServerClient:
    """A connection to a server; it is kept open, so that a server which serves terminals alone stays."""

    def __init__(self, place: Place, say: Callable[[str], None]) -> None:
        """`say` is told that a server is started."""
        self.place = place
        self._say = say
        self._socket: Path | None = None
        if place.url and place.owner:
            raise Invalid("--owner is for the data on this machine", remedy="use a key of that owner instead")
        self._http = self._remote() if place.url else self._local()

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def second(self) -> httpx.Client:
        """Return another connection to the same server, for a request while the first one is busy."""
        return self._remote() if self.place.url else self._at(self._socket or Path())

    def reconnect(self) -> None:
        """Connect again, and start a server again if there is none any more."""
        self._http.close()
        self._http = self._remote() if self.place.url else self._local()

    def get(self, path: str, **params: Any) -> Any:
        """Return the JSON of a GET; raises as `call`."""
        chosen = {name: value for name, value in params.items() if value is not None}
        # Empty parameters would remove the query of the path.
        return self.call("GET", path, params=chosen or None).json()

    def call(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Return the reply; raises `Missing` for 404, `ServerRefusal` for other refusals, `Unavailable`."""
        try:
            reply = self._http.request(method, path, **request)
        except httpx.TransportError as error:
            raise self._gone(error) from error
        if reply.is_error:
            raise _refusal(reply)
        return reply

    def download(self, path: str, **params: Any) -> Iterator[bytes]:
        """Yield the pieces of a file; raises as `call`, before the first or later."""
        try:
            with self._http.stream("GET", path, params=params) as reply:
                if reply.is_error:
                    reply.read()
                    raise _refusal(reply)
                yield from reply.iter_bytes()
        except httpx.TransportError as error:
            raise self._gone(error) from error

    def events(
        self, method: str, path: str, on_start: Callable[[httpx.Response], None], **request: Any
    ) -> Iterator[tuple[str, Any]]:
        """Yield name and data of each event of a stream; `on_start` gets the reply before the first one."""
        headers = {"Accept": "text/event-stream", **request.pop("headers", {})}
        try:
            with self._http.stream(method, path, headers=headers, **request) as reply:
                if reply.is_error:
                    reply.read()
                    raise _refusal(reply)
                on_start(reply)
                yield from _parse_events(reply.iter_lines())
        except httpx.TransportError as error:
            raise self._gone(error) from error

    def _gone(self, error: Exception) -> Unavailable:
        where = self.place.url or "on this machine"
        return Unavailable(
            f"the server {where} cannot be reached: {str(error) or type(error).__name__}",
            remedy="check the address" if self.place.url else "run the command again; nothing is lost",
        )

    def _remote(self) -> httpx.Client:
        if not (self.place.key.isascii() and self.place.key.isprintable()):
            raise Invalid(
                f"the key in {API_KEY} has characters that no key has",
                remedy="copy it again, as `callsheet keys create` has printed it",
            )
        headers = {"X-Api-Key": self.place.key} if self.place.key else {}
        try:
            return httpx.Client(base_url=self.place.url.rstrip("/"), headers=headers, timeout=_TIMEOUT)
        except (httpx.InvalidURL, ValueError) as error:
            raise Invalid(
                f"{self.place.url!r} is no address: {error}", remedy="such as http://127.0.0.1:2024"
            ) from error

    def _at(self, path: Path) -> httpx.Client:
        # The connection never expires: while it is open, the server knows that somebody is there.
        limits = httpx.Limits(keepalive_expiry=None)
        headers = {OWNER_HEADER: quote(self.place.owner, safe="")} if self.place.owner else {}
        # A socket has no certificate; to read those of the machine takes longer than the request.
        transport = httpx.HTTPTransport(verify=False, uds=str(path), limits=limits)
        return httpx.Client(
            transport=transport, base_url="http://localhost", headers=headers, timeout=_TIMEOUT
        )

    def _local(self) -> httpx.Client:
        sockets = find_sockets(self.place.data_dir)
        connected = self._first_that_answers(sockets)
        return connected or self._start(sockets.private)

    def _first_that_answers(self, sockets: LocalSockets) -> httpx.Client | None:
        for path in sockets:
            if path.exists() and (connected := self._connect(path)):
                return connected
        return None

    def _connect(self, path: Path) -> httpx.Client | None:
        http = self._at(path)
        try:
            http.get("/ok")
        except httpx.TransportError:
            http.close()
            return None
        self._socket = path
        return http

    def _start(self, path: Path) -> httpx.Client:
        """Start a server for the terminals of this user, which ends with the last one."""
        self._say("Starting a server for this terminal; it ends when nobody uses it any more.")
        log = path.with_suffix(".log")
        option = ["--data-dir", str(self.place.data_dir)] if self.place.data_dir else []
        command = [sys.executable, "-m", "callsheet", "serve", "--for-terminals", str(path), *option]
        process = _spawn(command, log)
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if path.exists() and (connected := self._connect(path)):
                return connected
            if code := process.poll():
                raise _failed_start(log)
            if code == 0:
                # It left the place to another server, which may have been about to end.
                process = _spawn(command, log)
            time.sleep(_POLL_S)
        raise _logged_error(log) or Unavailable(
            f"the server has not answered for {_START_S:g} s",
            remedy=f"see its log: {log}, or callsheet doctor",
        )


def is_served(data_dir: Path | None) -> bool:
    """Return whether `callsheet serve` runs on the data that the option or the environment names."""
    path = find_sockets(data_dir).shared
    # A socket has no certificate; to read those of the machine takes longer than the request.
    transport = httpx.HTTPTransport(verify=False, uds=str(path))
    with httpx.Client(transport=transport, base_url="http://localhost", timeout=_ANSWER_S) as http:
        try:
            return path.exists() and http.get("/ok").is_success
        except httpx.TransportError:
            return False


def find_sockets(data_dir: Path | None) -> LocalSockets:
    """Return the sockets for the data that the option or the environment names."""
    data = data_dir or os.environ.get("CALLSHEET_DATA_DIR") or None
    redis_url = None if data_dir else os.environ.get("REDIS_URL") or None
    config = os.environ.get("CALLSHEET_CONFIG") or project_config()
    return local_sockets(
        Path(data) if data else None, redis_url, Path(config) if config else None, os.environ
    )


def _spawn(command: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as output:
        # In a session of its own, so that Ctrl-C in this terminal does not reach it.
        return subprocess.Popen(  # noqa: S603 -- our own command
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )


def _failed_start(log: Path) -> CallsheetError:
    """Return the error of a server that could not start, from its log."""
    lines = log.read_text(errors="replace").splitlines()
    return _logged_error(log) or Broken(
        f"the server cannot start: {lines[-1] if lines else 'no reason given'}", remedy=f"see {log}"
    )


def _logged_error(log: Path) -> CallsheetError | None:
    """Return the error with a remedy that a server has written to its log; None for none."""
    lines = log.read_text(errors="replace").splitlines()
    labelled = {
        label: text.strip()
        for label, text in (line.split(":", 1) for line in lines if ":" in line)
        if label in {"error", "remedy"}
    }
    if "error" in labelled:
        return Invalid(labelled["error"], remedy=labelled.get("remedy", ""))
    return None


def _refusal(reply: httpx.Response) -> CallsheetError:
    try:
        body = reply.json()
    except ValueError:
        body = {}
    if isinstance(body, dict) and isinstance(body.get("detail"), str):
        # As on LangGraph's wire: the rule, and behind it the remedy.
        rule, _, remedy = body["detail"].partition(". ")
        body = {"error": rule.removesuffix("."), "remedy": _fragment(remedy), **body}
    if not isinstance(body, dict) or not (body.get("error") or body.get("message")):
        body = {"error": f"the server answered {reply.status_code} {reply.reason_phrase}"}
    error = ServerRefusal(body, reply.status_code)
    return (
        Missing(error.message, remedy=error.remedy) if reply.status_code == httpx.codes.NOT_FOUND else error
    )


def _fragment(sentence: str) -> str:
    """Return a sentence as it stands behind a label: without its capital letter and full stop."""
    text = sentence.removesuffix(".")
    return text[0].lower() + text[1:] if text[1:2].islower() else text


def _parse_events(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    name, data = "message", ""
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data = f"{data}\n{value}" if data else value
        elif not line and data:
            yield name, json.loads(data)
            name, data = "message", ""
