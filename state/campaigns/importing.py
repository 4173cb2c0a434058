"""Campaigns from the rows of a file, and refused rows with all their faults.

Nothing is changed silently. What a text may mean in two ways, the whole file decides: whether `05/01/2026`
has the day first, whether `12.500` has thousands, whether `Travel` is one of the known value propositions. A
cell of an optional column that cannot be read is left out with a warning; a row without a required value is
refused.
"""

import ast
import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from callsheet.state.campaigns import amounts, days
from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.headings import SIGNS, SYMBOLS, Columns, map_columns
from callsheet.state.campaigns.reading import match_value, plain_words
from callsheet.state.errors import Invalid

ABSENT: Final = frozenset(
    {"", "null", "n/a", "#n/a", "na", "nan", "none", "nil", "-", "--", "—", "(blank)", "(none)", "\\n"}
)
"""Cells without a value, in lower case."""
_DAY: Final = "capture_date"
_VALUE_PROPS: Final = "key_value_props"
_REQUIRED: Final = frozenset(name for name, field in Campaign.model_fields.items() if field.is_required())
_LISTS: Final = frozenset({"incentives", "key_value_props", "imagery_demographics", "image_s3_urls"})
_NUMBERS: Final = frozenset({"volume", "volume_max", "spend", "spend_max"})
_DECIDING: Final = _NUMBERS | {_DAY, _VALUE_PROPS}
_ENUMS: Final = {"imagery_sentiment": "sentiment", "imagery_visual_style": "visual_style"}
_SEPARATOR: Final = re.compile(r"[;|]")
_BLANKS: Final = re.compile(r"[\s_-]+")
_COLUMN: Final = "in its column"
_AMOUNT: Final = "beside an amount"
_SIGN: Final = "as the sign of an amount"
_HEADING: Final = "in the name of a column"
_PLACES: Final = (_COLUMN, _AMOUNT, _HEADING, _SIGN)
"""Places that name a currency; the first one wins."""
_REMEDIES: Final = {
    _DAY: "write it as 2026-10-31",
    "volume": "write it as 12000",
    "spend": "write it as 12000.50",
}
_LIMITS: Final = {"greater_than_equal": ("ge", "below", "more"), "less_than_equal": ("le", "above", "less")}
"""For a number beyond a limit: the limit's name, and words for its rule and remedy."""
_RESERVED_IDS: Final = (".", "..", "export")
"""Ids whose path would be another one."""
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a cell that a spreadsheet takes for a formula."""
_MAX_LITERAL: Final = 20_000
_MAX_WORDS: Final = 2_000
"""Different value propositions of a file that are compared with the known ones."""

Row = Mapping[str, Any] | Invalid
"""Cells by heading, or the reason why a row has none; a cell may be the reason why it has no value."""


class RefusedRow(NamedTuple):
    """A row that is not imported."""

    line: int
    """From 1; of JSON the number of the object."""
    reason: str
    """All its faults."""


class ImportedRow(NamedTuple):
    """A row that is imported."""

    line: int
    campaign: Campaign
    warnings: tuple[str, ...] = ()
    """Cells that are left out, or of which a part is."""
    readings: tuple[str, ...] = ()
    """Cells that are read otherwise than written."""


class ImportOptions(NamedTuple):
    """Choices of the person who imports."""

    mapping: Mapping[str, str] = {}
    """Fields by heading; an empty text leaves a column out."""
    defaults: Mapping[str, str] = {}
    """Values of fields that the file does not have."""


@dataclass
class Survey:
    """The decisions of the whole file about its cells."""

    columns: Columns = field(default_factory=Columns)
    order: days.Order | None = None
    decimal: amounts.Mark | None = None
    known_value_props: bool = False
    """True if every value proposition of the file is one of the known ones in other words."""
    notes: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    has_ids: bool = True


def survey(
    headings: Iterable[str],
    rows: Iterable[tuple[int, Row]],
    options: ImportOptions,
    *,
    semicolons: bool = False,
) -> Survey:
    """Return what the rows of a file decide together; `semicolons` is True if they separate its cells.

    Raises `Invalid` for options that do not fit the file.
    """
    columns = map_columns(headings, options.mapping)
    _check_defaults(options.defaults)
    evidence = _Evidence()
    deciding = {heading: name for heading, name in columns.fields.items() if name in _DECIDING}
    for _, row in rows:
        if not isinstance(row, Invalid):
            for heading, name in deciding.items():
                evidence.add(name, row.get(heading))
    return Survey(
        columns,
        evidence.orders.pop() if len(evidence.orders) == 1 else None,
        evidence.mark(semicolons=semicolons),
        not evidence.other_value_props,
        evidence.notes(),
        options.defaults,
        "id" in columns.fields.values(),
    )


class _Evidence:
    """Signs that the cells of a file show by themselves."""

    def __init__(self) -> None:
        self.orders: set[days.Order] = set()
        self._dotted = False
        self._marks: set[amounts.Mark] = set()
        self._value_props: set[str] = set()

    def add(self, name: str, value: Any) -> None:
        if name == _VALUE_PROPS and len(self._value_props) < _MAX_WORDS:
            self._value_props.update(part for part in _parts(_list(value)) if isinstance(part, str))
        elif not isinstance(value, str):
            return
        elif name == _DAY:
            self._dotted = self._dotted or days.is_dotted(value)
            if order := days.own_order(value):
                self.orders.add(order)
        elif name in _NUMBERS and ("." in value or "," in value):
            self._marks |= amounts.decimal_marks(value, is_count=name.startswith("volume"))

    @property
    def other_value_props(self) -> list[str]:
        """Value propositions that are none of the known ones, in order."""
        return sorted(part for part in self._value_props if not match_value("value_prop", part))

    def notes(self) -> tuple[str, ...]:
        others = self.other_value_props
        if not others or len(others) == len(self._value_props):
            return ()
        return (f"value propositions are kept as written, since {others[0]!r:.80} is none of the known ones",)

    def mark(self, *, semicolons: bool) -> amounts.Mark | None:
        if self._marks:
            return self._marks.pop() if len(self._marks) == 1 else None
        # A spreadsheet separates cells by semicolons where the comma is the decimal mark.
        return "," if semicolons and self._dotted else None


def _check_defaults(defaults: Mapping[str, str]) -> None:
    for name in defaults:
        if name not in Campaign.model_fields or name == "id":
            raise Invalid(
                f"defaults name the field {name[:80]!r}, which cannot have one",
                remedy=f"use one of {', '.join(one for one in Campaign.model_fields if one != 'id')}",
            )


def read_row(line: int, row: Row, decided: Survey) -> ImportedRow | RefusedRow:
    """Return a row as a campaign with warnings, or as refused with all its faults."""
    if isinstance(row, Invalid):
        return RefusedRow(line, row.message if not row.remedy else f"{row.message}; {row.remedy}")
    cells = _Cells(decided)
    for heading, name in decided.columns.fields.items():
        cells.add(heading, name, row.get(heading))
    cells.complete(row)
    return cells.row(line)


class _Cells:
    """The fields of one row, with its faults and warnings."""

    def __init__(self, decided: Survey) -> None:
        self._decided = decided
        self._fields: dict[str, Any] = {}
        self._faults: list[str] = []
        self._refused: set[str] = set()
        self._warnings: list[str] = []
        self._readings: list[str] = []
        self._currencies: dict[str, str] = {}
        """Currencies by the place that names them, as written there."""

    def add(self, heading: str, name: str, value: Any) -> None:
        """Read the cell of a column."""
        value = value.strip() if isinstance(value, str) else value
        if value is None or value == [] or (isinstance(value, str) and value.casefold() in ABSENT):
            return
        if isinstance(value, Invalid):
            self._leave_out_cell(name, value)
            return
        if isinstance(value, str):
            value = _without_apostrophe(value)
        try:
            self._read(name, value)
        except Invalid as error:
            self._faults.append(f"{name} is {value!r:.80}: {error.message}; {error.remedy}")
            self._refused.add(name)
        if name in {"spend", "spend_max"} and (currency := self._decided.columns.currencies.get(heading)):
            self._currencies[_HEADING] = currency

    def _leave_out_cell(self, name: str, reason: Invalid) -> None:
        text = f"{name} cannot be read: {reason.message}; {reason.remedy}"
        if name in _REQUIRED:
            self._faults.append(text)
            self._refused.add(name)
        else:
            self._warnings.append(f"{text}; the cell is left out")

    def complete(self, row: Mapping[str, Any]) -> None:
        """Add the currency, the defaults, and the id of a row of a file without ids."""
        self._settle_currency()
        for name, value in self._decided.defaults.items():
            if name not in self._fields:
                self.add("", name, value)
        if not self._decided.has_ids:
            text = json.dumps(row, ensure_ascii=True, sort_keys=True, default=str)
            self._fields["id"] = f"row-{sha256(text.encode()).hexdigest()[:16]}"

    def _settle_currency(self) -> None:
        """Keep the currency of the first of the places that name one, and warn of another one."""
        named = [(place, self._currencies[place]) for place in _PLACES if place in self._currencies]
        for place, currency in named[:1]:
            self._fields["currency"] = currency
            for other_place, other in named[1:]:
                if currency != other and currency not in SIGNS.get(other, ()):
                    self._warnings.append(
                        f"currency is {currency!r:.80} {place} and {other!r} {other_place}: "
                        f"{currency!r:.80} is kept"
                    )

    def row(self, line: int) -> ImportedRow | RefusedRow:
        """Return the row; a cell of an optional column that does not fit is left out with a warning."""
        for _ in range(2):
            try:
                campaign = Campaign.model_validate(self._fields)
            except ValidationError as error:
                self._leave_out(error)
            else:
                if not self._faults:
                    return ImportedRow(line, campaign, tuple(self._warnings), tuple(self._readings))
                break
        return RefusedRow(line, "; ".join(dict.fromkeys(self._faults)))

    def _leave_out(self, error: ValidationError) -> None:
        for one in error.errors(include_url=False):
            name = str(one["loc"][0])
            if one["type"] == "missing":
                if name not in self._refused:
                    self._faults.append(f"{name} is missing; every campaign has one")
                continue
            text = f"{name} is {one['input']!r:.80}: {_fault(name, one)}"
            if name in _REQUIRED:
                self._faults.append(text)
            elif self._fields.pop(name, None) is not None:
                self._warnings.append(f"{text}; the cell is left out")

    def _read(self, name: str, value: Any) -> None:
        """Set the field of a cell; raise `Invalid` for one that has two readings."""
        if name in _NUMBERS:
            self._read_number(name, value)
        elif name == "channel":
            self._fields[name] = self._channel(value)
        elif name == _VALUE_PROPS:
            self._fields[name] = self._value_props(value)
        elif name == _DAY:
            self._fields[name] = self._day(value)
        elif name == "currency":
            self._currencies[_COLUMN] = _currency(value)
        elif name in _LISTS:
            self._fields[name] = _list(value)
        elif name in _ENUMS and isinstance(value, str):
            self._fields[name] = match_value(_ENUMS[name], value) or value
        else:
            self._fields[name] = _text(name, value)

    def _read_number(self, name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            value = amounts.bounds_of(value)
        amount = (
            amounts.read_amount(value, self._decided.decimal, is_count=name.startswith("volume"))
            if isinstance(value, str)
            else None
        )
        if amount is None:
            self._set_number(name, value)
            return
        self._set_number(name, _plain_number(amount.low))
        if amount.high is not None and not name.endswith("_max"):
            self._set_number(f"{name}_max", _plain_number(amount.high))
        if amount.currency:
            # A sign such as $ leaves open which country's it is.
            is_code = amount.currency in str(value).upper()
            self._currencies[_AMOUNT if is_code else _SIGN] = amount.currency

    def _set_number(self, name: str, value: Any) -> None:
        """Set a number that a range and a column of its own may both name; the first one is kept."""
        kept = self._fields.setdefault(name, value)
        if kept is not value and kept != value:
            self._warnings.append(
                f"{name} is {kept!r:.80} and {value!r:.80} in this row: {kept!r:.80} is kept"
            )

    def _channel(self, value: Any) -> Any:
        names = _parts(_list(value)) if isinstance(value, str | list) else value
        if isinstance(names, list) and names and all(isinstance(one, str) for one in names):
            known = [self._known_channel(one) for one in names]
            if len(set(known)) > 1:
                self._warnings.append(
                    f"channel is {value!r:.80}: a campaign has one, so {known[0]!r} is kept"
                )
            return known[0]
        return value

    def _known_channel(self, written: str) -> str:
        if known := match_value("channel", written):
            return self._known("channel", written, known)
        channel = plain_words(written).replace(" ", "_")
        if channel and channel != _BLANKS.sub("_", written.casefold()):
            self._readings.append(f"channel {written!r:.80} is read as {channel!r}")
        return channel

    def _value_props(self, written: Any) -> Any:
        values = _list(written)
        if not isinstance(values, list):
            return values
        if not self._decided.known_value_props:
            # Commas separate only where no other sign does.
            is_plain = isinstance(written, str) and values == [written]
            return _parts(values) if is_plain else values
        return [
            self._known(_VALUE_PROPS, part, match_value("value_prop", part) or part)
            if isinstance(part, str)
            else part
            for part in _parts(values)
        ]

    def _known(self, name: str, written: str, value: str) -> str:
        """Return the value, and note it if it is another word than the written one."""
        if plain_words(written) != plain_words(value):
            self._readings.append(f"{name} {written!r:.80} is read as {value!r}")
        return value

    def _day(self, value: Any) -> Any:
        text = str(value) if type(value) in {int, float, str} else ""
        day = days.read_day(text, self._decided.order)
        if day and days.excel_day(text):
            self._readings.append(f"capture_date {text} is read as the day number of a spreadsheet: {day}")
        if day is None:
            raise Invalid("it is no date", remedy=_REMEDIES[_DAY])
        return day


def _fault(name: str, error: Mapping[str, Any]) -> str:
    """Return rule and remedy of a value that the validation of a campaign refuses."""
    if error["type"] in _LIMITS:
        limit, beyond, allowed = _LIMITS[error["type"]]
        number = f"{error['ctx'][limit]:.0f}"
        return f"it is {beyond} {number}; write {number} or {allowed}, or leave the cell empty"
    if name in _NUMBERS:
        stem = name.removesuffix("_max")
        return f"it is no {'whole ' * (stem == 'volume')}number; {_REMEDIES[stem]}"
    return str(error["msg"])


def _plain_number(number: Decimal) -> int | float:
    return int(number) if number == number.to_integral_value() else float(number)


def _text(name: str, value: Any) -> Any:
    if name == "id" and value in _RESERVED_IDS:
        raise Invalid("no address can name it", remedy="give the campaign another id")
    return str(value) if type(value) is int else value


def _currency(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return SYMBOLS.get(value.casefold(), value.upper())


def _list(value: Any) -> Any:
    """Return the items of a cell: JSON, a list as Python prints it, or texts separated by `;` or `|`."""
    if not isinstance(value, str):
        return value
    if value.startswith(("[", "{")) and value.endswith(("]", "}")) and len(value) <= _MAX_LITERAL:
        for read in (json.loads, ast.literal_eval):
            try:
                items = read(value)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            return [*items] if isinstance(items, list | tuple | set) else value
    return [part.strip() for part in _SEPARATOR.split(value) if part.strip()]


def _parts(values: Any) -> list[Any]:
    """Return the items of a list whose texts may hold several, separated by commas."""
    if not isinstance(values, list):
        return [values]
    parts = [part for item in values for part in (item.split(",") if isinstance(item, str) else [item])]
    stripped = [part.strip() if isinstance(part, str) else part for part in parts]
    return [part for part in stripped if part != ""]


def to_csv(campaigns: Iterable[Campaign], *, heading: bool = True) -> str:
    """Return campaigns as CSV with the fields as columns; an import of it changes nothing."""
    target = io.StringIO()
    names = [*Campaign.model_fields]
    writer = csv.writer(target)
    if heading:
        writer.writerow(names)
    for campaign in campaigns:
        data = campaign.model_dump(mode="json")
        writer.writerow([_cell(data[name]) for name in names])
    return target.getvalue()


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False) if value else ""
    text = "" if value is None else str(value)
    # A spreadsheet would run a cell that begins like a formula, and an import leave out a word for no value.
    return f"'{text}" if text and (text.startswith(_FORMULA) or text.strip().casefold() in ABSENT) else text


def _without_apostrophe(cell: str) -> str:
    """Return a cell without the apostrophe that `to_csv` puts before a formula and a word for no value."""
    text = cell[1:]
    protected = text.startswith(_FORMULA) or text.casefold() in ABSENT
    return text if cell.startswith("'") and text and protected else cell
