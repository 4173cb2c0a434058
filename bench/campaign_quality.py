"""Quality of campaign search on the labelled questions in `evals/cases/campaign_search.jsonl`.

A line has the `question`, the `tool`, its `filters`, the `words` to look for, and the `ids` of the campaigns
that answer it; a question about meaning is its own query. For each tool the table has recall@10 (of ten
places, or fewer where fewer campaigns answer) and the mean reciprocal rank, compared with plain BM25 and
plain embeddings of a campaign's complete text, both for the question's own words. The spread is that of the
mean over samples of the questions (p5 to p95).

Questions about meaning are in two halves, by a digest of their words: constants of the search are chosen by
the tuned half alone, and the held-out half says how it does on questions that it was not made for. Both
have questions of `campaign_further.jsonl`, too, in other words than the campaigns' and about products.

Below the table are the questions of each half that find anything, and the queries of `campaign_nonsense.txt`,
about nothing that an ad library has, that find nothing.
"""

import asyncio
import hashlib
import json
import math
import random
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from bench import size
from callsheet.state.campaigns.campaign import Campaign
from callsheet.state.campaigns.filters import Filters
from callsheet.state.campaigns.reading import LooseFilters, resolve_filters
from callsheet.state.campaigns.sample import sample_campaigns
from callsheet.storage.campaigns.embedded import EmbeddedIndex
from callsheet.storage.campaigns.embeddings import OfflineEmbeddings
from callsheet.storage.campaigns.index import TextField
from callsheet.storage.campaigns.sample import SampleRecords
from callsheet.storage.campaigns.vectors import unit_vectors
from callsheet.storage.campaigns.words import embedding_texts, normalize
from evals.campaigns import labelled_questions

PLACES: Final = 10
MEANING: Final = "meaning"
_SAMPLES: Final = size(1_000, short=20)
_K1: Final = 1.2
_B: Final = 0.75


class LabelledQuestion(NamedTuple):
    """A labelled question."""

    text: str
    tool: str
    filters: Filters
    words: Sequence[str]
    """Words and phrases to search for, in an offer or in the copy."""
    ids: frozenset[str]


Search = Callable[[LabelledQuestion], Awaitable[Sequence[str]]]


def main() -> int:
    """Print the table."""
    asyncio.run(_measure())
    return 0


def read_questions() -> list[LabelledQuestion]:
    """Return the labelled questions that campaigns answer."""
    return [
        LabelledQuestion(
            line["question"],
            line["tool"],
            _filters(line["filters"]),
            line.get("words", ()),
            frozenset(line["ids"]),
        )
        for line in labelled_questions()
        # Questions about recent days have no ids: these change with today.
        if line.get("ids")
    ]


def _further_questions() -> list[LabelledQuestion]:
    """Return further questions about meaning, answered by a value proposition or a product."""
    lines = Path(__file__).with_name("campaign_further.jsonl").read_text("utf-8").splitlines()
    return [_further_question(json.loads(line)) for line in lines]


def _further_question(line: Mapping[str, Any]) -> LabelledQuestion:
    values, products = {*line.get("value_prop", ())}, line.get("product", ())
    answering = [
        campaign.id
        for campaign in sample_campaigns()
        if values & {*campaign.key_value_props} or campaign.primary_product in products
    ]
    return LabelledQuestion(line["question"], MEANING, Filters(), (), frozenset(answering))


def half_of(text: str) -> str:
    """Return the half of the questions that a question belongs to: `tuned` or `held out`."""
    return "held out" if hashlib.sha256(text.encode()).digest()[0] % 2 else "tuned"


def _filters(loose: Mapping[str, Any]) -> Filters:
    day = max(campaign.capture_date for campaign in sample_campaigns())
    return resolve_filters(LooseFilters.model_validate(loose), day, day).filters


async def _measure() -> None:
    embeddings = OfflineEmbeddings()
    campaigns = sample_campaigns()
    index = EmbeddedIndex(SampleRecords(sample_campaigns), embeddings)
    words = PlainWords(campaigns)
    vectors = PlainVectors(campaigns, embeddings)
    searches: dict[str, Search] = {
        "ours": lambda question: search(index, question),
        "BM25": words.search,
        "embeddings": vectors.search,
    }
    by_tool = defaultdict(list)
    for question in [*read_questions(), *_further_questions()]:
        half = f" ({half_of(question.text)})" if question.tool == MEANING else ""
        by_tool[question.tool + half].append(question)
    print(f"{'':<52}{'recall@10':>11}{'p5 to p95':>14}{'MRR':>8}")
    for tool, questions in sorted(by_tool.items()):
        for name, find in searches.items():
            scores = [score(await find(question), question.ids) for question in questions]
            _print_row(f"{tool}, {len(questions)} questions, {name}", scores)

    await _print_floor(index, by_tool)


