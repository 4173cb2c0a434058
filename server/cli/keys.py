"""`callsheet keys`: who may call a server that asks (`CALLSHEET_AUTH=keys`)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from callsheet.server.cli import commands
from callsheet.server.cli.listing import Json, command_group, echo_json, iso, print_table, with_storage
from callsheet.server.cli.options import DataDir, Debug

if TYPE_CHECKING:
    from callsheet.storage.api_keys import StoredKey

_DAY_S: Final = 86_400

app = command_group("API keys: made once, shown once, listed and revoked by their id.")


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
    with commands.report_errors(debug=debug):
        from callsheet.server.http import api_keys  # noqa: PLC0415 -- help needs no storage

        if days is not None and not 0 < days < float("inf"):
            raise typer.BadParameter(f"a key cannot live {days:g} days", param_hint="--days")
        made = with_storage(
            data_dir,
            lambda storage: api_keys.create_key(
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
    as_json: Json = False,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """List the keys, oldest first; no key is shown, only its id."""
    with commands.report_errors(debug=debug):
        from callsheet.storage import api_keys  # noqa: PLC0415 -- help needs no storage

        found = with_storage(data_dir, lambda storage: api_keys.list_keys(storage, owner))
    if as_json:
        echo_json([_told(key) for key in found])
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
    with commands.report_errors(debug=debug):
        from callsheet.storage import api_keys  # noqa: PLC0415 -- help needs no storage

        with_storage(data_dir, lambda storage: api_keys.revoke(storage, key_id))
    typer.echo(f"Revoked {key_id}.", err=True)


def _told(key: "StoredKey") -> Mapping[str, Any]:
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


def _show(found: "list[StoredKey]") -> None:
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
        for key in found
    ]
    none = "There are no keys. Make one with: callsheet keys create OWNER"
    print_table(("Id", "Owner", "Allows", "Status", "Made", "Expires", "Name"), rows, none)


def _time(ms: int | None) -> str | None:
    return iso(ms, "seconds") if ms is not None else None
