"""Full text of the campaigns' copy in tantivy, with the same exact conditions as the columns."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import tantivy

from callsheet.state.campaigns.campaign import CHANNELS, SENTIMENTS, VALUE_PROPS, VISUAL_STYLES, Campaign
from callsheet.state.campaigns.filters import DateRange, Filters, Values
from callsheet.storage.campaigns.words import Phrase, Query, copy_text, normalize

SNIPPET_CHARS: Final = 160
_ANALYZER: Final = "copy"
_WRITER_BYTES: Final = 64_000_000
_TERMS: Final[Mapping[str, Sequence[str]]] = {
    "channel": CHANNELS,
    "value_prop": VALUE_PROPS,
    "sentiment": SENTIMENTS,
    "visual_style": VISUAL_STYLES,
    "company": (),
    "product": (),
}
"""Fields of exact values; a name of a company or product is stored without case."""


class Hit(NamedTuple):
    """A row and its score (BM25)."""

    row: int
    score: float


class TextIndex:
    """The words of every row; in memory without a folder.

    Opening it twice is safe; of two writers at once, in any process, the second fails.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._schema = _schema()
        if folder:
            folder.mkdir(exist_ok=True)
        self._index = tantivy.Index(self._schema, str(folder) if folder else None)
        self._analyzer = _analyzer()
        self._index.register_tokenizer(_ANALYZER, self._analyzer)

    def write(self, campaigns: Mapping[int, Campaign], dead: Sequence[int]) -> None:
        """Add campaigns by row and remove dead rows, all or nothing. Twice is safe."""
        writer = self._index.writer(_WRITER_BYTES, 1)
        try:
            for row in (*dead, *campaigns):
                writer.delete_documents_by_term("row", row)
            for row, campaign in campaigns.items():
                writer.add_document(self._document(row, campaign))
            writer.commit()
        finally:
            # Releases the lock.
            writer.wait_merging_threads()
        self.reload()

    def reload(self) -> None:
        """Show searches what was committed, by any process."""
        self._index.reload()

    def search(self, query: Query, filters: Filters, limit: int) -> tuple[list[Hit], int]:
        """Return the best rows and the number of all."""
        if not query.phrases or not limit:
            return [], 0
        must, must_not = tantivy.Occur.Must, tantivy.Occur.MustNot
        parts = [(must, self._phrase(phrase)) for phrase in query.phrases]
        parts += [(must, self._free(condition)) for condition in self._conditions(filters)]
        parts += [(must_not, condition) for condition in self._terms(filters.exclude)]
        searcher = self._index.searcher()
        result: Any = searcher.search(tantivy.Query.boolean_query(parts), limit)
        rows = searcher.fast_field_values("row", [address for _, address in result.hits])
        hits = [Hit(int(row or 0), float(score)) for row, (score, _) in zip(rows, result.hits, strict=True)]
        return hits, int(result.count)

    def snippets(self, query: Query, texts: Sequence[str]) -> list[str]:
        """Return the words around the first match in each text."""
        parts = [(tantivy.Occur.Should, self._phrase(phrase)) for phrase in query.phrases]
        matching = tantivy.Query.boolean_query(parts)
        generator = tantivy.SnippetGenerator.create(self._index.searcher(), matching, self._schema, "copy")
        generator.set_max_num_chars(SNIPPET_CHARS)
        snippets = []
        for text in texts:
            document = tantivy.Document()
            document.add_text("copy", text)
            snippets.append(generator.snippet_from_doc(document).fragment().strip() or text[:SNIPPET_CHARS])
        return snippets

    def _document(self, row: int, campaign: Campaign) -> tantivy.Document:
        return tantivy.Document.from_dict(
            {
                "row": row,
                "copy": normalize(copy_text(campaign)),
                "channel": campaign.channel,
                "company": [campaign.company.casefold(), campaign.brand.casefold()],
                "product": campaign.primary_product.casefold(),
                "value_prop": list(campaign.key_value_props),
                "sentiment": campaign.imagery_sentiment or "",
                "visual_style": campaign.imagery_visual_style or "",
                "has_offer": bool(campaign.offer.strip()),
                "day": campaign.capture_date.toordinal(),
            },
            self._schema,
        )

    def _phrase(self, phrase: Phrase) -> tantivy.Query:
        terms = self._analyzer.analyze(" ".join(phrase))
        if len(terms) == 1:
            return tantivy.Query.term_query(self._schema, "copy", terms[0], "freq")
        return tantivy.Query.phrase_query(self._schema, "copy", list(terms))

    def _free(self, condition: tantivy.Query) -> tantivy.Query:
        """Return a condition that does not change the score."""
        return tantivy.Query.const_score_query(condition, 0.0)

    def _conditions(self, filters: Filters) -> list[tantivy.Query]:
        conditions = self._terms(filters)
        if filters.has_offer is not None:
            conditions.append(tantivy.Query.term_query(self._schema, "has_offer", filters.has_offer, "basic"))
        if filters.date_range and (filters.date_range.start or filters.date_range.end):
            conditions.append(self._days(filters.date_range))
        return conditions

    def _terms(self, values: Values) -> list[tantivy.Query]:
        return [
            tantivy.Query.term_set_query(self._schema, field, _terms(field, chosen))
            for field in _TERMS
            if (chosen := getattr(values, field))
        ]

    def _days(self, days: DateRange) -> tantivy.Query:
        return tantivy.Query.range_query(
            self._schema,
            "day",
            tantivy.FieldType.Integer,
            days.start.toordinal() if days.start else None,
            days.end.toordinal() if days.end else None,
        )


def _terms(field: str, values: Sequence[str]) -> list[str]:
    return list(values) if _TERMS[field] else [value.strip().casefold() for value in values]


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    # Signed: tantivy-py deletes nothing by a term of an unsigned field.
    builder.add_integer_field("row", indexed=True, fast=True)
    builder.add_text_field("copy", tokenizer_name=_ANALYZER)
    for field in _TERMS:
        builder.add_text_field(field, tokenizer_name="raw", index_option="basic")
    builder.add_boolean_field("has_offer", indexed=True)
    builder.add_integer_field("day", indexed=True, fast=True)
    return builder.build()


def _analyzer() -> tantivy.TextAnalyzer:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for part in (tantivy.Filter.lowercase(), tantivy.Filter.ascii_fold(), tantivy.Filter.stemmer("english")):
        builder = builder.filter(part)
    return builder.build()
