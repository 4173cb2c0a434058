"""Policies of routes: permission, body limit, error form, streaming, and behaviour during an outage.

A route's policy is declared on its endpoint, and the middleware follows it. Without a policy, a route is not
served.
"""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Literal, TypeVar

from starlette.routing import BaseRoute

from callsheet.server.settings import Settings
from callsheet.state.errors import Broken

Permission = Literal["public", "read", "write", "admin"]
"""Permission that a request needs; `public` needs no credential."""
_ATTRIBUTE: Final = "route_policy"
_SCOPE_KEY: Final = "callsheet.policy"
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


class ErrorForm(Enum):
    """Form of error bodies."""

    API = "api"
    """`error`, `type`, and `remedy`, `details` and `retryAfterSeconds` where they help."""
    LESSON = "lesson"
    """The same; an unexpected error has the wording of B31."""
    LANGGRAPH = "langgraph"
    """`detail` alone, as LangGraph's clients expect; a value that breaks a rule is 422."""


class Streaming(Enum):
    """Requests that open a stream, which is counted for its owner."""

    NEVER = "never"
    IF_ACCEPTED = "if accepted"
    """Requests whose Accept header names `text/event-stream`."""
    ALWAYS = "always"


class OnOutage(Enum):
    """Behaviour while storage does not answer."""

    REFUSE = "refuse"
    """503 once a request has waited for storage in vain."""
    REPORT = "report"
    """The endpoint reports the outage itself, for monitoring: its requests are never refused or counted."""


@dataclass(frozen=True)
class BodyLimit:
    """Largest body of a request."""

    max_bytes: int | Callable[[Settings], int]
    """The number, or the function that reads it from the settings."""
    remedy: str = "send less"
    """Remedy in the error."""

    def read_bytes(self, settings: Settings) -> int:
        """Return the limit in bytes."""
        return self.max_bytes if isinstance(self.max_bytes, int) else self.max_bytes(settings)


STANDARD_BODY: Final = BodyLimit(
    lambda settings: settings.max_body_bytes, "send less, or raise CALLSHEET_MAX_BODY_BYTES"
)


@dataclass(frozen=True)
class RoutePolicy:
    """Treatment of a route's requests before they reach the endpoint, and of its errors."""

    permission: Permission
    errors: ErrorForm = ErrorForm.API
    body: BodyLimit = STANDARD_BODY
    streaming: Streaming = Streaming.NEVER
    on_outage: OnOutage = OnOutage.REFUSE
    cancels_on_disconnect: bool = False
    """True if the query parameter `cancel_on_disconnect` raises the permission to `write`."""
    before_loading: bool = False
    """True if requests are answered while the workflows are still loaded."""


API_READ: Final = RoutePolicy("read")
API_WRITE: Final = RoutePolicy("write")
API_RUN: Final = RoutePolicy("write", streaming=Streaming.IF_ACCEPTED)
LESSON_READ: Final = RoutePolicy("read", errors=ErrorForm.LESSON)
LESSON_WRITE: Final = RoutePolicy("write", errors=ErrorForm.LESSON)
LESSON_RUN: Final = RoutePolicy("write", errors=ErrorForm.LESSON, streaming=Streaming.IF_ACCEPTED)
LANGGRAPH_READ: Final = RoutePolicy("read", errors=ErrorForm.LANGGRAPH)
LANGGRAPH_WRITE: Final = RoutePolicy("write", errors=ErrorForm.LANGGRAPH)
LANGGRAPH_READ_STREAM: Final = replace(LANGGRAPH_READ, streaming=Streaming.ALWAYS)
LANGGRAPH_WRITE_STREAM: Final = replace(LANGGRAPH_WRITE, streaming=Streaming.ALWAYS)
_UNKNOWN: Final = API_WRITE


def with_policy(policy: RoutePolicy) -> Callable[[_Endpoint], _Endpoint]:
    """Declare the policy of an endpoint's routes; written between the route's decorator and the function."""

    def declare(endpoint: _Endpoint) -> _Endpoint:
        setattr(endpoint, _ATTRIBUTE, policy)
        return endpoint

    return declare


def policy_of(route: BaseRoute) -> RoutePolicy:
    """Return the policy of a route; raises `Broken` for a route without one."""
    policy = getattr(getattr(route, "endpoint", None), _ATTRIBUTE, None)
    if not isinstance(policy, RoutePolicy):
        raise Broken(
            f"route {_route_name(route)} has no policy, so it is not served",
            remedy="declare it: put @with_policy(API_READ), or another policy, on the endpoint",
        )
    return policy


def get_policy(scope: Mapping[str, Any]) -> RoutePolicy:
    """Return the policy that a request follows; before `set_policy`, that of a route that writes."""
    policy = scope.get(_SCOPE_KEY)
    return policy if isinstance(policy, RoutePolicy) else _UNKNOWN


def set_policy(scope: MutableMapping[str, Any], policy: RoutePolicy) -> None:
    """Store the policy that a request follows in its scope."""
    scope[_SCOPE_KEY] = policy


def _route_name(route: BaseRoute) -> str:
    methods = "/".join(sorted(getattr(route, "methods", None) or ()))
    return repr(f"{methods} {getattr(route, 'path', type(route).__name__)}".strip())
