"""Commands of operators for all owners: runs and use of models. A server elsewhere needs an admin key."""

import csv
import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from callsheet.server.cli.artefacts import write
from callsheet.server.cli.client import ServerClient
from callsheet.server.cli.output import print_json, print_table, say
from callsheet.server.cli.parsing import JSON_LINES, Args, UsageError, format_by_ending

_PAGE: Final = 200
_SPAN: Final = re.compile(r"\A(\d{1,6})([mhd])\Z")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}
_USE: Final = ("modelCalls", "inputTokens", "cachedTokens", "outputTokens", "costUsd", "estimatedCalls")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_GROUPS: Final = ("owner", "day", "model")


def list_all_runs(client: ServerClient, args: Args) -> None:
    """List the runs of all owners, newest first."""
    query: dict[str, Any] = {"status": args.status.split(",")} if args.status else {}
    if args.since:
        query["since"] = parse_since(args.since, "callsheet runs list")
    runs = _items(client, "/api/admin/runs", "runs", args.limit + 1, **query)
    if len(runs) > args.limit:
        say(f"These are the first {args.limit}; see more with --limit.")
    runs = runs[: args.limit]
    if args.json:
        print_json(runs)
        return
    titles = ("Run", "Owner", "Status", "Age", "Tries", "Step", "Thread, and error")
    rows = [
        (
            *(run["runId"], run["owner"], run["status"], _seconds(run["ageSeconds"]), run["attempts"] or ""),
            "" if run["step"] is None else str(run["step"]),
            f"{run['threadId']}  {run['error']}: {run['message']}" if run["error"] else run["threadId"],
        )
        for run in runs
    ]
    print_table(titles, rows, "There are no such runs.")


def list_actions(client: ServerClient, args: Args) -> None:
    """List the actions that the audit has, newest first."""
    actions = _actions(client, args, args.limit + 1)
    if len(actions) > args.limit:
        say(f"These are the first {args.limit}; see more with --limit.")
    actions = actions[: args.limit]
    if args.json:
        print_json(actions)
        return
    rows = [
        (
            *(one["at"][:19], one["owner"], one["keyId"] or "", one["action"]),
            "  ".join([one["target"], *(f"{name}: {value}" for name, value in one["details"].items())]),
        )
        for one in actions
    ]
    print_table(("Time (UTC)", "Owner", "Key", "Action", "Target"), rows, "There are no actions.")


def export_actions(client: ServerClient, args: Args) -> None:
    """Write the actions that the audit has to a file, oldest first."""
    format_by_ending(args.output, JSON_LINES)
    lines = [json.dumps(one, ensure_ascii=False) + "\n" for one in reversed(_actions(client, args, None))]
    write("".join(lines).encode(), args.output)


def _actions(client: ServerClient, args: Args, most: int | None) -> list[dict[str, Any]]:
    query: dict[str, Any] = {"action": args.action} if args.action else {}
    if args.since:
        query["since"] = parse_since(args.since, "callsheet audit")
    return _items(client, "/api/admin/audit", "actions", most, **query)


def show_usage(client: ServerClient, args: Args) -> None:
    """Show the use of models: the caller's by day and model, or that of all owners."""
    groups = args.by.split(",") if args.by else ["day", "model"]
    if unknown := [name for name in groups if name not in _GROUPS]:
        raise UsageError(f"--by {unknown[0]!r} is none of {', '.join(_GROUPS)}", "callsheet usage")
    query: dict[str, Any] = {"from": args.first, "to": args.last}
    query = {name: value for name, value in query.items() if value}
    if "owner" in groups:
        rows = _items(client, "/api/admin/usage", "rows", None, by=groups, **query)
    else:
        rows = _add_up(client.get("/api/usage", **query)["rows"], groups)
    if args.json:
        print_json(rows)
    elif args.csv:
        writer = csv.DictWriter(sys.stdout, [*groups, *_USE], extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    else:
        _print_usage(rows, groups)


def _cell(value: Any) -> Any:
    """Return a value for CSV; an apostrophe keeps spreadsheets from taking a text for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _print_usage(rows: list[dict[str, Any]], groups: list[str]) -> None:
    titles = (*(name.capitalize() for name in groups), "Calls", "Tokens in", "Tokens out", "Cost")
    cells = [
        (
            *(row[name] for name in groups),
            *(str(row[name]) for name in ("modelCalls", "inputTokens", "outputTokens")),
            "unknown" if row["costUsd"] is None else f"${row['costUsd']:.4f}",
        )
        for row in rows
    ]
    print_table(titles, cells, "No paid model has been used. The offline model is free and not counted.")


def _add_up(rows: list[dict[str, Any]], groups: list[str]) -> list[dict[str, Any]]:
    """Return the rows added up; the cost is null if one is."""
    sums: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in groups)
        if key not in sums:
            sums[key] = dict(row)
            continue
        for name in _USE:
            both = (sums[key][name], row[name])
            sums[key][name] = None if None in both else sum(both)
    return [*sums.values()]


def _items(
    client: ServerClient, path: str, name: str, most: int | None, **query: Any
) -> list[dict[str, Any]]:
    """Return the items of all pages, or the first `most`."""
    items: list[dict[str, Any]] = []
    for page in _pages(client, path, min(_PAGE, most or _PAGE), query):
        items += page[name]
        if most is not None and len(items) >= most:
            break
    return items[:most]


def _pages(client: ServerClient, path: str, limit: int, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
    after: Any = None
    while True:
        page = client.get(path, **query, limit=limit, after=after)
        yield page
        after = page["next"]
        if after is None:
            return


def parse_since(text: str, command: str) -> str:
    """Return an ISO 8601 time for a span such as `2h`, a day or a time; raise `UsageError`."""
    try:
        if span := _SPAN.match(text):
            return (datetime.now(UTC) - timedelta(**{_UNITS[span[2]]: int(span[1])})).isoformat()
        since = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise UsageError(f"--since {text!r} is no time such as 2h or 2026-11-30", command) from None
    return since.replace(tzinfo=since.tzinfo or UTC).isoformat()


def _seconds(seconds: float) -> str:
    for size_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size_s:
            return f"{seconds / size_s:.0f} {unit}"
    return f"{seconds:.0f} s"
