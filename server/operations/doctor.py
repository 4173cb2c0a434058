"""Checks of the installation, part by part, each finding with a remedy."""

import asyncio
import json
import logging
import os
import re
import shutil
import sys
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final, Literal

from callsheet import providers, storage
from callsheet.providers.routing import RoutingRequest, route
from callsheet.server.engine import process, tool_policy
from callsheet.server.engine.graphs_file import read_graphs_file
from callsheet.server.engine.task_queue import check_queue
from callsheet.server.engine.workflows import Workflows, load_workflows
from callsheet.server.http import connections, origins
from callsheet.server.http.auth import Authenticator
from callsheet.server.settings.settings import Settings, unknown_variables
from callsheet.server.telemetry import tracing
from callsheet.state.errors import CallsheetError, Conflict, StorageDown
from callsheet.storage import Storage
from callsheet.storage.campaigns import library as campaign_library
from callsheet.storage.embedded import folders
from callsheet.storage.migrations import FORMAT, newer_format, read_format
from callsheet.storage.redis import health
from callsheet.storage.redis.health import ServerHealth
from callsheet.storage.runs.waiting import WaitingLimits, WaitingRuns

Status = Literal["none", "ok", "warn", "fail"]
"""`none` is about a part that is not there and need not be."""
_PATIENCE_S: Final = 5.0
_QUEUE_PATIENCE_S: Final = 10.0
_LOW_FREE_BYTES: Final = 500 * 2**20
_MIN_FREE_BYTES: Final = 50 * 2**20
_SLOW_S: Final = 0.1
_FAR: Final = "Move it closer to the server; every step waits for it."
_OWN_SLOW: Final = "It runs on this machine, which is busy: end other programs, or check again later."
_CLOCKS_APART_S: Final = 5.0
_WAITING_S: Final = 60.0
_FILES: Final = 4_096
"""Open files that a server with a thousand streams may have, with room for others."""
_NAMED: Final = ("langgraph", "langchain-core", "fastapi", "redis")
"""Libraries whose versions are shown."""


@dataclass(frozen=True)
class Finding:
    """The result of checking one part."""

    part: str
    status: Status
    message: str
    remedy: str = ""


async def diagnose(
    settings: Settings, environment: Mapping[str, str], *, is_served: bool = False
) -> list[Finding]:
    """Return the findings of every part, in the order in which the server needs them.

    Where a server of this project runs already (`is_served`), no port is needed for another one. An embedded
    Valkey may start and stop; nothing else changes. No key is shown.
    """
    graphs, workflows = await _check_graphs(settings)
    findings = [
        _check_python(),
        *_check_packages(),
        *_check_open_files(),
        *_check_variables(environment),
        *_check_settings(settings, graphs, workflows),
        _check_versions(settings),
        # Graphs that are no workflows choose their models themselves.
        *(_check_models(environment) if workflows is None or workflows.specs else ()),
    ]
    if not settings.redis_url:
        findings.append(_check_folder(settings.data_dir or folders.default_data_dir()))
    findings += await _check_storage(settings, workflows)
    if is_served:
        return [*findings, Finding("Port", "ok", "a Callsheet server on this data is answering already")]
    return [*findings, await asyncio.to_thread(_check_port, settings)]


def worst_status(findings: list[Finding]) -> Status:
    """Return the worst status of all."""
    order: tuple[Status, ...] = ("none", "ok", "warn", "fail")
    return max((one.status for one in findings), key=order.index, default="ok")


def _check_python() -> Finding:
    return Finding("Python", "ok", f"{sys.version.split()[0]} at {sys.executable}")


def _check_packages() -> Iterator[Finding]:
    try:
        needed = requires("callsheet") or []
    except PackageNotFoundError:
        yield Finding("Packages", "warn", "running from source, not installed", "Run: make run")
        return
    names = [match[0] for line in needed if "extra ==" not in line and (match := re.match(r"[\w.-]+", line))]
    missing = [name for name in names if _version(name) is None]
    if missing:
        yield Finding("Packages", "fail", f"missing: {', '.join(missing)}", "Install again: make run")
        return
    named = ", ".join(f"{name} {_version(name)}" for name in _NAMED)
    yield Finding("Packages", "ok", f"all {len(names)}; {named}")


def _check_open_files() -> Iterator[Finding]:
    if limits := process.open_files_limits():
        message = f"a server may open {max(limits):,} files; each connection is one"
        if max(limits) >= _FILES:
            yield Finding("Open files", "ok", message)
        else:
            remedy = (
                "Raise the hard limit: LimitNOFILE= in systemd, --ulimit nofile= in Docker, or ulimit -Hn."
            )
            yield Finding("Open files", "warn", message, remedy)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _check_variables(environment: Mapping[str, str]) -> Iterator[Finding]:
    for sentence in unknown_variables(environment):
        yield Finding("Settings", "warn", sentence, "Correct it; .env.example lists all.")


