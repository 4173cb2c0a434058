"""The feature of `scene_edit`."""

from typing import Final

from callsheet.server.features import Feature
from callsheet.server.video.command import scenes

FEATURE: Final = Feature(title="videos", command=scenes, api="callsheet.server.video.api")
