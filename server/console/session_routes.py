"""The session of the page: who is signed in, what the server serves, and which model answers."""

import os
import uuid
from typing import Any, Final, Literal

from fastapi import Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from callsheet import providers
from callsheet.providers import OFFLINE, PROVIDERS
from callsheet.providers.routing import RoutingRequest, outages, route
from callsheet.server.http import sessions
from callsheet.server.http.auth import get_caller
from callsheet.server.http.context import AppContext, app_context
from callsheet.server.http.errors import documented_responses
from callsheet.server.http.policy import RoutePolicy, with_policy
from callsheet.server.http.requests import api_router
from callsheet.server.settings.installation import installed_version
from callsheet.state.errors import Conflict, Limited
from callsheet.storage import Storage, rate_limits

MAX_SIGN_INS: Final = 20
"""Most failed attempts to sign in from one address in a minute."""
_MAX_KEY: Final = 8_192
_PUBLIC: Final = RoutePolicy("public")

router = api_router("/api/session", "console")


class SignIn(BaseModel):
    """The API key that a session is created with."""

    key: str = Field(max_length=_MAX_KEY)


class SessionUser(BaseModel):
    """The caller."""

    owner: str
    permissions: list[str]
    name: str


class SessionModel(BaseModel):
    """The model that answers a request that chooses none."""

    provider: str
    name: str = Field(description="For people")
    reason: str = Field(description="Empty until signed in")
    offline: bool = Field(description="True for the small demonstration model without a network")


class SessionWorkflow(BaseModel):
    """A served graph."""

    name: str
    title: str
    description: str
    examples: list[str] = Field(description="First requests that the model of now answers")


class ConsoleSession(BaseModel):
    """State of the page's session."""

    auth: Literal["none", "keys", "jwt"] = Field(description="`keys` if keys or tokens sign in")
    signedIn: bool
    user: SessionUser | None
    version: str
    model: SessionModel
    workflows: list[SessionWorkflow] = Field(description="None until signed in")


@router.get("", responses=documented_responses(403, 500, 503, 504, reply=ConsoleSession))
@with_policy(RoutePolicy("public", identifies=True))
async def show_session(request: Request) -> ConsoleSession:
    """Show the signed-in user, the served workflows, and the model that answers now."""
    ctx, caller = app_context(request), get_caller(request.scope)
    user = (
        SessionUser(owner=caller.owner, permissions=sorted(caller.permissions), name=caller.name)
        if caller.owner
        else None
    )
    return ConsoleSession(
        auth="keys" if "keys" in ctx.settings.auth else "jwt" if ctx.settings.auth else "none",
        signedIn=user is not None,
        user=user,
        version=installed_version(),
        model=_model(explain=user is not None),
        workflows=_workflows(ctx) if user else [],
    )


@router.post(
    "",
    status_code=204,
    response_class=Response,
    responses=documented_responses(400, 401, 403, 409, 422, 429, 500, 503, 504, reply=None, status=204),
)
@with_policy(_PUBLIC)
async def sign_in(body: SignIn, request: Request) -> Response:
    """Create a session of an API key: a cookie for pages of this server that ends with the key."""
    ctx = app_context(request)
    if "keys" not in ctx.settings.auth:
        raise Conflict(
            "this server has no API keys to sign in with",
            remedy="set CALLSHEET_AUTH=keys, or open the page as it is",
        )
    sessions.require_own_page(request.scope)
    address, attempt = request.client.host if request.client else "local", uuid.uuid4().hex
    # Counted before the key is read, so that simultaneous attempts count too.
    await _count_attempt(ctx.storage, address, attempt)
    token = await sessions.create_session(ctx.storage, body.key.strip())
    await rate_limits.forget_sign_in(ctx.storage, address, attempt)
    reply = Response(status_code=204)
    _set_cookie(reply, request, token, sessions.LIFETIME_S)
    return reply


@router.delete(
    "",
    status_code=204,
    response_class=Response,
    responses=documented_responses(403, 500, 503, 504, reply=None, status=204),
)
@with_policy(_PUBLIC)
async def sign_out(request: Request) -> Response:
    """Delete the session. Twice is safe."""
    if token := sessions.session_token(request.scope):
        sessions.require_own_page(request.scope)
        await sessions.end_session(app_context(request).storage, token)
    reply = Response(status_code=204)
    _set_cookie(reply, request, "", 0)
    return reply


def _set_cookie(reply: Response, request: Request, token: str, age_s: int) -> None:
    origin = request.headers.get("origin", "")
    is_encrypted = request.url.scheme == "https" or origin.startswith("https://")
    reply.set_cookie(
        sessions.COOKIE, token, max_age=age_s, secure=is_encrypted, httponly=True, samesite="strict"
    )
    reply.headers["Cache-Control"] = "no-store"


async def _count_attempt(storage: Storage, address: str, attempt: str) -> None:
    count = await rate_limits.count_sign_in(storage, address, attempt, MAX_SIGN_INS)
    if not count.allowed:
        error = Limited(
            f"more than {MAX_SIGN_INS} failed attempts to sign in within a minute",
            remedy=f"wait {count.retry_after_s} s",
        )
        error.retry_after_s = count.retry_after_s
        raise error


def _model(*, explain: bool) -> SessionModel:
    chosen = route(RoutingRequest(), providers.with_key(os.environ), failed=outages().current())
    return SessionModel(
        provider=chosen.provider,
        name=PROVIDERS[chosen.provider].title,
        reason=chosen.reason if explain else "",
        offline=chosen.provider == OFFLINE,
    )


def _workflows(ctx: AppContext) -> list[SessionWorkflow]:
    return [_workflow(ctx, name) for name in ctx.graphs]


def _workflow(ctx: AppContext, name: str) -> SessionWorkflow:
    spec: Any = ctx.workflows.specs.get(name)
    return SessionWorkflow(
        name=name,
        title=spec.title if spec and spec.title else name,
        description=ctx.options.descriptions.get(name) or (spec.about if spec else ""),
        examples=list(spec.examples) if spec else [],
    )