def _check_settings(settings: Settings, graphs: Finding, workflows: Workflows | None) -> list[Finding]:
    """Check the settings as the server's start does."""
    access = f"requires {', '.join(settings.auth)}" if settings.auth else "no authentication"
    ignored = _ignored_keys(settings) if graphs.status == "ok" else []
    findings = [
        _attempt("Access", lambda: _check_access(settings), f"{access}; listens on {settings.host}"),
        graphs,
        *(Finding("Graphs", "warn", sentence, "Remove or correct it.") for sentence in ignored),
    ]
    for check in (partial(providers.check_settings, os.environ), campaign_library.check_settings):
        finding = _attempt("Settings", check, "")
        if finding.status == "fail":
            findings.append(finding)
    if {settings.tools, settings.tool_grants, settings.prices, settings.budgets} != {"{}"}:
        findings.append(_check_tools(settings, workflows.tools.keys() if workflows else None))
    if any(os.environ.get(name) for name in tracing.EXPORTER_VARIABLES):
        findings.append(
            _attempt("Traces", partial(tracing.load_exporter, os.environ), "sent by OpenTelemetry")
        )
    return findings


def _check_versions(settings: Settings) -> Finding:
    """Say how many versions are kept, since older ones go for good."""
    kept: int | dict[str, int] = json.loads(settings.kept_versions)
    counts = kept if isinstance(kept, dict) else {"*": kept}
    words = {name: f"the newest {count}" if count else "all" for name, count in counts.items()}
    others = words.pop("*", "all")
    listed = "; ".join(
        [f"{others} of each part of an artefact", *(f"{one} of “{who}”" for who, one in words.items())]
    )
    if not any(counts.values()):
        return Finding("Old versions", "ok", f"{listed} are kept")
    gone = "older ones that nothing needs are removed for good: docs/operations.md, “Old versions”"
    return Finding("Old versions", "ok", f"{listed} are kept; {gone}")


def _ignored_keys(settings: Settings) -> Sequence[str]:
    return read_graphs_file(settings.config).options.ignored if settings.config else ()


async def _check_graphs(settings: Settings) -> tuple[Finding, Workflows | None]:
    """Load the graphs; return also their workflows, None if loading failed."""
    try:
        async with AsyncExitStack() as stack:
            source = read_graphs_file(settings.config) if settings.config else None
            workflows = await load_workflows(source, stack)
    except CallsheetError as error:
        return Finding("Graphs", "fail", error.message, error.remedy), None
    origin = f" of {settings.config}" if settings.config else ""
    return Finding("Graphs", "ok", f"{', '.join(workflows.graphs)}{origin}"), workflows


def _check_tools(settings: Settings, served: Collection[str] | None) -> Finding:
    finding = _attempt("Tools", lambda: tool_policy.read_tool_policy(settings), "the operator's limits apply")
    if finding.status != "ok" or served is None:
        return finding
    warning = tool_policy.unknown_tools(settings, served)
    return Finding("Tools", "warn", warning, "GET /api/tools lists the tools.") if warning else finding


def _check_access(settings: Settings) -> None:
    origins.require_safe_binding(settings)
    Authenticator(settings)


def _attempt(part: str, attempt: Callable[[], object], message: str) -> Finding:
    try:
        attempt()
    except CallsheetError as error:
        return Finding(part, "fail", error.message, error.remedy)
    return Finding(part, "ok", message)


def _check_models(environment: Mapping[str, str]) -> Iterator[Finding]:
    available = providers.with_key(environment)
    for name, one in providers.PROVIDERS.items():
        if one.key:
            has_key = name in available
            part = "Key" if one.key.endswith("_API_KEY") else "Setting"
            message = f"{one.key} is {'set' if has_key else 'not set'}"
            yield Finding(f"{part} of {name}", "ok" if has_key else "none", message)
    chosen = route(RoutingRequest(), available)
    if chosen.provider == "offline":
        yield Finding(
            "Model",
            "warn",
            f"offline: {chosen.reason}",
            "Set a key, or start Ollama with a model that calls tools: docs/models.md.",
        )
    else:
        # Loaded as for a run, so that its invalid settings are found; it is not called.
        load = partial(providers.load, chosen.provider, environ=environment)
        yield _attempt("Model", load, f"{chosen.provider}: {chosen.reason}")


