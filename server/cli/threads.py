"""`callsheet threads`: list, show, export, import and delete the threads in storage."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from callsheet.server.cli import commands
from callsheet.server.cli.listing import (
    Id,
    Json,
    Owner,
    command_group,
    echo_json,
    first_ones,
    print_table,
    short_time,
    with_archive,
)
from callsheet.server.cli.options import DataDir, Debug
from callsheet.state.times import iso_time

if TYPE_CHECKING:
    from callsheet.server.artefacts.archive import ThreadArchive
    from callsheet.storage.threads.threads import Thread

_STDIO: Final = "-"
_MAX_METADATA: Final = 60
"""Characters of a thread's metadata in the list."""

app = command_group("Threads: list, show, export to a file, import, delete.")


@app.command("list")
def list_(
    *,
    owner: Owner = "local",
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Number of threads.")] = 20,
    as_json: Json = False,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """List threads, last changed first."""
    with commands.report_errors(debug=debug):
        from callsheet.storage.threads import threads  # noqa: PLC0415 -- help needs no storage

        records = with_archive(
            data_dir, lambda archive: threads.list_newest(archive.storage, owner, 0, limit + 1)
        )
    records = first_ones(records, limit)
    if as_json:
        echo_json([thread_json(record) for record in records])
        return
    rows = [
        (record.id, record.graph, record.status, short_time(record.updated_ms, 16), _about(record))
        for record in records
    ]
    print_table(("Id", "Graph", "Status", "Changed (UTC)", "About"), rows, "There are no threads.")


@app.command()
def show(
    thread_id: Id,
    *,
    owner: Owner = "local",
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Show a thread's record as JSON. It includes the number of states and messages."""
    with commands.report_errors(debug=debug):
        echo_json(with_archive(data_dir, lambda archive: _record_with_counts(archive, thread_id, owner)))


@app.command()
def export(
    thread_id: Id,
    file: Annotated[str, typer.Argument(metavar="FILE", help="File to write; - for stdout.")] = _STDIO,
    *,
    owner: Owner = "local",
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Write a thread and its artefacts to a file.

    callsheet threads export harbour harbour.jsonl
    """
    with commands.report_errors(debug=debug):
        content = with_archive(data_dir, lambda archive: _export(archive, thread_id, owner))
        if file == _STDIO:
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
        else:
            _write(Path(file).expanduser(), content)
            typer.echo(f"Wrote {len(content)} bytes to {file}.", err=True)


@app.command("import")
def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="An exported thread; - for stdin.")],
    *,
    new_id: Annotated[
        str | None,
        typer.Option("--as", metavar="ID", help="Id of the new thread and its artefact [the file's]."),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Read types of any library; only for files of your own.")
    ] = False,
    owner: Owner = "local",
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Create a thread from a file. Nothing that exists is overwritten; an error imports nothing."""
    with commands.report_errors(debug=debug):
        from callsheet.server.artefacts.archive import import_file  # noqa: PLC0415 -- help needs no storage

        content = _read(file)
        record = with_archive(
            data_dir, lambda archive: import_file(archive, content, owner, new_id=new_id, trusted=trust)
        )
    typer.echo(record.id)


@app.command()
def delete(
    thread_id: Id,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    owner: Owner = "local",
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Delete a thread with all its states. Its artefacts stay."""
    with commands.report_errors(debug=debug):
        from callsheet.server.langgraph.retention import delete_thread  # noqa: PLC0415 -- help needs no storage
        from callsheet.storage.threads import threads  # noqa: PLC0415

        def confirm() -> bool:
            return typer.confirm(f"Delete thread {thread_id!r} for good?", err=True)

        async def delete_record(archive: "ThreadArchive") -> None:
            await delete_thread(archive, await threads.get(archive.storage, thread_id, owner))

        if not (yes or commands.ask(confirm, "run it again with --yes, which does not ask")):
            raise typer.Exit(1)
        with_archive(data_dir, delete_record)
    typer.echo(f"Deleted {thread_id}.", err=True)


def thread_json(record: "Thread") -> Mapping[str, Any]:
    """Return a thread's record as JSON."""
    return {
        "id": record.id,
        "owner": record.owner,
        "graph": record.graph,
        "artefact": record.artefact or None,
        "status": record.status,
        "metadata": record.metadata,
        "interrupts": record.interrupts,
        "error": record.error,
        "createdAt": iso_time(record.created_ms),
        "updatedAt": iso_time(record.updated_ms),
    }


async def _record_with_counts(archive: "ThreadArchive", thread_id: str, owner: str) -> dict[str, Any]:
    from callsheet.storage.threads import threads  # noqa: PLC0415 -- help needs no storage

    record = await threads.get(archive.storage, thread_id, owner)
    states = [state async for state in archive.saver.alist({"configurable": {"thread_id": thread_id}})]
    messages = states[0].checkpoint["channel_values"].get("messages", ()) if states else ()
    return {**thread_json(record), "states": len(states), "messages": len(messages)}


async def _export(archive: "ThreadArchive", thread_id: str, owner: str) -> bytes:
    from callsheet.server.artefacts.archive import export_file  # noqa: PLC0415 -- help needs no storage

    return b"".join([line async for line in await export_file(archive, thread_id, owner)])


def _write(path: Path, content: bytes) -> None:
    from callsheet.state.errors import Invalid  # noqa: PLC0415 -- rarely needed

    # Written under another name first, so that a full disk leaves no partial file.
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        rule = f"file {str(path)!r} cannot be written: {(error.strerror or str(error)).lower()}"
        raise Invalid(rule, remedy="check the path and the disk") from error


def _read(file: str) -> bytes:
    from callsheet.state.errors import Invalid  # noqa: PLC0415 -- rarely needed

    try:
        return sys.stdin.buffer.read() if file == _STDIO else Path(file).expanduser().read_bytes()
    except OSError as error:
        rule = f"file {file!r} cannot be read: {(error.strerror or str(error)).lower()}"
        raise Invalid(rule, remedy="check the path") from error


def _about(record: "Thread") -> str:
    """Return the artefact of a thread, else its metadata."""
    if record.artefact or not record.metadata:
        return record.artefact
    text = json.dumps(record.metadata, ensure_ascii=False)
    return text if len(text) <= _MAX_METADATA else f"{text[: _MAX_METADATA - 1]}…"
