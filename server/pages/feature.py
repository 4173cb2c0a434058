"""The feature of `page_builder`."""

from typing import Final

from callsheet.server.features import Feature
from callsheet.server.pages.command import page

FEATURE: Final = Feature(title="landing pages", command=page, api="callsheet.server.pages.api")
