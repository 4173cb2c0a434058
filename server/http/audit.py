"""Entries of the audit for requests: deletions, and what a route declares."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callsheet.server.http.policy import get_policy
from callsheet.server.telemetry.audit import record_action

_DELETION: Final = "delete"
_ERRORS_FROM: Final = 400
_MAX_TARGET: Final = 500


class AuditMiddleware:
    """Records each action that has succeeded, before its reply is sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        action = _action(scope) if scope["type"] == "http" else ""
        await self._app(scope, receive, _record_success(action, scope, send) if action else send)


def _action(scope: Mapping[str, Any]) -> str:
    """Return the action that a request asks for; empty for one that the audit does not record."""
    policy = get_policy(scope)
    deletes = scope["method"] == "DELETE" and policy.permission != "public"
    return policy.audit or (_DELETION if deletes else "")


def _record_success(action: str, scope: Scope, send: Send) -> Send:
    async def send_recorded(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < _ERRORS_FROM:
            query = scope.get("query_string", b"").decode("latin-1")
            details = {"query": query[:_MAX_TARGET]} if query else {}
            target = f"{scope['method']} {scope['path'][:_MAX_TARGET]}"
            await record_action(scope["app"].state.context.storage, action, target, details)
        await send(message)

    return send_recorded
