"""Questions to model servers at the start: an Ollama on this machine, and the size of a local model."""

import json
import re
import time
from collections.abc import Iterable, Mapping, MutableMapping
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

LIMIT_S: Final = 0.3
"""Longest duration of the search."""
_PORT: Final = 11434
SMALL: Final = 14.0
"""Billions of parameters of the largest model that is offered few tools."""
_SIZE: Final = re.compile(r"(?<![\d.])(\d{1,4}(?:\.\d{1,3})?)\s?([bm])(?![a-z])", re.IGNORECASE)
"""A model's size in its name: 1.5b, 8B, 270m. A number of experts' parameters comes later."""
_FAULTS: Final = (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError)
"""The server does not run, it is too slow, or something else listens there."""


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


def find_profile(environ: MutableMapping[str, str], prefix: str) -> None:
    """Set `<prefix>_PROFILE` by the size on the server's own card of a model whose name has none.

    Nothing is asked where the profile is set, or no model is; nothing is set where the server has no card, is
    too slow, or does not run.
    """
    model = environ.get(f"{prefix}_MODEL", "").strip()
    if not model or environ.get(f"{prefix}_PROFILE", "").strip() or size_in(model) is not None:
        return
    deadline = time.monotonic() + LIMIT_S
    try:
        if prefix == "OLLAMA":
            card = _request(f"{ollama_url(environ)}/api/show", model, deadline)
            size = size_in(str(card["details"]["parameter_size"]))
        else:
            url = environ.get(f"{prefix}_BASE_URL", "").strip().rstrip("/")
            cards = _request(f"{url}/models", None, deadline, environ.get(f"{prefix}_API_KEY", "").strip())
            size = next(one for one in cards["data"] if one["id"] == model)["meta"]["n_params"] / 1e9
    except (*_FAULTS, StopIteration):
        return
    if size is not None:
        environ[f"{prefix}_PROFILE"] = "lean" if size <= SMALL else "full"


def size_in(name: str) -> float | None:
    """Return the billions of parameters that a model's name or card states; None if it states none."""
    size = _SIZE.search(name)
    if size is None:
        return None
    return float(size[1]) / (1000 if size[2].casefold() == "m" else 1)


def _first_model_with_tools(url: str, deadline: float) -> str:
    try:
        for entry in _request(f"{url}/api/tags", None, deadline)["models"]:
            shown = entry if "capabilities" in entry else _request(f"{url}/api/show", entry["name"], deadline)
            if "tools" in shown.get("capabilities", ()):
                return str(entry["name"])
    except _FAULTS:
        return ""
    return ""


def _request(url: str, model: str | None, deadline: float, key: str = "") -> Any:
    body = None if model is None else json.dumps({"model": model}).encode()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    # A proxy would see requests for this machine.
    with build_opener(ProxyHandler({})).open(Request(url, body, headers), timeout=left_s) as reply:  # noqa: S310
        return json.load(reply)
