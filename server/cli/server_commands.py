"""Commands that are the server, or the operator's: serve, worker, doctor and keys.

They import the server when they run, so that no other command waits for it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from callsheet.server.cli.output import age, grid, print_json, print_parts, print_table, say, text
from callsheet.server.cli.parsing import Args, UsageError
from callsheet.server.settings.installation import installed_version
from callsheet.server.settings.local_sockets import project_config

if TYPE_CHECKING:
    from callsheet.server.settings.settings import Settings

_MARKS: Final = {"none": ("·", "dim"), "ok": ("✔", "green"), "warn": ("!", "yellow"), "fail": ("✘", "red")}
_SUMMARIES: Final = {
    "ok": "All is well.",
    "warn": "It works; see the lines marked with !.",
    "fail": "It does not work yet: see the lines marked with ✘.",
}
_HOUR_S: Final = 3_600
_COLOURS: Final = {"active": "green", "expired": "yellow", "revoked": "red"}


def serve(args: Args) -> None:
    """Start the server; with a socket, for the terminals of this user alone."""
    from callsheet.server.processes import serving  # noqa: PLC0415 -- see above

    settings = _settings(args, host=args.host, port=args.port)
    if args.for_terminals:
        serving.serve_terminals(settings, Path(args.for_terminals))
    else:
        serving.serve(settings, installed_version())


def worker(args: Args) -> None:
    """Execute runs of a server on the same data."""
    from callsheet.server.processes.worker import run_worker  # noqa: PLC0415 -- see above

    run_worker(_settings(args))


def doctor(args: Args) -> int:
    """Check everything that the server needs; no port where one runs already, unless one is named."""
    from callsheet.server.cli import client  # noqa: PLC0415 -- see above
    from callsheet.server.processes import operator  # noqa: PLC0415 -- see above

    is_served = args.host is None and args.port is None and client.is_served(args.data_dir)
    worst, findings = operator.check(_settings(args, host=args.host, port=args.port), is_served=is_served)
    if args.json:
        print_json(findings)
    else:
        _show_findings(findings, _SUMMARIES[worst])
    return int(worst == "fail")


def _show_findings(findings: list[dict[str, Any]], summary: str) -> None:
    table = grid("", "bold", "")
    for finding in findings:
        message = text(finding["message"])
        if finding["remedy"] and finding["status"] != "ok":
            message.append_text(text(f"\n→ {finding['remedy']}", "dim"))
        table.add_row(Text(*_MARKS[finding["status"]]), finding["part"], message)
    print_parts([table, Text(summary, "bold")])


def show_config(args: Args) -> None:
    """Show the settings: values, secrets hidden, and where they come from."""
    from callsheet.server.settings.sources import read_configuration  # noqa: PLC0415 -- see above

    settings, unknown = read_configuration()
    if args.json:
        print_json({"settings": [one._asdict() for one in settings], "unknown": unknown})
        return
    chosen = [one for one in settings if args.all or one.source != "default"]
    print_table(
        ("Setting", "Source", "Value"),
        [(one.name, one.source, one.value) for one in chosen],
        "Nothing is set.",
    )
    say("These are the settings of this shell; a server has those of its own.")
    if not args.all:
        say(f"{len(settings) - len(chosen)} settings have their defaults; see them with --all.")
    for sentence in unknown:
        say(f"! {sentence}")


def create_key(args: Args) -> None:
    """Create an API key and print it."""
    from callsheet.server.processes import operator  # noqa: PLC0415 -- see above

    if args.days is not None and not 0 < args.days < float("inf"):
        raise UsageError(f"a key cannot last {args.days:g} days", "callsheet keys create")
    created = operator.create_key(
        _settings(args), args.owner, args.permission, name=args.name, days=args.days
    )
    if args.json:
        print_json(created)
        return
    print(created["key"])  # noqa: T201 -- what is asked for
    say(f"Store it now: it is not shown again. Revoke it with: callsheet keys revoke {created['id']}")


def list_keys(args: Args) -> None:
    """List the API keys; they themselves are not shown."""
    from callsheet.server.processes import operator  # noqa: PLC0415 -- see above

    keys = operator.list_keys(_settings(args), args.owner)
    if args.json:
        print_json(keys)
        return
    rows = [
        (
            key["id"],
            key["owner"],
            key["permissions"][-1],
            Text(key["status"], _COLOURS[key["status"]]),
            (key["createdAt"] or "")[:10],
            (key["expiresAt"] or "never")[:10],
            age(key["usedAt"]) or ("never" if key["useIsKnown"] else "unknown"),
            key["name"],
        )
        for key in keys
    ]
    empty = "There are no keys. Create one with: callsheet keys create OWNER"
    print_table(("Id", "Owner", "Permission", "Status", "Made", "Expires", "Used", "Name"), rows, empty)


def rotate_key(args: Args) -> None:
    """Create an API key in place of another one, and print it."""
    from callsheet.server.processes import operator  # noqa: PLC0415 -- see above

    created = operator.rotate_key(_settings(args), args.id, args.grace * _HOUR_S)
    if args.json:
        print_json(created)
        return
    print(created["key"])  # noqa: T201 -- what is asked for
    hours = created["graceSeconds"] / _HOUR_S
    say(f"Store it now: it is not shown again. {args.id} works for {hours:.3g} hours more.")


def revoke_key(args: Args) -> None:
    """Revoke an API key."""
    from callsheet.server.processes import operator  # noqa: PLC0415 -- see above

    operator.revoke_key(_settings(args), args.id)
    say(f"Revoked {args.id}.")


def _settings(args: Args, **chosen: Any) -> "Settings":
    """Return the settings; a data folder on the command line beats a Redis URL in the environment."""
    from callsheet.server.settings.settings import read_settings  # noqa: PLC0415 -- slow to import

    settings = read_settings(data_dir=args.data_dir, **chosen)
    changes: dict[str, Any] = {"redis_url": None} if args.data_dir else {}
    if settings.config is None:
        changes["config"] = project_config()
    return settings.model_copy(update=changes)
