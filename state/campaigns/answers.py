"""Answers made of statements, each checked by look-up in the campaigns that it cites.

A statement names what it claims, and code finds what its words claim besides: names, values, months, numbers,
and words for all, only, none, most and more. Each claim must hold in the cited campaigns; a claim about many
must be a count of a filter or a word search, or follow from such counts.
"""

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from callsheet.state.campaigns import comparisons
from callsheet.state.campaigns import mentions as words
from callsheet.state.campaigns.counting import (
    amount_name,
    explains,
    figures_of,
    follows,
    is_all,
    is_fraction,
    is_largest,
    is_majority,
    is_more,
    is_none,
)
from callsheet.state.campaigns.days import days_in
from callsheet.state.campaigns.evidence import (
    SINGLE,
    Campaign,
    SearchEvidence,
    fold,
    has_value,
    stems,
    text_of,
)
from callsheet.state.campaigns.mentions import Mention, by_dimension
from callsheet.state.campaigns.quantities import BOUND_FIGURE, Quantity, joined_digits, quantities
from callsheet.state.campaigns.reading import DIMENSIONS, VALUES_OF, match_value
from callsheet.state.figures import figures, number, spelled_numbers

_ID: Final = re.compile(r"\b[a-z]{1,3}-\d{3,}\b")
_LIST_NUMBER: Final = re.compile(r"^\s*\d+[.)] ")
_IN_COPY: Final = frozenset({"value_prop", "product", "visual_style"})
"""Dimensions whose words may stand in a campaign's copy."""
_DENIAL: Final = 12
"""Characters from a word for none on that the copy has, too, where it denies the same."""
MAX_STATEMENTS: Final = 40
MAX_TEXT: Final = 4_000
"""Characters of a statement."""


