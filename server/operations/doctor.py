"""What keeps the program from working here, or may one day: looked at part by part, each with a remedy."""

import asyncio
import json
import os
import re
import shutil
import sys
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final, Literal

from callsheet import providers, storage
from callsheet.providers.routing import Request, route
from callsheet.server import bootstrap
from callsheet.server.http import origins, serving
from callsheet.server.http.auth import Authenticator
from callsheet.server.operations import tracing
from callsheet.server.runtime import tool_policy
from callsheet.server.runtime.graphs_file import read_graphs_file
from callsheet.server.settings import Settings
from callsheet.state.errors import CallsheetError, Conflict
from callsheet.storage import Storage
from callsheet.storage.embedded import folders
from callsheet.storage.redis import health
from callsheet.storage.redis.health import ServerHealth
from callsheet.tools.guard.policy import ALL_TOOLS

Status = Literal["ok", "warn", "fail"]
_PATIENCE_S: Final = 5.0
_LITTLE_BYTES: Final = 500 * 2**20
_NOTHING_BYTES: Final = 50 * 2**20
_SLOW_S: Final = 0.1
_CLOCKS_APART_S: Final = 5.0
_NAMED: Final = ("langgraph", "langchain-core", "fastapi", "redis")
"""Libraries whose versions people are asked for."""


@dataclass(frozen=True)
class Finding:
    """What was found of one part."""

    part: str
    status: Status
    message: str
    remedy: str = ""


async def diagnose(settings: Settings, environment: Mapping[str, str]) -> list[Finding]:
    """Return what is found of every part, in the order in which the server needs them.

    Nothing is changed but that an embedded server may start and end again, and no key is shown.
    """
    found = [_python(), *_packages(), *(await _configuration(settings)), *_models(environment)]
    if not settings.redis_url:
        found.append(_folder(settings.data_dir or folders.default_data_dir()))
    found += await _storage(settings)
    return [*found, await asyncio.to_thread(_port, settings)]


def worst_status(found: list[Finding]) -> Status:
    """Return the worst status of all."""
    order: tuple[Status, ...] = ("ok", "warn", "fail")
    return max((one.status for one in found), key=order.index, default="ok")


def _python() -> Finding:
    return Finding("Python", "ok", f"{sys.version.split()[0]} at {sys.executable}")


def _packages() -> Iterator[Finding]:
    try:
        needed = requires("callsheet") or []
    except PackageNotFoundError:
        yield Finding("Packages", "warn", "run from its source, not installed", "Run: make run")
        return
    names = [match[0] for line in needed if "extra ==" not in line and (match := re.match(r"[\w.-]+", line))]
    missing = [name for name in names if _version(name) is None]
    if missing:
        yield Finding("Packages", "fail", f"missing: {', '.join(missing)}", "Install anew: make run")
        return
    named = ", ".join(f"{name} {_version(name)}" for name in _NAMED)
    yield Finding("Packages", "ok", f"all {len(names)}; {named}")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


async def _configuration(settings: Settings) -> list[Finding]:
    """Check access, graphs, tools and traces as the server's start does."""
    access = f"asked for: {', '.join(settings.auth)}" if settings.auth else "nobody is asked who they are"
    findings = [_tried("Access", lambda: _access(settings), f"{access}; listens on {settings.host}")]
    graphs, tools = await _graphs(settings)
    findings.append(graphs)
    if {settings.tools, settings.tool_grants, settings.prices} != {"{}"}:
        findings.append(_tools(settings, tools))
    if any(os.environ.get(name) for name in tracing.EXPORTER_VARIABLES):
        findings.append(_tried("Traces", lambda: tracing.load_exporter(os.environ), "sent by OpenTelemetry"))
    return findings


async def _graphs(settings: Settings) -> tuple[Finding, Collection[str] | None]:
    """Load the graphs; return also the names of their workflows' tools, None if loading failed."""
    try:
        async with AsyncExitStack() as stack:
            source = read_graphs_file(settings.config) if settings.config else None
            workflows = await bootstrap.load_workflows(source, stack)
    except CallsheetError as error:
        return Finding("Graphs", "fail", error.message, error.remedy), None
    origin = f" of {settings.config}" if settings.config else ""
    return Finding("Graphs", "ok", f"{', '.join(workflows.graphs)}{origin}"), workflows.tools.keys()


def _tools(settings: Settings, served: Collection[str] | None) -> Finding:
    finding = _tried(
        "Tools", lambda: tool_policy.read_tool_policy(settings), "called on the operator's terms"
    )
    if finding.status != "ok" or served is None:
        return finding
    unknown = sorted(json.loads(settings.tools).keys() - {ALL_TOOLS, *served})
    if not unknown:
        return finding
    message = f"CALLSHEET_TOOLS names {', '.join(map(repr, unknown))}, which no served workflow has"
    return Finding("Tools", "warn", message, "See GET /api/tools for the tools of the served workflows.")


