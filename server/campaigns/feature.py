"""The feature of `campaign_search`."""

from typing import Final

from callsheet.server.campaigns.command import ask
from callsheet.server.features import Feature

FEATURE: Final = Feature(title="campaign questions", command=ask, api="callsheet.server.campaigns.api")
