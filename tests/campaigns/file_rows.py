"""Rows of a file of campaigns, for tests."""

from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.importing import ImportedRow, ImportOptions, RefusedRow, survey
from callsheet.tools.campaigns.file_reading import read_rows
from callsheet.tools.campaigns.tables import Kind, open_table

_OPTIONS = ImportOptions()


def imported_rows(
    content: bytes, kind: Kind = "csv", options: ImportOptions = _OPTIONS, encoding: str = ""
) -> list[ImportedRow | RefusedRow]:
    """Return the rows of a file with their warnings."""
    table = open_table(content, kind, encoding)
    decided = survey(table.headings(), table.rows(), options, semicolons=table.semicolons)
    return list(read_rows(table, decided))


def file_rows(content: str | bytes, kind: Kind = "csv") -> list[Campaign | RefusedRow]:
    """Return the rows of a file as campaigns and refusals."""
    rows = imported_rows(content if isinstance(content, bytes) else content.encode(), kind)
    return [row.campaign if isinstance(row, ImportedRow) else row for row in rows]
