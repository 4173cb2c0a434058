"""Every setting with its value, without secrets, and the place that it comes from."""

import os
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from dotenv import dotenv_values
from pydantic import SecretStr

from callsheet.server.settings.settings import (
    ENV_FILE,
    Settings,
    read_settings,
    unknown_variables,
    variable_name,
)
from callsheet.server.settings.variables import OWN_NAMES, SECRETS, SUFFIX
from callsheet.storage.redis import address

HIDDEN: Final = "(hidden)"
_SECRET: Final = re.compile(r"\A(?:.*_)?(?:KEY|SECRET|PASSWORD|TOKEN|HEADERS)(?:_.*)?\Z")
_SECRET_PARAMETERS: Final = ("pass", "pwd", "token", "key", "secret", "sig", "auth", "credential")
"""Parts of the names of query parameters whose values are hidden."""
_SEPARATORS: Final = re.compile(r"([?&;#])")


class SettingSource(NamedTuple):
    """One setting."""

    name: str
    """Its variable."""
    value: str
    """Secrets are hidden; empty for none."""
    source: str
    """`default`, `environment`, `.env`, or the file of a secret."""


class Configuration(NamedTuple):
    """All settings of the program, and variables that look like settings."""

    settings: list[SettingSource]
    """Those of the server in their order, then those of vendors and other parts that are set."""
    unknown: list[str]
    """A sentence for each variable that is none."""


def read_configuration(environ: Mapping[str, str] = os.environ) -> Configuration:
    """Return the settings as a server that starts here has them; raises `Invalid` for a wrong one."""
    settings = read_settings()
    env_file = {name.upper(): value for name, value in dotenv_values(ENV_FILE).items()}
    known = {variable_name(field): getattr(settings, field) for field in Settings.model_fields}
    lines = [
        SettingSource(name, _shown(name, value), _source(name, environ, env_file))
        for name, value in known.items()
    ]
    others = sorted(name for name in environ if name not in known and OWN_NAMES.match(name))
    lines += [
        SettingSource(name, _shown(name, environ[name]), _source(name, environ, env_file))
        for name in others
        if environ[name] and not name.endswith(SUFFIX)
    ]
    return Configuration(lines, unknown_variables(environ))


def _source(name: str, environ: Mapping[str, str], env_file: Mapping[str, str | None]) -> str:
    if place := environ.get(name + SUFFIX, "").strip():
        return place
    if not environ.get(name):
        return "default"
    return ENV_FILE if (env_file.get(name) or "").strip() == environ[name] else "environment"


def _shown(name: str, value: Any) -> str:
    if value in (None, "", ()):
        return ""
    text = _text(value)
    is_url = "://" in text
    if isinstance(value, SecretStr) or _SECRET.match(name) or (name in SECRETS and not is_url):
        return HIDDEN
    return _redact(text) if is_url else text


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _redact(url: str) -> str:
    """Return a URL without user and password, and without the values of parameters that are secret."""
    return "".join(map(_redact_parameter, _SEPARATORS.split(address.redact(url))))


def _redact_parameter(part: str) -> str:
    name, equals, _ = part.partition("=")
    is_secret = any(word in name.lower() for word in _SECRET_PARAMETERS)
    return f"{name}={HIDDEN}" if equals and is_secret else part
