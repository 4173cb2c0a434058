"""A file of campaigns, read row by row into campaigns as JSON lines, with a report of what it holds."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import IO, Any, Final

from callsheet.state.campaigns.importing import (
    ImportedRow,
    ImportOptions,
    RefusedRow,
    Survey,
    read_row,
    survey,
)
from callsheet.state.errors import Invalid, Oversized, TooLarge
from callsheet.tools.campaigns.tables import MAX_ROWS, Kind, Table, open_table
from callsheet.tools.guard.sandbox import OnProgress, SandboxTask, TaskLimits, run_task

MAX_REPORTED: Final = 1_000
"""Most refused rows, and most warnings, that a report has."""
_MAX_READINGS: Final = 100
_MAX_REASON: Final = 1_000
_IN_PROCESS: Final = 1_000_000
"""Largest text, in bytes, that is read in a thread of this process."""


_LIMITS: Final = TaskLimits(memory_bytes=2**30, cpu_s=60.0, output_bytes=4_000_000)
_OPTIONS: Final = ImportOptions()


@dataclass(frozen=True)
class FileRequest:
    """A file to import, with the choices of the person."""

    kind: Kind
    options: ImportOptions = _OPTIONS
    encoding: str = ""
    """Empty to find out."""
    owner: str = ""


@dataclass
class FileReport:
    """The contents of a file."""

    campaigns: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)
    """The first refused rows, with all faults of each."""
    refused_count: int = 0
    warnings: list[tuple[int, str]] = field(default_factory=list)
    """The first cells that are left out."""
    warning_count: int = 0
    notes: list[str] = field(default_factory=list)
    """Values that are read otherwise than written."""
    columns: dict[str, str] = field(default_factory=dict)
    """Fields by heading."""
    ignored_columns: list[str] = field(default_factory=list)

    def add(self, row: ImportedRow | RefusedRow) -> None:
        """Add a row."""
        if isinstance(row, RefusedRow):
            self.refused_count += 1
            if len(self.refused) < MAX_REPORTED:
                self.refused.append((row.line, row.reason[:_MAX_REASON]))
            return
        self.campaigns += 1
        self.warning_count += len(row.warnings)
        for text in row.warnings[: MAX_REPORTED - len(self.warnings)]:
            self.warnings.append((row.line, text[:_MAX_REASON]))
        for text in row.readings:
            if text not in self.notes and len(self.notes) < _MAX_READINGS:
                self.notes.append(text)


async def read_file(
    source: IO[bytes], target: IO[bytes], request: FileRequest, limits: TaskLimits = _LIMITS
) -> FileReport:
    """Read the file `source` into `target`, one campaign as JSON a line, and return the report.

    A workbook and a large text are read in the sandbox. Raises `Invalid` for a file that cannot be read at
    all, and `TooLarge` beyond the limits.
    """
    # The sandbox reads the descriptor, which lacks what is still in this object's write buffer.
    await asyncio.to_thread(source.flush)
    size = await asyncio.to_thread(os.fstat, source.fileno())
    arguments: dict[str, Any] = {
        "kind": request.kind,
        "encoding": request.encoding,
        "mapping": dict(request.options.mapping),
        "defaults": dict(request.options.defaults),
    }
    if request.kind != "xlsx" and size.st_size <= _IN_PROCESS:
        fields = await asyncio.to_thread(_read, source, target, **arguments)
        return FileReport(**fields)
    files = {"source": source.fileno(), "target": target.fileno()}
    task = SandboxTask(
        "reading the file of campaigns",
        __name__,
        "read_in_sandbox",
        {**arguments, **files},
        owner=request.owner,
        files=tuple(files.values()),
    )
    try:
        return FileReport(**await run_task(task, limits))
    except Oversized as error:
        raise TooLarge(error.message, remedy="divide the file") from error


def read_in_sandbox(
    data: bytes, report: OnProgress, *, source: int, target: int, **arguments: Any
) -> dict[str, Any]:
    """Read one open file into another and return the fields of the report; runs in the sandbox process."""
    del data, report
    with os.fdopen(source, "rb") as readable, os.fdopen(target, "wb") as writable:
        return _read(readable, writable, **arguments)


def _read(
    source: IO[bytes],
    target: IO[bytes],
    *,
    kind: Kind,
    encoding: str,
    mapping: Mapping[str, str],
    defaults: Mapping[str, str],
) -> dict[str, Any]:
    source.seek(0)
    table = open_table(source.read(), kind, encoding)
    decided, report = _survey(table, ImportOptions(mapping, defaults))
    for row in read_rows(table, decided):
        report.add(row)
        if isinstance(row, ImportedRow):
            target.write(row.campaign.model_dump_json(exclude_defaults=True).encode() + b"\n")
    target.flush()
    return asdict(report)


def _survey(table: Table, options: ImportOptions) -> tuple[Survey, FileReport]:
    headings = table.headings()
    decided = survey(headings, table.rows(), options, semicolons=table.semicolons)
    columns = decided.columns
    report = FileReport(
        columns=dict(columns.fields),
        ignored_columns=list(columns.ignored),
        notes=[*table.notes, *decided.notes],
    )
    if not decided.has_ids and columns.fields:
        report.notes.append("the file has no ids, so each row has one that follows from its cells")
    return decided, report


def read_rows(table: Table, decided: Survey) -> Iterator[ImportedRow | RefusedRow]:
    """Yield the rows of a file; one with the id of an earlier row is refused."""
    seen: dict[str, int] = {}
    for number, (line, cells) in enumerate(table.rows()):
        if number >= MAX_ROWS:
            raise Invalid(f"the file has more than {MAX_ROWS} rows", remedy="divide it")
        row = read_row(line, cells, decided)
        if isinstance(row, ImportedRow) and (first := seen.setdefault(row.campaign.id, line)) != line:
            row = RefusedRow(line, f"id {row.campaign.id!r} was in line {first} already; ids are unique")
        yield row