class Statement(BaseModel):
    """A sentence of the answer, with what proves it."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=MAX_TEXT)
    campaigns: list[str] = Field(default=[], max_length=50, description="Ids, such as c-0012")
    companies: list[str] = Field(default=[], max_length=50)
    offers: list[str] = Field(default=[], max_length=50, description="Word for word")
    values: list[str] = Field(
        default=[], max_length=50, description="Channels, sentiments, value props, styles, products"
    )
    figures: list[float] = Field(default=[], max_length=100, description="Counts, sums, shares, spends")
    dates: list[str] = Field(default=[], max_length=50, description="Days or months: 2026-03")
    order: list[str] = Field(
        default=[], max_length=50, description="If the text compares: values, the largest count first"
    )


class Answer(BaseModel):
    """The answer to the person."""

    model_config = ConfigDict(extra="forbid")

    statements: list[Statement] = Field(min_length=1, max_length=MAX_STATEMENTS)
    suggestions: list[str] = Field(default=[], max_length=5, description="Questions that could follow")


@dataclass(frozen=True)
class Subject:
    """The campaigns and companies that a statement is about."""

    campaigns: tuple[str, ...] = ()
    """Ids."""
    companies: frozenset[str] = frozenset()
    """Folded names."""


def problems_of(statements: Sequence[Statement], evidence: SearchEvidence) -> list[list[str]]:
    """Return for each statement of an answer what it claims without support.

    One that begins with a pronoun or a label, or is an item of a list, is about the subject before it.
    """
    results: list[list[str]] = []
    subject = Subject()
    for one in statements:
        check = _Check(one, evidence, subject if words.GOES_ON.search(one.text) else Subject())
        results.append([*dict.fromkeys(check.problems())])
        subject = check.subject
    return results


def problems(statement: Statement, evidence: SearchEvidence) -> list[str]:
    """Return what a statement claims without support; empty for a supported one."""
    return problems_of([statement], evidence)[0]


def is_supported_question(text: str, evidence: SearchEvidence) -> bool:
    """Return whether the results have the figures, names and gifts of a question; its values may be new."""
    if not text.strip():
        return False
    check = _Check(Statement(text=text[:MAX_TEXT]), evidence)
    counted = [each for one in evidence.sets for each in figures_of(one)]
    known = [*counted, *(each for one in evidence.campaigns.values() for each in _numbers_of(one))]
    return all(any(map(one.fits, known)) for one in check.quantities) and not [*check.name_problems()]


@dataclass(frozen=True)
class _Check:
    """The check of one statement."""

    statement: Statement
    evidence: SearchEvidence
    before: Subject = Subject()
    """The subject that the statement goes on about, where it names none."""

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The campaigns that the fields and the words name."""
        return (*dict.fromkeys([*self.statement.campaigns, *_ID.findall(self.statement.text)]),)

    @cached_property
    def subject(self) -> Subject:
        """The campaigns and companies that the statement names, else those before it."""
        own = Subject(self.ids, self._own_companies)
        return own if own.campaigns or own.companies else self.before

    @cached_property
    def _own_companies(self) -> frozenset[str]:
        fields = frozenset(self._company(one) for one in self.statement.companies)
        return fields | words.companies_in(self.statement.text, self.evidence)

    @cached_property
    def cited(self) -> list[Campaign]:
        known = self.evidence.campaigns
        return [known[name] for name in self.subject.campaigns if name in known]

    @cached_property
    def pool(self) -> Sequence[Campaign]:
        """The campaigns that the statement may be about."""
        if self.cited:
            return self.cited
        every, named = [*self.evidence.campaigns.values()], self.subject.companies
        return [one for one in every if not named or any(has_value(one, "company", name) for name in named)]

    @cached_property
    def _readable_text(self) -> str:
        """The words with the names, each at the place that it has in `text`."""
        # Before NFKC, which makes the blanks between thousands ordinary ones.
        text = unicodedata.normalize("NFKC", joined_digits(self.statement.text))
        return _LIST_NUMBER.sub(" ", words.UNSEEN.sub(" ", text))

    @cached_property
    def _read(self) -> tuple[list[Mention], str]:
        text = self._readable_text
        for _, start, end in days_in(text):
            text = text[:start] + " " * (end - start) + text[end:]
        text = words.mask(text, self.evidence.campaigns)
        text = words.mask(text, [one["offer"] for one in self.pool if one["offer"]])
        text = words.mask(text, [one for one in self.statement.offers if self._is_offer(one)])
        return words.read_mentions(text, self.evidence)

    @property
    def text(self) -> str:
        """The words without the names, values, offers and days in them."""
        return self._read[1]

    @cached_property
    def mentions(self) -> list[Mention]:
        """The values that the text names, then those of the fields."""
        read = self._read[0]
        named = {(one.dimension, one.value) for one in read}
        declared = [
            one for one in self._field_mentions() if one.value and (one.dimension, one.value) not in named
        ]
        return [*read, *declared]

    def _field_mentions(self) -> Iterator[Mention]:
        yield from (Mention("company", self._company(one)) for one in self.statement.companies)
        yield from (Mention("month", one[:7]) for one in self.statement.dates)
        for value in (*self.statement.values, *self.statement.order):
            yield self._value(value)

    def _company(self, name: str) -> str:
        names = {fold(one): company for one, company in self.evidence.companies.items()}
        return names.get(fold(name), fold(name))

    def _value(self, text: str) -> Mention:
        """Return the mention of a declared value, of whatever dimension."""
        if fold(text) in {fold(one) for one in self.evidence.companies}:
            return Mention("company", self._company(text))
        if own := sorted(pair for pair in words.own_values(self.evidence) if pair[1] == fold(text)):
            return Mention(*own[0])
        for name in VALUES_OF:
            if value := match_value(name, text):
                return Mention(name, fold(value))
        for one in self.evidence.sets:
            for name, values in one.included.items():
                if fold(text) in values or text in values:
                    return Mention(name, text if name == "month" else fold(text))
        return Mention("product", fold(text))

    def problems(self) -> Iterator[str]:
        """Yield what is not supported."""
        known = self.evidence.campaigns
        yield from (f"campaign {one!r} was not returned" for one in self.ids if one not in known)
        yield from (
            f"offer {one!r} is not among them" for one in self.statement.offers if not self._is_offer(one)
        )
        yield from self.name_problems()
        yield from ["it names no campaign"] if self._lacks_subject else self._value_problems()
        yield from self._day_problems()
        yield from self._figure_problems()
        yield from self._scope_problems()
        if words.DONE.search(self.statement.text):
            yield "nothing was done but searching, which changes nothing"

    def _is_offer(self, text: str) -> bool:
        wanted = _plain(text)
        return any(wanted and wanted in _plain(one["offer"]) for one in self.pool)

    def name_problems(self) -> Iterator[str]:
        """Yield names and gifts that the results do not have."""
        if words.NOT_ABLE.search(self.statement.text):
            return
        offered = frozenset().union(*(self.evidence.stems_of(one) for one in self.pool))
        known = offered | self.evidence.named_stems | _USUAL_STEMS
        yield from (f"name {one!r} is not among them" for one in words.unknown_names(self.text, known))
        yield from (f"offer {one!r} is not among them" for one in words.unknown_gifts(self.text, offered))

    def _value_problems(self) -> Iterator[str]:
        end = words.clause_end(self.text, words.ABOUT_MYSELF)
        if end == len(self.text):
            return
        named = [one for one in self.mentions if not 0 <= one.start < end]
        included, excluded = by_dimension(named), by_dimension(named, negated=True)
        if self.cited:
            for name, values in included.items():
                if name != "month" and not self._hold(name, values):
                    yield f"{name} {', '.join(sorted(values))} is not what the named campaigns have"
            for name, values in excluded.items():
                if any(has_value(one, name, value) for one in self.cited for value in values):
                    yield f"{name} {', '.join(sorted(values))} is what the named campaigns have"
            yield from self._clause_problems()
            return
        for name, values in included.items():
            unknown = [value for value in sorted(values) if not self._occurs(name, value)]
            yield from (f"{name} {value!r} is not among them" for value in unknown)

    def _clause_problems(self) -> Iterator[str]:
        """Yield values that stand in the clause of another campaign than theirs."""
        for start, end in words.clause_spans(self.text):
            ids = _ID.findall(self._readable_text[start:end])
            own = [one for one in self.cited if one["id"] in ids]
            in_clause = [one for one in self.mentions if start <= one.start < end]
            named = [pair for pair in by_dimension(in_clause).items() if pair[0] in SINGLE]
            yield from (
                f"{name} {', '.join(sorted(values))} is not what {one['id']} has"
                for one, (name, values) in itertools.product(own, named)
                if not any(self._has(one, name, value) for value in values)
            )

    @property
    def _lacks_subject(self) -> bool:
        """True if `it` has a value and no figure, and may be any of several campaigns."""
        is_open = words.IT.search(self.text) and self.mentions and not self.quantities
        return bool(is_open and self.subject == Subject() and len(self.evidence.campaigns) > 1)

    def _hold(self, name: str, values: frozenset[str]) -> bool:
        """Return whether the cited campaigns have the values: each of one, and each value in one."""
        every = all(any(self._has(one, name, value) for value in values) for one in self.cited)
        return every and all(any(self._has(one, name, value) for one in self.cited) for value in values)

    def _has(self, campaign: Campaign, name: str, value: str) -> bool:
        in_copy = name in _IN_COPY and stems([value]) <= self.evidence.stems_of(campaign)
        return in_copy or has_value(campaign, name, value)

    def _occurs(self, name: str, value: str) -> bool:
        """Return whether a search was about a value, or returned it."""
        companies = self.subject.companies
        sets = [
            one
            for one in (*(one.set for one in self.evidence.results), *self.evidence.rows)
            if not companies or one.included.get("company", companies) & companies
        ]
        is_named = any(
            value in one.included.get(name, ()) or value in one.excluded.get(name, ()) for one in sets
        )
        return (
            is_named
            or any(self._has(one, name, value) for one in self.pool)
            or (name == "month" and any(value in day for one in sets for day in one.days))
        )

    def _day_problems(self) -> Iterator[str]:
        months = by_dimension(self.mentions).get("month", frozenset())
        if self.cited and months:
            outside = [
                one for one in self.cited if not any(has_value(one, "month", month) for month in months)
            ]
            if outside:
                yield f"month {', '.join(sorted(months))} is not that of {outside[0]['id']}"
        days = {str(one["capture_date"]) for one in self.pool} | {
            day for one in self.evidence.results for day in one.set.days
        }
        for readings, _, _ in days_in(self.statement.text):
            if not any(str(one) in days for one in readings):
                yield f"day {min(readings)} was not returned"
        for day in (*self.statement.dates, *re.findall(r"\b[12]\d{3}-\d\d-\d\d\b", self.statement.text)):
            rows = any(day in one.included.get("month", ()) for one in self.evidence.rows)
            if not day or not (rows or any(one.startswith(day) for one in days)):
                yield f"date {day!r} was not returned"

    def _figure_problems(self) -> Iterator[str]:
        own = {value for one in self.cited for value in _numbers_of(one)}
        size = {float(len(self.cited))} if self.cited else set()
        bound = []
        for one in self.quantities:
            near = own | (self._copy_numbers if one.is_marked else size)
            if any(map(one.fits, self._near_numbers(one, near))) or self._is_size_of_all(
                one.shown, one.values
            ):
                continue
            if not self._is_explained(one):
                yield f"figure {one.shown!r} was not returned, nor follows from counts"
            elif not (one.is_share or one.is_rank):
                bound.append(one)
        for name in SINGLE:
            named = [one.value for one in self.mentions if one.dimension == name and not one.is_negated]
            if 1 < len(named) <= len(bound) and len({*named}) == len(named):
                yield from self._order_problems(name, named, bound)

    def _near_numbers(self, one: Quantity, numbers: AbstractSet[float]) -> AbstractSet[float]:
        """Return those of the campaigns' numbers that a figure may mean.

        Most campaigns have some number that is more, or less: it must be the amount that the text is about,
        or stand in the copy and be of the same size.
        """
        if one.bound not in {"more", "less"}:
            return numbers
        name = amount_name(self.text)
        amounts = {float(each[name]) for each in self.cited if name and each[name]}
        others = {each[other] for each in self.cited for other in ("spend", "volume") if name} - amounts
        alike = {each for each in numbers for value in one.values if value / 2 <= each <= 2 * value}
        return amounts | (alike - others)

    def _is_explained(self, one: Quantity) -> bool:
        """Return whether a figure is that of the values named in its clause, or follows from all of them."""
        start, end = one.span
        in_clause = [each for each in self.mentions if start <= each.start < end]
        dimensions = {each.dimension for each in in_clause} & SINGLE
        others = [each for each in self.mentions if each.dimension not in dimensions]
        named = [*(each for each in in_clause if each.dimension in dimensions), *others]
        if explains(self.evidence, named, one, self.text):
            return True
        return len(named) < len(self.mentions) and follows(self.evidence, self.mentions, one, self.text)

    @cached_property
    def _copy_numbers(self) -> set[float]:
        """Numbers of the campaigns of a company or an offer that the statement names."""
        has_source = self.statement.offers or by_dimension(self.mentions).get("company")
        return {value for one in self.pool for value in _numbers_of(one)} if has_source else set()

    def _is_size_of_all(self, shown: str, values: frozenset[float]) -> bool:
        """Return whether a figure is the size of the whole of which the statement names a part: "of 360"."""
        pattern = rf"\b(?:of|von|de|sur|dari|z)\W+(?:(?:all|the|las|los|den|des|les)\W+)*{re.escape(shown)}"
        larger_sets = {larger.count for _, larger in self.evidence.nested}
        return bool(values & larger_sets and re.search(pattern, self.text, re.IGNORECASE))

    def _order_problems(self, name: str, named: Sequence[str], bound: Sequence[Quantity]) -> Iterator[str]:
        """Yield a figure that belongs to another value than the one in its place."""
        included, excluded = by_dimension(self.mentions), by_dimension(self.mentions, negated=True)
        table = self.evidence.table(name, excluded, included)
        known = [
            each for row in table.values() for each in (row.count, row.spend, row.volume) if each is not None
        ]
        own = [one for one in bound if any(map(one.fits, known))]
        for value, figure in zip(named, own, strict=False) if len(own) == len(named) else ():
            row = table.get(value)
            if row and not any(map(figure.fits, figures_of(row))):
                yield f"figure {figure.shown} is not that of {value}"

    @cached_property
    def quantities(self) -> list[Quantity]:
        """The numbers of the text, and those of the fields that it lacks."""
        text = self.text
        for fraction in words.FRACTIONS.values():
            text = fraction.sub(lambda match: " " * len(match[0]), text)
        read = [*quantities(text)]
        seen = {value for one in read for value in one.values}
        declared = (one for one in self.statement.figures if one not in seen)
        return [
            *read,
            *(
                Quantity(f"{one:g}", frozenset({one}), step=_half_digit(one), is_share=True, is_marked=True)
                for one in declared
            ),
        ]

    def _scope_problems(self) -> Iterator[str]:
        """Yield claims about all, none, most and more that no count proves."""
        text = words.without_offer(words.without_idioms(self.text))
        if not text:
            return
        mentions, evidence = self.mentions, self.evidence
        if words.ALL.search(text) and not (self._cites_all() or is_all(evidence, mentions, text)):
            yield "all or only is not proven: it needs a filter or a word search that shows it"
        if words.NONE.search(text) and not (self._denies_of_cited() or is_none(evidence, mentions, text)):
            yield "none is not proven: it needs a filter or a word search without a match"
        if not self.cited and words.THESE.search(text):
            single = [one for one in mentions if one.dimension in SINGLE]
            if not is_all(evidence, single, text, shown=True):
                yield "these campaigns do not all have it"
        yield from self._share_problems(text)
        yield from self._comparison_problems(text)
        yield from comparisons.problems(text, mentions, evidence, self.cited)

    def _share_problems(self, text: str) -> Iterator[str]:
        """Yield shares and ranks in words that do not follow from counts."""
        mentions, evidence = self.mentions, self.evidence
        if words.MAJORITY.search(text) and not is_majority(evidence, mentions):
            yield "most is not proven by counts"
        for percent, fraction in words.FRACTIONS.items():
            if fraction.search(text) and not (self.cited or is_fraction(evidence, mentions, percent)):
                yield f"a share of {percent:.0f} % is not proven by counts"
        for sign, pattern in ((1, words.LARGEST), (-1, words.SMALLEST)):
            is_claimed = pattern.search(text) and (mentions or self.cited)
            if is_claimed and not is_largest(evidence, mentions, text, sign=sign):
                yield "the largest or smallest is not proven: it needs group_by"

    def _comparison_problems(self, text: str) -> Iterator[str]:
        order = [self._value(one) for one in self.statement.order]
        sign = -1 if words.LESS.search(text) and not order else 1
        text = BOUND_FIGURE.sub(" ", text)
        if not (order or words.MORE.search(text) or words.LESS.search(text)):
            return
        compared = order or _same_dimension([one for one in self.mentions if one.start >= 0])
        if len(compared) < 2:  # noqa: PLR2004 -- a comparison has two sides
            if not self.cited and not words.LARGEST.search(text) and not words.SMALLEST.search(text):
                yield "a comparison is not proven: name what is compared in order"
        elif not is_more(self.evidence, self.mentions, compared, text, sign=sign):
            yield f"the counts are not in the order {', '.join(one.value for one in compared)}"

    def _cites_all(self) -> bool:
        """Return whether the cited campaigns are all that is spoken of: "all three", or a complete result."""
        numbered = {value for one in self.quantities for value in one.values}
        ids = {one["id"] for one in self.cited}
        results = [one for one in self.evidence.results if one.is_complete and one.campaigns]
        is_complete = any({each["id"] for each in one.campaigns} <= ids for one in results)
        return bool(ids) and (is_complete or float(len(ids)) in numbered)

    def _denies_of_cited(self) -> bool:
        """Return whether cited campaigns are denied a value, which `_value_problems` has looked up."""
        return bool(self.cited) and bool(by_dimension(self.mentions, negated=True) or self._denied_in_copy())

    def _denied_in_copy(self) -> bool:
        """Return whether the copy of a cited campaign denies the same itself: "no annual fees"."""
        denials = [
            self.text[match.start() :][:_DENIAL].casefold() for match in words.NONE.finditer(self.text)
        ]
        return any(part in text_of(one).casefold() for part in denials for one in self.cited)


