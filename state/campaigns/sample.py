"""The bundled sample library: invented campaigns of invented brands over 18 months."""

from functools import cache
from importlib.resources import files
from typing import Final

from callsheet.state.campaigns.campaign import Campaign

FILE: Final = "sample.jsonl"


@cache
def sample_campaigns() -> tuple[Campaign, ...]:
    """Return the sample campaigns."""
    text = files("callsheet.state.campaigns").joinpath(FILE).read_text(encoding="utf-8")
    return tuple(Campaign.model_validate_json(line) for line in text.splitlines())
