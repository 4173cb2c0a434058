"""Search for a model server on this machine: Ollama at its usual address, when no key is set."""

import json
import time
from collections.abc import Iterable, Mapping, MutableMapping
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

LIMIT_S: Final = 0.3
"""Longest duration of the search."""
_PORT: Final = 11434


def find_ollama(environ: MutableMapping[str, str], settings: Iterable[str]) -> None:
    """Set `OLLAMA_MODEL` to the first model of a running Ollama that can call tools.

    `settings` are the variables that make another provider available; nothing is asked where one of them is
    set, where `OLLAMA_MODEL` is, or where `OLLAMA_DISCOVERY` is off.
    """
    off = environ.get("OLLAMA_DISCOVERY", "").strip().casefold() in {"off", "0", "false", "no"}
    if off or any(environ.get(name, "").strip() for name in settings):
        return
    if model := _first_model_with_tools(ollama_url(environ), time.monotonic() + LIMIT_S):
        environ["OLLAMA_MODEL"] = model


def ollama_url(environ: Mapping[str, str]) -> str:
    """Return the address in `OLLAMA_HOST`, which Ollama lets one write without scheme or port."""
    host = environ.get("OLLAMA_HOST", "").strip().rstrip("/") or "127.0.0.1"
    parts = urlsplit(host if "://" in host else f"http://{host}")
    name = "127.0.0.1" if parts.hostname in {None, "0.0.0.0"} else parts.hostname  # noqa: S104 -- not bound
    shown = f"[{name}]" if ":" in str(name) else name
    return f"{parts.scheme}://{shown}:{parts.port or (443 if parts.scheme == 'https' else _PORT)}"


def _first_model_with_tools(url: str, deadline: float) -> str:
    try:
        for entry in _request(f"{url}/api/tags", None, deadline)["models"]:
            shown = entry if "capabilities" in entry else _request(f"{url}/api/show", entry["name"], deadline)
            if "tools" in shown.get("capabilities", ()):
                return str(entry["name"])
    except (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError):
        # It does not run, it is too slow, or something else listens there.
        return ""
    return ""


def _request(url: str, model: str | None, deadline: float) -> Any:
    body = None if model is None else json.dumps({"model": model}).encode()
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    # A proxy would see requests for this machine.
    with build_opener(ProxyHandler({})).open(Request(url, body), timeout=left_s) as reply:  # noqa: S310
        return json.load(reply)