def _access(settings: Settings) -> None:
    origins.require_safe_binding(settings)
    Authenticator(settings)


def _tried(part: str, attempt: Callable[[], object], told: str) -> Finding:
    try:
        attempt()
    except CallsheetError as error:
        return Finding(part, "fail", error.message, error.remedy)
    return Finding(part, "ok", told)


def _models(environment: Mapping[str, str]) -> Iterator[Finding]:
    there = providers.available(environment)
    for name, one in providers.PROVIDERS.items():
        if one.key:
            told = f"{one.key} is {'set' if name in there else 'not set'}"
            yield Finding(f"Key of {name}", "ok", told)
    chosen = route(Request(), there)
    if chosen.provider == "offline":
        yield Finding(
            "Model", "warn", f"offline: {chosen.reason}", "Set a key for answers by a language model."
        )
    else:
        # Made as a run would make it, so that a wrong setting of its own is found; nothing is asked of it.
        made = partial(providers.load, chosen.provider, environ=environment)
        yield _tried("Model", made, f"{chosen.provider}: {chosen.reason}")


def _folder(place: Path) -> Finding:
    try:
        folders.private_folder(place / "valkey")
        free = shutil.disk_usage(place).free
    except CallsheetError as error:
        return Finding("Data folder", "fail", error.message, error.remedy)
    told = f"{place}, {free / 2**30:.1f} GiB free"
    if free < _NOTHING_BYTES:
        return Finding("Data folder", "fail", told, "Free some space.")
    return Finding("Data folder", "warn" if free < _LITTLE_BYTES else "ok", told)


async def _storage(settings: Settings) -> list[Finding]:
    try:
        async with storage.connect(settings.redis_url, settings.data_dir, patience_s=_PATIENCE_S) as opened:
            seen = await health.read_health(opened)
            return [_answer(opened, seen), *_keeping(seen), await _clock(opened)]
    except CallsheetError as error:
        return [Finding("Storage", "fail", error.message, error.remedy)]


def _answer(opened: Storage, seen: ServerHealth) -> Finding:
    told = f"{seen.name} in {seen.answered_s * 1000:.1f} ms: {opened.origin}"
    if seen.answered_s > _SLOW_S:
        return Finding("Storage", "warn", told, "Put it nearer to the server; every step waits for it.")
    return Finding("Storage", "ok", told)


def _keeping(seen: ServerHealth) -> Iterator[Finding]:
    """Whether what is written stays."""
    for trouble in health.health_problems(seen):
        yield Finding("Storage", "fail" if trouble.fatal else "warn", trouble.message, trouble.remedy)
    if seen.persistent:
        yield Finding("Persistence", "ok", "every change goes to an append-only file")
    else:
        yield Finding(
            "Persistence",
            "warn",
            "no append-only file: what came after the last snapshot is lost with the server's process",
            "Set appendonly to yes.",
        )
    used = f"{seen.used_bytes / 2**20:.0f} MiB used"
    limit = f"of {seen.limit_bytes / 2**20:.0f}" if seen.limit_bytes else "without a limit"
    if seen.policy != "noeviction":
        told = (
            f"{used} {limit}; maxmemory-policy is {seen.policy}, which throws keys away when memory is full"
        )
        # Without a limit of its own, nothing is thrown away today.
        status: Status = "fail" if seen.limit_bytes else "warn"
        yield Finding("Memory", status, told, "Set maxmemory-policy to noeviction.")
    else:
        yield Finding("Memory", "ok", f"{used} {limit}; nothing is thrown away (noeviction)")


async def _clock(opened: Storage) -> Finding:
    apart_s = abs(await health.server_time_s(opened) - time.time())
    if apart_s > _CLOCKS_APART_S:
        told = f"this machine's and storage's are {apart_s:.0f} s apart"
        return Finding(
            "Clock", "warn", told, "Let both keep time by NTP; tokens expire by one, leases by the other."
        )
    return Finding("Clock", "ok", f"{apart_s:.1f} s from storage's")


def _port(settings: Settings) -> Finding:
    host, port = settings.host, settings.port
    try:
        for listener in serving.bind_sockets(host, port):
            listener.close()
    except Conflict as error:
        if _is_ours(f"http://{serving.url_host(host)}:{port}/ok"):
            return Finding("Port", "ok", f"{port} on {host}: a Callsheet server is answering there")
        return Finding("Port", "fail", error.message, error.remedy)
    except CallsheetError as error:
        return Finding("Port", "fail", error.message, error.remedy)
    return Finding("Port", "ok", f"{port} on {host} is free")


def _is_ours(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with suppress(OSError, ValueError), opener.open(url, timeout=2) as reply:
        return bool(json.loads(reply.read(100)) == {"ok": True})
    return False
