"""The feature of `fact_narration`."""

from typing import Final

from callsheet.server.features import Feature
from callsheet.server.lessons.command import lesson

FEATURE: Final = Feature(title="lessons", command=lesson, api="callsheet.server.lessons.api")
