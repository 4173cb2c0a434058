"""Every route has a policy, and the middleware follows it (X13, X16)."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callsheet.server.app import create_app, routes
from callsheet.server.artefacts.features import FeatureApi
from callsheet.server.artefacts.views import reply_builder
from callsheet.server.console.pages import PATHS
from callsheet.server.engine.permissions import PERMISSIONS
from callsheet.server.http.auth import AuthenticationMiddleware, Authenticator
from callsheet.server.http.errors import error_response
from callsheet.server.http.limits import BodyLimitMiddleware, opens_stream
from callsheet.server.http.outage import StorageOutageMiddleware, StorageProbe
from callsheet.server.http.policy import (
    API_WRITE,
    ErrorForm,
    OnOutage,
    RoutePolicy,
    RoutePolicyMiddleware,
    Streaming,
    get_policy,
    policy_of,
    with_policy,
)
from callsheet.server.http.requests import StrictRoute
from callsheet.server.settings.settings import Settings
from callsheet.state.errors import Broken, Invalid, StorageSilent
from tests.doubles.documented import loaded_app, openapi_document
from tests.doubles.served import app_client, scope_with_policy
from tests.doubles.signing import AUDIENCE, SECRET, shared_secret_token

SETTINGS = Settings(
    auth=("jwt",),
    jwt_secret=SECRET,
    jwt_audience=AUDIENCE,
    max_body_bytes=2_000,
    max_message_bytes=2_000,
    max_import_bytes=5_000,
)
EVENT_STREAM = "text/event-stream"


def served_routes() -> list[BaseRoute]:
    return loaded_app().router.routes


def requests() -> Iterator[tuple[str, str, RoutePolicy]]:
    """Yield method, path and policy of one request per HTTP route; HEAD counts as GET."""
    for route in served_routes():
        for method in sorted({*getattr(route, "methods", ())} - {"HEAD"}):
            yield method, getattr(route, "path", "").replace("{", "").replace("}", ""), policy_of(route)


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 200 after reading the body."""
    while (await receive()).get("more_body"):
        pass
    await JSONResponse({"reached": True})(scope, receive, send)


def client_behind(endpoint: ASGIApp, *middleware: Middleware) -> httpx.AsyncClient:
    """Return a client of an endpoint behind our route policies and this middleware, outermost first."""
    app = endpoint
    for cls, args, options in reversed(middleware):
        app = cls(app, *args, **options)
    app = RoutePolicyMiddleware(app, loaded_app().router.routes)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")


def error_form(reply: httpx.Response) -> str:
    return "langgraph" if set(reply.json()) == {"detail"} else "error" if "error" in reply.json() else "none"


def expected_form(policy: RoutePolicy) -> str:
    return "langgraph" if policy.errors is ErrorForm.LANGGRAPH else "error"


def test_every_route_and_every_documented_operation_has_a_policy() -> None:
    """Each policy names the permission of its route."""
    policies = [policy_of(route) for route in served_routes()]
    assert len(policies) > 140
    served = {(method, path) for method, path, _ in requests()}
    for path, methods in openapi_document()["paths"].items():
        for method in methods:
            assert (method.upper(), path.replace("{", "").replace("}", "")) in served
    assert {policy.permission for policy in policies} == {"public", *PERMISSIONS}


async def test_the_middleware_requires_the_permission_of_the_policy() -> None:
    """Without a token 401; with too little permission 403; both in the route's form (X16)."""
    authentication = Middleware(AuthenticationMiddleware, authenticator=Authenticator(SETTINGS))
    async with client_behind(answer, authentication) as client:
        for method, path, policy in requests():
            anonymous = await client.request(method, path)
            assert anonymous.status_code == (200 if policy.permission == "public" else 401), (method, path)
            if anonymous.status_code == 401:
                assert error_form(anonymous) == expected_form(policy), (method, path)
            for level, permission in enumerate(PERMISSIONS):
                bearer = {"Authorization": f"Bearer {shared_secret_token(scope=permission)}"}
                reply = await client.request(method, path, headers=bearer)
                allowed = policy.permission in {"public", *PERMISSIONS[: level + 1]}
                assert reply.status_code == (200 if allowed else 403), (method, path, permission)


