"""`callsheet runs`: list, show and cancel runs, whichever process executes them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

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
    from callsheet.storage.redis.connection import Storage
    from callsheet.storage.runs.records import Run

_Thread = Annotated[
    str | None,
    typer.Option("--thread", metavar="ID", help="Thread of the run; required once the run has ended."),
]

app = command_group("Runs: list, show, cancel.")


@app.command("list")
def list_(
    *,
    thread: Annotated[
        str | None, typer.Option(metavar="ID", help="All runs of this thread, ended ones included.")
    ] = None,
    owner: Owner = "local",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Number of runs.")] = 50,
    as_json: Json = False,
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """List the runs that have not ended, or all runs of a thread. Newest first."""
    with commands.report_errors(debug=debug):
        listed = with_archive(data_dir, lambda archive: _list_runs(archive.storage, owner, thread, limit + 1))
    listed = first_ones(listed, limit)
    if as_json:
        echo_json([run_json(run) for run in listed])
        return
    rows = [(run.id, run.thread, run.graph, _status(run), short_time(run.created_ms, 19)) for run in listed]
    empty = "The thread has no runs." if thread else "No run is pending or running."
    print_table(("Id", "Thread", "Graph", "Status", "Created (UTC)"), rows, empty)


@app.command()
def show(
    run_id: Id,
    *,
    thread: _Thread = None,
    owner: Owner = "local",
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Show a run's record as JSON. It includes the request, the status and the error."""
    with commands.report_errors(debug=debug):
        run = with_archive(data_dir, lambda archive: _find_run(archive.storage, owner, thread, run_id))
        echo_json({**run_json(run), "request": run.request, "answer": run.answer})


@app.command()
def cancel(
    run_id: Id,
    *,
    thread: _Thread = None,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Delete its states; versions of artefacts stay.")
    ] = False,
    owner: Owner = "local",
    data_dir: DataDir = None,
    debug: Debug = False,
) -> None:
    """Cancel a pending or running run, on whichever machine."""
    with commands.report_errors(debug=debug):
        ended = with_archive(
            data_dir, lambda archive: _cancel_run(archive, owner, thread, run_id, rollback=rollback)
        )
    typer.echo(f"{'Ended' if ended else 'Cancelling'}: {run_id}.", err=True)


def run_json(run: "Run") -> Mapping[str, Any]:
    """Return a run's record as JSON, without its request."""
    return {
        "id": run.id,
        "thread": run.thread,
        "owner": run.owner,
        "graph": run.graph,
        "assistant": run.assistant or None,
        "status": run.status,
        "cancel": run.cancel,
        "strategy": run.strategy,
        "metadata": run.metadata,
        "error": run.error,
        "dueAt": iso_time(run.due_ms) if run.due_ms else None,
        "createdAt": iso_time(run.created_ms),
        "updatedAt": iso_time(run.updated_ms),
    }


async def _list_runs(storage: "Storage", owner: str, thread: str | None, limit: int) -> "list[Run]":
    from callsheet.storage.runs.runs import Runs  # noqa: PLC0415
    from callsheet.storage.threads import threads  # noqa: PLC0415 -- help needs no storage

    if thread is not None:
        await threads.get(storage, thread, owner)
        return await Runs(storage).list_runs(thread, 0, limit)
    unfinished = await Runs(storage).open_runs(owner)
    return sorted(unfinished, key=lambda run: run.created_ms, reverse=True)[:limit]


async def _find_run(storage: "Storage", owner: str, thread: str | None, run_id: str) -> "Run":
    from callsheet.state.errors import Missing  # noqa: PLC0415 -- help needs no storage
    from callsheet.storage.runs.runs import Runs  # noqa: PLC0415

    runs = Runs(storage)
    # The thread of a stateless run has the run's id.
    matches = [
        run for run in await runs.open_runs(owner) if run.id == run_id and thread in {None, run.thread}
    ]
    try:
        run = matches[0] if matches else await runs.get(thread or run_id, run_id)
    except Missing:
        run = None
    if run is None or run.owner != owner:
        hint = "" if thread else ", or give --thread if the run has ended"
        raise Missing(f"there is no run {run_id[:255]!r}", remedy=f"check the id{hint}")
    return run


async def _cancel_run(
    archive: "ThreadArchive", owner: str, thread: str | None, run_id: str, *, rollback: bool
) -> bool:
    from callsheet.server.engine.worker import WorkerOptions, running_worker  # noqa: PLC0415 -- help needs no storage
    from callsheet.state.errors import Conflict  # noqa: PLC0415
    from callsheet.storage.runs.runs import LEASE_S  # noqa: PLC0415

    run = await _find_run(archive.storage, owner, thread, run_id)
    if run.status not in {"pending", "running"}:
        raise Conflict(f"run {run_id!r} has ended already", remedy="see its result: callsheet runs show")
    async with running_worker(archive.storage, {}, WorkerOptions(LEASE_S), executes=False) as worker:
        return await worker.cancel(run.thread, run.id, "rollback" if rollback else "interrupt")


def _status(run: "Run") -> str:
    return f"{run.status}, cancelling" if run.cancel and run.status in {"pending", "running"} else run.status
