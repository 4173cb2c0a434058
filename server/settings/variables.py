"""Environment variables of the program: their names, and secrets in files.

`NAME_FILE` names the file with the secret `NAME`, as Docker and Kubernetes mount it.
"""

import re
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from callsheet.providers import PROVIDERS, vendor_prefixes
from callsheet.state.errors import Invalid

SUFFIX: Final = "_FILE"
SECRETS: Final = (
    "REDIS_URL",
    "CALLSHEET_JWT_SECRET",
    "CALLSHEET_WEBHOOK_SECRET",
    "CALLSHEET_CAMPAIGNS_URL",
    "CALLSHEET_EMBEDDINGS_KEY",
    "CALLSHEET_SEARCH_KEY",
    "GOOGLE_SEARCH_KEY",
    "SPEECH_API_KEY",
    "AZURE_SPEECH_KEY",
    "GOOGLE_TTS_KEY",
    *(f"{one.key.partition('_')[0]}_API_KEY" for one in PROVIDERS.values() if one.key),
)
"""Variables that may be in files."""


_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
OWN_NAMES: Final = re.compile(
    rf"\A(?:CALLSHEET_|REDIS_URL|OTEL_|SPEECH_|AZURE_SPEECH_|GOOGLE_TTS_|GOOGLE_SEARCH_|XDG_DATA_HOME|"
    rf"(?:{'|'.join(vendor_prefixes())})_)"
)
"""Beginning of the names of variables that are read."""


def normalise_variables(environ: MutableMapping[str, str]) -> None:
    """Give variables of this program their names in capitals, and their values without spaces around them.

    One that is set in capitals too stays as it is. Twice is safe.
    """
    for name in [*environ]:
        capitals = name.upper()
        if OWN_NAMES.match(capitals) and (name == capitals or capitals not in environ):
            environ[capitals] = environ[name].strip()


def keep_loopback_from_proxies(environ: MutableMapping[str, str]) -> None:
    """Name this machine in `NO_PROXY` if there is a proxy, which cannot reach what listens here.

    Twice is safe.
    """
    if not any(environ.get(spelling) for name in _PROXIES for spelling in (name, name.lower())):
        return
    listed = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    names = [name.strip() for name in listed.split(",") if name.strip()]
    if "*" not in names:
        names += [name for name in _LOOPBACK if name not in names]
    environ["NO_PROXY"] = environ["no_proxy"] = ",".join(names)


def read_secret_files(environ: MutableMapping[str, str]) -> None:
    """Read the files of secrets into the environment; twice is safe.

    Raises `Invalid` for a file that cannot be read or is empty, and for a secret that is also set otherwise.
    """
    for name in SECRETS:
        if place := environ.get(name + SUFFIX, "").strip():
            text = _read(name + SUFFIX, Path(place).expanduser())
            if environ.get(name, "").strip() not in {"", text}:
                raise Invalid(f"{name} and {name}{SUFFIX} are both set", remedy="remove one of them")
            environ[name] = text


def _read(name: str, file: Path) -> str:
    try:
        text = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise Invalid(
            f"{name} names {str(file)!r}, which cannot be read: {reason}", remedy=f"correct {name}"
        ) from error
    if not text:
        raise Invalid(f"{name} names {str(file)!r}, which is empty", remedy="put the secret into it")
    return text