async def test_the_middleware_applies_the_body_limit_of_the_policy() -> None:
    """X13: a body of the limit passes, one byte more is 413 in the route's form."""
    limits = set()
    async with client_behind(answer, Middleware(BodyLimitMiddleware, settings=SETTINGS)) as client:
        for method, path, policy in requests():
            limit = policy.body.read_bytes(SETTINGS)
            limits.add(limit)
            replies = [
                await client.request(method, path, headers={"Content-Length": str(size)}, content=no_bytes())
                for size in (limit, limit + 1)
            ]
            assert [reply.status_code for reply in replies] == [200, 413], (method, path)
            assert f"more than {limit} bytes" in replies[1].text
            assert error_form(replies[1]) == expected_form(policy), (method, path)
    assert {2_000, 5_000} < limits, "the standard limit, the one of imported threads, and larger ones"


async def no_bytes() -> AsyncIterator[bytes]:
    """An empty body, shorter than its Content-Length."""
    for part in (b"",):
        yield part


async def test_errors_have_the_form_of_the_policy() -> None:
    """X13, B31: LangGraph's clients get `detail`, ours `error`, and a broken lesson its own wording."""

    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        error = ZeroDivisionError() if b"bug" in scope["query_string"] else Invalid("wrong", remedy="right")
        await error_response(error)(scope, receive, send)

    async with client_behind(fail) as client:
        for method, path, policy in requests():
            invalid, bug = await client.request(method, path), await client.request(method, f"{path}?bug")
            assert error_form(invalid) == error_form(bug) == expected_form(policy), (method, path)
            assert invalid.status_code == 422
            is_lesson = policy.errors is ErrorForm.LESSON
            assert ("Failed to process request" in bug.text) is is_lesson, (method, path)


def test_the_policy_and_openapi_agree_on_which_routes_stream() -> None:
    """Open streams are counted, other requests are not."""
    spec, streams = openapi_document()["paths"], 0
    for route in served_routes():
        path, policy = getattr(route, "path", ""), policy_of(route)
        methods = getattr(route, "methods", None)
        scope = {"type": "http", "method": min(methods), "path": path} if methods else {"type": "websocket"}
        accepting = [(b"accept", EVENT_STREAM.encode())]
        plain, accepted = (
            opens_stream(scope_with_policy({"path": path, **scope, "headers": headers}))
            for headers in ([(b"accept", b"*/*")], accepting)
        )
        assert (plain, accepted) == {
            Streaming.NEVER: (False, False),
            Streaming.IF_ACCEPTED: (False, True),
            Streaming.ALWAYS: (True, True),
        }[policy.streaming], path
        if methods is None:
            assert policy.streaming is Streaming.ALWAYS, path
        elif operation := spec.get(path, {}).get(min(methods).lower()):
            content = operation["responses"].get("200", {}).get("content", {})
            assert (EVENT_STREAM in content) is (policy.streaming is not Streaming.NEVER), path
            streams += policy.streaming is not Streaming.NEVER
    assert streams > 10


class NoStorage(StorageProbe):
    """A probe that finds storage away."""

    def __init__(self) -> None:
        """Probe nothing."""

    async def unavailable_reason(self) -> StorageSilent:
        return StorageSilent("storage did not answer")


async def test_during_an_outage_of_storage_the_policy_decides_between_503_and_report() -> None:
    """X13: 503 for a request that waits for storage; monitoring reports the outage itself."""

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        reports = get_policy(scope).on_outage is OnOutage.REPORT
        await asyncio.sleep(0.1 if reports else 30)
        await answer(scope, receive, send)

    outage = Middleware(StorageOutageMiddleware, probe=NoStorage, patience_s=0.06)
    async with client_behind(wait, outage) as client:
        sent = list(requests())
        replies = await asyncio.gather(*(client.request(method, path) for method, path, _ in sent))
    for (method, path, policy), reply in zip(sent, replies, strict=True):
        reports = policy.on_outage is OnOutage.REPORT
        assert reply.status_code == (200 if reports else 503), (method, path)
    reporting = {path for _, path, policy in sent if policy.on_outage is OnOutage.REPORT}
    pages = {path.replace("{", "").replace("}", "") for path in PATHS}
    assert reporting == {"/ok", "/ready", "/health", "/metrics", "/console/path:path", *pages}


