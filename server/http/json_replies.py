"""Replies of any value as JSON."""

from typing import Any

from starlette.responses import JSONResponse

from callsheet.server.engine.json_values import dumps


class JsonReply(JSONResponse):
    """A reply of any value as JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return `content` as JSON."""
        return dumps(content)
