"""`callsheet keys`: who may call a server that asks (`CALLSHEET_AUTH=keys`)."""

import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

import typer

from server import commands
from server.options import DataDir, Debug

if TYPE_CHECKING:
    from pathlib import Path

    from storage import Storage
    from storage.api_keys import KeptKey

_DAY_S: Final = 86_400
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Found = TypeVar("Found")

app = typer.Typer(
    help="API keys: made once, shown once, listed and revoked by their id.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.command()
def create(
    owner: Annotated[str, typer.Argument(metavar="OWNER", help="Whose things the key opens; any name.")],
    *,
    permission: Annotated[
        Literal["read", "write", "admin"], typer.Option(help="What it allows; each includes those before.")
    ] = "write",
    days: Annotated[float | None, typer.Option(help="Days until it expires [never].")] = None,
    name: Annotated[str, typer.Option(help="What you call it, for the list.")] = "",
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Make a key and print it; it is never shown again.

    KEY=$(callsheet keys create alice --days 90)
    """
    with commands.reported(debug=debug):
        from server import api_keys  # noqa: PLC0415 -- help needs no storage

        if days is not None and not 0 < days < float("inf"):
            raise typer.BadParameter(f"a key cannot live {days:g} days", param_hint="--days")
        made = _on_storage(
            data_dir,
            lambda storage: api_keys.make(
                storage, owner, permission, name=name, lifetime_s=(days or 0) * _DAY_S
            ),
        )
    typer.echo(made.text)
    typer.echo(
        f"Keep it now: it is not shown again. Take it back with: callsheet keys revoke {made.id}", err=True
    )


@app.command("list")
def list_(
    owner: Annotated[str | None, typer.Option(help="Only this owner's.")] = None,
    *,
    as_json: _Json = False,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """List the keys, oldest first; no key is shown, only its id."""
    with commands.reported(debug=debug):
        from storage import api_keys  # noqa: PLC0415 -- help needs no storage

        found = _on_storage(data_dir, lambda storage: api_keys.listed(storage, owner))
    if as_json:
        typer.echo(json.dumps([_told(key) for key in found], ensure_ascii=False, indent=2))
    else:
        _show(found)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As the list shows it.")],
    *,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Take a key back: from now on it opens nothing, on any server."""
    with commands.reported(debug=debug):
        from storage import api_keys  # noqa: PLC0415 -- help needs no storage

        _on_storage(data_dir, lambda storage: api_keys.revoke(storage, key_id))
    typer.echo(f"Revoked {key_id}.", err=True)


def _on_storage(data_dir: "Path | None", work: "Callable[[Storage], Awaitable[Found]]") -> Found:
    import asyncio  # noqa: PLC0415 -- help needs no storage

    from storage import connect  # noqa: PLC0415

    chosen = commands.settings(data_dir)

    async def connected() -> Found:
        async with connect(chosen.redis_url, chosen.data_dir) as storage:
            return await work(storage)

    return asyncio.run(connected())


def _told(key: "KeptKey") -> Mapping[str, Any]:
    return {
        "id": key.id,
        "owner": key.owner,
        "permissions": list(key.permissions),
        "name": key.name,
        "status": key.status,
        "createdAt": _time(key.created_ms),
        "expiresAt": _time(key.expires_ms),
        "revokedAt": _time(key.revoked_ms),
    }


def _time(ms: int | None) -> str | None:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds") if ms is not None else None


def _show(found: "list[KeptKey]") -> None:
    from rich.table import Table  # noqa: PLC0415 -- help needs no table
    from rich.text import Text  # noqa: PLC0415

    from server import terminal  # noqa: PLC0415

    where = terminal.console()
    if not found:
        where.print("There are no keys. Make one with: callsheet keys create OWNER")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Id", "Owner", "Allows", "Status", "Made", "Expires", "Name"):
        table.add_column(title, overflow="fold")
    for key in found:
        colour = {"active": "green", "expired": "yellow", "revoked": "red"}[key.status]
        table.add_row(
            key.id,
            terminal.harmless(key.owner),
            key.permissions[-1],
            Text(key.status, colour),
            (_time(key.created_ms) or "")[:10],
            (_time(key.expires_ms) or "never")[:10],
            terminal.harmless(key.name),
        )
    where.print(table)