async def endpoint_without_policy() -> dict[str, bool]:
    """An endpoint that nobody gave a policy."""
    return {"reached": True}


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_route_without_a_policy_is_refused_by_its_name(method: str) -> None:
    with pytest.raises(Broken, match=rf"route '{method} /api/new' has no policy"):
        policy_of(StrictRoute("/api/new", endpoint_without_policy, methods=[method]))


def test_a_feature_with_a_route_without_a_policy_is_not_loaded() -> None:
    router = APIRouter(prefix="/api/menus", route_class=StrictRoute)
    router.get("/{menu_id}")(endpoint_without_policy)
    feature = FeatureApi(routers=(router,), reply_builder=reply_builder)
    with pytest.raises(Broken, match=r"route 'GET /api/menus/{menu_id}' has no policy"):
        routes({"menu_writer": feature})


async def test_a_request_to_a_route_without_a_policy_is_500() -> None:
    app: FastAPI = create_app(Settings())
    app.add_api_route("/api/new", endpoint_without_policy)
    async with app_client(app) as client:
        reply = await client.get("/api/new")
    assert reply.status_code == 500
    assert "'GET /api/new' has no policy" in reply.json()["error"]
    assert "with_policy" in reply.json()["remedy"]


@pytest.mark.parametrize(
    ("method", "path", "permission", "form"),
    [
        ("GET", "/nothing", "read", ErrorForm.API),
        ("POST", "/nothing", "write", ErrorForm.API),
        ("GET", "/threads/t/nothing/there", "read", ErrorForm.LANGGRAPH),
        ("DELETE", "/threads/t/nothing/there", "write", ErrorForm.LANGGRAPH),
        ("GET", "/api/nothing", "read", ErrorForm.API),
        ("PUT", "/threads/search", "write", ErrorForm.LANGGRAPH),
        ("GET", "/threads/t/runs/wait/", "read", ErrorForm.LANGGRAPH),
        ("POST", "/threads/search/", "read", ErrorForm.LANGGRAPH),
        ("DELETE", "/metrics", "admin", ErrorForm.LANGGRAPH),
        ("DELETE", "/ok", "public", ErrorForm.API),
    ],
)
def test_a_request_without_a_route_needs_the_permission_of_its_method(
    method: str, path: str, permission: str, form: ErrorForm
) -> None:
    """Its errors have the form of the nearest routes."""
    policy = get_policy(scope_with_policy({"type": "http", "method": method, "path": path}))
    assert (policy.permission, policy.errors) == (permission, form)


def test_a_request_without_a_looked_up_policy_needs_write() -> None:
    assert get_policy({"type": "http"}) == API_WRITE


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("/threads/a%2Fb", "/threads/a%2Fb"),
        ("/threads/a%20b", "/threads/a b"),
        ("/threads/a%252Fb", "/threads/a%252Fb"),
        ("/threads/%C3%A9", "/threads/é"),
        ("/threads/a", "/threads/a"),
    ],
)
def test_an_encoded_slash_in_an_id_does_not_separate_path_segments(raw: str, path: str) -> None:
    scope = scope_with_policy(
        {"type": "http", "method": "GET", "path": "/threads/a", "raw_path": raw.encode()}
    )
    assert scope["path"] == path
    assert get_policy(scope).errors is ErrorForm.LANGGRAPH


def test_an_application_mounted_under_a_prefix_has_the_same_policies() -> None:
    scope = scope_with_policy({"type": "http", "method": "GET", "path": "/x/metrics", "root_path": "/x"})
    assert get_policy(scope).permission == "admin"


async def test_a_client_that_disconnects_within_its_body_gets_400() -> None:
    parts: list[Message] = [{"type": "http.request", "body": b'{"cou', "more_body": True}]
    sent: list[Message] = []

    async def receive() -> Message:
        return parts.pop() if parts else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    @with_policy(API_WRITE)
    async def write(body: dict[str, Any]) -> Any:
        return json.dumps(body)

    app = FastAPI()
    app.router.routes.append(StrictRoute("/new", write, methods=["POST"]))
    scope = {"type": "http", "method": "POST", "path": "/new", "headers": [], "query_string": b""}
    await app(scope, receive, send)
    assert sent[0]["status"] == 400
