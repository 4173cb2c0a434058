"""The feature of `ad_creation`."""

from typing import Final

from callsheet.server.ads.command import ad
from callsheet.server.features import Feature

FEATURE: Final = Feature(title="audio ads", command=ad, api="callsheet.server.ads.api")
