"""`callsheet keys`: create, list and revoke API keys (`CALLSHEET_AUTH=keys`)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from callsheet.server.cli import commands
from callsheet.server.cli.listing import Json, command_group, echo_json, print_table, with_storage
from callsheet.server.cli.options import DataDir, Debug
from callsheet.state.times import iso_time

if TYPE_CHECKING:
    from callsheet.storage.api_keys import StoredKey

_DAY_S: Final = 86_400

app = command_group("API keys: create, list, revoke.")


@app.command()
def create(
    owner: Annotated[str, typer.Argument(metavar="OWNER", help="Owner whose data the key opens; any name.")],
    *,
    permission: Annotated[
        Literal["read", "write", "admin"], typer.Option(help="Permission; each includes those before.")
    ] = "write",
    days: Annotated[float | None, typer.Option(help="Days until it expires [never].")] = None,
    name: Annotated[str, typer.Option(help="Name for the list.")] = "",
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Create a key and print it; it is never shown again.

    KEY=$(callsheet keys create alice --days 90)
    """
    with commands.report_errors(debug=debug):
        from callsheet.server.http import api_keys  # noqa: PLC0415 -- help needs no storage

        if days is not None and not 0 < days < float("inf"):
            raise commands.UsageError(
                f"a key cannot last {days:g} days; --days must be positive", "keys create"
            )
        created = with_storage(
            data_dir,
            lambda storage: api_keys.create_key(
                storage, owner, permission, name=name, lifetime_s=(days or 0) * _DAY_S
            ),
        )
    typer.echo(created.text)
    typer.echo(
        f"Store it now: it is not shown again. Revoke it with: callsheet keys revoke {created.id}", err=True
    )


@app.command("list")
def list_(
    owner: Annotated[str | None, typer.Option(help="Only keys of this owner.")] = None,
    *,
    as_json: Json = False,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """List the keys by id, oldest first. The keys themselves are not shown."""
    with commands.report_errors(debug=debug):
        from callsheet.storage import api_keys  # noqa: PLC0415 -- help needs no storage

        stored = with_storage(data_dir, lambda storage: api_keys.list_keys(storage, owner))
    if as_json:
        echo_json([_key_json(key) for key in stored])
    else:
        _show(stored)


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As the list shows it.")],
    *,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Revoke a key. No server accepts it from now on."""
    with commands.report_errors(debug=debug):
        from callsheet.storage import api_keys  # noqa: PLC0415 -- help needs no storage

        with_storage(data_dir, lambda storage: api_keys.revoke(storage, key_id))
    typer.echo(f"Revoked {key_id}.", err=True)


def _key_json(key: "StoredKey") -> Mapping[str, Any]:
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


def _show(stored: "list[StoredKey]") -> None:
    from rich.text import Text  # noqa: PLC0415 -- help needs no table

    colours = {"active": "green", "expired": "yellow", "revoked": "red"}
    rows = [
        (
            key.id,
            key.owner,
            key.permissions[-1],
            Text(key.status, colours[key.status]),
            (_time(key.created_ms) or "")[:10],
            (_time(key.expires_ms) or "never")[:10],
            key.name,
        )
        for key in stored
    ]
    empty = "There are no keys. Create one with: callsheet keys create OWNER"
    print_table(("Id", "Owner", "Permission", "Status", "Made", "Expires", "Name"), rows, empty)


def _time(ms: int | None) -> str | None:
    return iso_time(ms, "seconds") if ms is not None else None
