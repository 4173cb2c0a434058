"""The settings of one vendor, read from the environment."""

import difflib
from collections.abc import Mapping
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, Json, SecretStr, ValidationError

from callsheet.state.errors import Invalid


class VendorSettings(BaseModel):
    """One vendor's settings. Each field is the variable `<PREFIX>_<FIELD>`, such as `OPENAI_TIMEOUT_S`."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, str_strip_whitespace=True)

    api_key: SecretStr = SecretStr("")
    base_url: str = ""
    """Empty for the vendor's own."""
    model: str = ""
    """Empty for the vendor's default."""
    name: str = ""
    """Name in messages; empty for the vendor's own."""
    temperature: float | None = Field(None, ge=0, le=2)
    max_output_tokens: int | None = Field(None, ge=1)
    context_tokens: int | None = Field(None, ge=1)
    """Tokens that a request may have; a longer conversation is shortened before it is sent."""
    reasoning_effort: str = ""
    """As the vendor spells it, such as `low`."""
    thinking: bool | None = None
    """Turns thinking on or off where a model can do both."""
    responses: bool | None = None
    """OpenAI's Responses API for models that reason; unset: at OpenAI's own address alone."""
    extra_body: Json[dict[str, Any]] = Field(default_factory=dict, validate_default=False)
    """Further fields of every request, as a JSON object."""
    timeout_s: float | None = Field(None, ge=0.001)
    """Limit for an answer or, in a stream, for its next chunk."""
    max_retries: int = Field(2, ge=0)
    """Attempts after the first."""
    patience_s: float | None = Field(None, ge=0)
    """Longest wait that a vendor may ask for before another attempt, and longest wait for `concurrency`."""

    concurrency: int = Field(0, ge=0)
    """Calls at once of all processes; 0 for no limit."""
    tokens_per_minute: int = Field(0, ge=0)
    """Tokens a minute of all processes; 0 for no limit."""
    profile: Literal["", "full", "lean"] = ""
    """All tools, or few and flat ones for a small model; unset: by the model's name and its first turns."""

    @classmethod
    def read(cls, prefix: str, environ: Mapping[str, str]) -> Self:
        """Return the settings in `environ`; an empty one is not set. Raises `Invalid` for a wrong one."""
        names = {field: f"{prefix}_{field.upper()}" for field in cls.model_fields}
        given = {field: text for field, name in names.items() if (text := environ.get(name, "").strip())}
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            fault = error.errors()[0]
            field = str(fault["loc"][0])
            rule = fault["msg"][0].lower() + fault["msg"][1:]
            raise Invalid(f"{names[field]} is {given[field]!r}: {rule}", remedy="correct it") from None


_ALIKE: Final = 0.85
"""Likeness of a name to a setting's from which on it is misspelt; vendors' own programs read others."""


def misspelt_settings(prefix: str, environ: Mapping[str, str]) -> list[str]:
    """Return a sentence for each variable that looks like a setting of the vendor and is none."""
    known = [f"{prefix}_{field.upper()}" for field in VendorSettings.model_fields]
    others = {*known, f"{prefix}_API_KEY_FILE"}
    unknown = sorted(name for name in environ if name.startswith(f"{prefix}_") and name not in others)
    alike = {name: difflib.get_close_matches(name, known, 1, _ALIKE) for name in unknown}
    return [f"{name} is no setting and is ignored; is it {near[0]}?" for name, near in alike.items() if near]