def _check_folder(place: Path) -> Finding:
    try:
        folders.private_folder(place / "valkey")
        free = shutil.disk_usage(place).free
    except CallsheetError as error:
        return Finding("Data folder", "fail", error.message, error.remedy)
    message = f"{place}, {free / 2**30:.1f} GiB free"
    if free < _MIN_FREE_BYTES:
        return Finding("Data folder", "fail", message, "Free some space outside of it.")
    return Finding("Data folder", "warn" if free < _LOW_FREE_BYTES else "ok", message)


async def _check_storage(settings: Settings, workflows: Workflows | None) -> list[Finding]:
    try:
        async with storage.connect(settings.redis_url, settings.data_dir, timeout_s=_PATIENCE_S) as opened:
            server_health = await health.read_health(opened)
            return [
                _check_latency(opened, server_health),
                *_check_persistence(server_health),
                await _check_format(opened),
                *(await _check_waiting(opened, workflows)),
                await _check_clock(opened),
                await _check_queue(opened),
            ]
    except CallsheetError as error:
        return [Finding("Storage", "fail", error.message, error.remedy)]


async def _check_format(opened: Storage) -> Finding:
    version = await read_format(opened)
    if version is not None and version > FORMAT:
        refusal = newer_format(opened, version)
        return Finding("Data format", "fail", refusal.message, refusal.remedy)
    if version == FORMAT:
        return Finding("Data format", "ok", f"{version}")
    former = f"{version or 'none'}, of an older version or no data"
    return Finding("Data format", "ok", f"{former}; the next start brings it to {FORMAT}")


async def _check_waiting(opened: Storage, workflows: Workflows | None) -> list[Finding]:
    """Name the graphs that runs wait for and that are not served with these settings."""
    waiting = await WaitingRuns(opened, WaitingLimits()).count_by_graph(_WAITING_S)
    served = workflows.graphs if workflows else waiting
    remedy = "Start a process that serves it, or cancel them: callsheet runs cancel."
    return [
        Finding("Runs", "warn", f"{count} waiting for graph {graph!r}, which is not served here", remedy)
        for graph, count in sorted(waiting.items())
        if graph not in served
    ]


async def _check_queue(opened: Storage) -> Finding:
    """Send a delivery through the task queue."""
    # Docket logs every attempt of its worker; the finding names the reason once.
    log = logging.getLogger("docket")
    former = log.level
    log.setLevel(logging.CRITICAL)
    try:
        await check_queue(opened, _QUEUE_PATIENCE_S)
    except StorageDown as error:
        return Finding("Task queue", "fail", error.message, error.remedy)
    finally:
        log.setLevel(former)
    return Finding("Task queue", "ok", "a delivery was delivered")


def _check_latency(opened: Storage, server_health: ServerHealth) -> Finding:
    message = f"{server_health.name} in {server_health.latency_s * 1000:.1f} ms: {opened.origin}"
    if server_health.latency_s > _SLOW_S:
        return Finding("Storage", "warn", message, _OWN_SLOW if opened.lease else _FAR)
    return Finding("Storage", "ok", message)


def _check_persistence(server_health: ServerHealth) -> Iterator[Finding]:
    """Check persistence and memory."""
    for trouble in health.health_problems(server_health):
        yield Finding("Storage", "fail" if trouble.fatal else "warn", trouble.message, trouble.remedy)
    used = f"{server_health.used_bytes / 2**20:.0f} MiB used"
    limit = f"of {server_health.limit_bytes / 2**20:.0f}" if server_health.limit_bytes else "without a limit"
    findings = {
        "persistence": Finding("Persistence", "ok", "every change is written to an append-only file"),
        "memory": Finding("Memory", "ok", f"{used} {limit}; no eviction"),
    }
    for warning in health.health_warnings(server_health):
        # Without a memory limit nothing is evicted yet.
        evicts = warning.component == "memory" and server_health.limit_bytes
        status: Status = "fail" if evicts else "warn"
        part = findings[warning.component].part
        findings[warning.component] = Finding(part, status, warning.message, warning.remedy)
    yield from findings.values()


async def _check_clock(opened: Storage) -> Finding:
    apart_s = abs(await health.server_time_s(opened.redis) - time.time())
    if apart_s > _CLOCKS_APART_S:
        message = f"this machine's clock and Redis' differ by {apart_s:.0f} s"
        return Finding(
            "Clock",
            "warn",
            message,
            "Synchronise both by NTP: tokens expire by one clock, leases by the other.",
        )
    return Finding("Clock", "ok", f"{apart_s:.1f} s from Redis' clock")


def _check_port(settings: Settings) -> Finding:
    host, port = settings.host, settings.port
    try:
        for listener in connections.bind_sockets(host, port):
            listener.close()
    except Conflict as error:
        if _is_ours(f"http://{connections.url_host(host)}:{port}/ok"):
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