async def _print_floor(index: EmbeddedIndex, by_tool: Mapping[str, Sequence[LabelledQuestion]]) -> None:
    """Print how well the floor of a search by meaning divides questions from nonsense."""
    lines = Path(__file__).with_name("campaign_nonsense.txt").read_text("utf-8").splitlines()
    for half in ("tuned", "held out"):
        questions = by_tool[f"{MEANING} ({half})"]
        nonsense = [line for line in lines if half_of(line) == half]
        hits = [bool((await index.similar(one.text, one.filters)).total) for one in questions]
        misses = [not (await index.similar(one, Filters())).total for one in nonsense]
        print(
            f"{half}: {sum(hits)} of {len(hits)} questions find campaigns, "
            f"{sum(misses)} of {len(misses)} nonsense queries find none"
        )


def _print_row(name: str, scores: Sequence[tuple[float, float]]) -> None:
    random_ = random.Random(1)  # noqa: S311 -- repeatable, not secret
    recalls = [recall for recall, _ in scores]
    means = sorted(statistics.fmean(random_.choices(recalls, k=len(recalls))) for _ in range(_SAMPLES))
    spread = f"{means[_SAMPLES // 20]:.2f} to {means[-_SAMPLES // 20]:.2f}"
    reciprocal = statistics.fmean(rank for _, rank in scores)
    print(f"{name:<52}{statistics.fmean(recalls):>11.3f}{spread:>14}{reciprocal:>8.3f}", flush=True)


def score(ids: Sequence[str], expected: frozenset[str]) -> tuple[float, float]:
    """Return recall in ten places, and the reciprocal rank of the first campaign that answers."""
    hits = [each in expected for each in ids[:PLACES]]
    first = next((1 / place for place, hit in enumerate(hits, 1) if hit), 0.0)
    return sum(hits) / min(PLACES, len(expected)), first


async def search(index: EmbeddedIndex, question: LabelledQuestion) -> list[str]:
    """Return the ids that the question's tool returns for its arguments."""
    if question.tool == "filter":
        result = await index.filter(question.filters, limit=PLACES)
    elif question.tool == MEANING:
        result = await index.similar(question.text, question.filters, limit=PLACES)
    else:
        query = " ".join(f'"{words}"' for words in question.words)
        field: TextField = "offer" if question.tool == "offers" else "copy"
        result = await index.full_text(query, question.filters, field=field, limit=PLACES)
    return [match.campaign.id for match in result.matches]


def full_text(campaign: Campaign) -> str:
    """Return all text of a campaign."""
    return " ".join((campaign.company, campaign.channel, *embedding_texts(campaign).values()))


class PlainWords:
    """BM25 over all text of a campaign."""

    def __init__(self, campaigns: Sequence[Campaign]) -> None:
        self._ids = [campaign.id for campaign in campaigns]
        self._counts = [Counter(_stems(full_text(campaign))) for campaign in campaigns]
        self._lengths = [sum(counts.values()) for counts in self._counts]
        self._frequencies = Counter(word for counts in self._counts for word in counts)

    async def search(self, question: LabelledQuestion) -> list[str]:
        """Return the best ids."""
        words = set(_stems(question.text))
        scores = [self._score(words, row) for row in range(len(self._ids))]
        order = sorted(range(len(scores)), key=lambda row: -scores[row])
        return [self._ids[row] for row in order[:PLACES] if scores[row]]

    def _score(self, words: set[str], row: int) -> float:
        counts, mean = self._counts[row], statistics.fmean(self._lengths)
        norm = _K1 * (1 - _B + _B * self._lengths[row] / mean)
        return sum(
            self._weight(word) * counts[word] * (_K1 + 1) / (counts[word] + norm)
            for word in words
            if word in counts
        )

    def _weight(self, word: str) -> float:
        frequency = self._frequencies[word]
        return math.log(1 + (len(self._ids) - frequency + 0.5) / (frequency + 0.5))


class PlainVectors:
    """Cosines of the offline embeddings, over all text of a campaign."""

    def __init__(self, campaigns: Sequence[Campaign], embeddings: OfflineEmbeddings) -> None:
        self._campaigns = campaigns
        self._embeddings = embeddings
        self._matrix: Any = None

    async def search(self, question: LabelledQuestion) -> list[str]:
        """Return the best ids."""
        if self._matrix is None:
            texts = [full_text(campaign) for campaign in self._campaigns]
            self._matrix = await unit_vectors(self._embeddings, texts)
        query = (await unit_vectors(self._embeddings, [question.text]))[0]
        order = np.argsort(-(self._matrix @ query))[:PLACES]
        return [self._campaigns[row].id for row in order]


def _stems(text: str) -> list[str]:
    return [re.sub(r"(?:ing|ies|es|ed|s)$", "", word) for word in normalize(text).split()]


if __name__ == "__main__":
    sys.exit(main())