def _same_dimension(mentions: Sequence[Mention]) -> list[Mention]:
    """Return the mentions of the first dimension that has two."""
    for one in mentions:
        same = [each for each in mentions if each.dimension == one.dimension]
        if len({each.value for each in same}) > 1:
            return same[:2]
    return []


def _numbers_of(campaign: Campaign) -> set[float]:
    """Return the numbers of a campaign's fields."""
    text = text_of(campaign)
    spelled = {value for one in spelled_numbers(text) for value in one}
    return {value for one in figures(text) if (value := number(one)) is not None} | spelled


def _half_digit(value: float) -> float:
    return 0.5 * 10.0 ** -len(f"{value:g}".partition(".")[2])


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .")


_USUAL_TEXT: Final = """
campaigns ads offers companies brands library filter search results answer question total spend volume share
month january february march april may june july august september october november december monday tuesday
wednesday thursday friday saturday sunday here there these those they them this that it its i we you he she
what which who when where how why if in on at by for from of to with without and or but not no yes none all
each every both most many several some few more less fewer only also then than other others another one two
three the a an as is are was were has have had hello hi sorry thanks please ask me my your our nothing
everything something nobody everyone together compared between among about after before during since until
first last next second third english usd eur gbp
"""
_USUAL_STEMS: Final = stems([_USUAL_TEXT, *DIMENSIONS, *(each for one in VALUES_OF.values() for each in one)])
"""Words that are no names, though a capital letter may begin them."""
