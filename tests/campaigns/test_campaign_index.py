"""Behaviour that both indexes of campaigns share (E12, E18-E22, E26, E30, E-R3, E-R7 to E-R9)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import date
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callsheet.state.campaigns.filters import DateRange, Filters, Values
from callsheet.storage import Storage
from callsheet.storage.campaigns.index import CampaignIndex, Group, Matches
from callsheet.storage.campaigns.library import delete_library, own_library
from callsheet.storage.campaigns.words import distinctive_text
from tests.doubles.campaigns import LIBRARY, campaign
from tests.doubles.postgres_server import postgres

ALL = Filters()


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    with postgres() as url:
        yield url


@pytest.fixture(params=["embedded", pytest.param("postgresql", marks=pytest.mark.slow)])
async def index_of(
    request: pytest.FixtureRequest, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[[str], Awaitable[CampaignIndex]]]:
    """Return a function from an owner's name to the owner's library."""
    if request.param == "postgresql":
        monkeypatch.setenv("CALLSHEET_CAMPAIGNS_URL", request.getfixturevalue("postgres_url"))
    yield lambda owner: own_library(storage, owner)
    for owner in ("ana", "bob", "nobody"):
        await delete_library(storage, owner)


@pytest.fixture
async def index(index_of: Callable[[str], Awaitable[CampaignIndex]]) -> CampaignIndex:
    library = await index_of("ana")
    assert await library.put(LIBRARY) == len(LIBRARY)
    return library


def ids(result: Matches) -> list[str]:
    return [match.campaign.id for match in result.matches]


async def test_every_search_of_an_empty_library_has_no_result(index_of):
    """E18."""
    index = await index_of("nobody")
    empty = Matches((), 0)
    assert await index.filter(ALL) == empty
    assert await index.full_text("cash", ALL) == empty
    assert await index.similar("cash", ALL) == empty
    assert await index.group(ALL, "channel") == ()
    assert (await index.newest(), await index.count(), await index.get(["x"])) == (None, 0, [])
    assert await index.delete(["x"]) == 0


async def test_stored_campaigns_are_returned_unchanged(index):
    assert await index.get(["birch-cash", "nothing", "alder-travel"]) == [LIBRARY[1], LIBRARY[0]]
    assert await index.count() == 6
    assert await index.newest() == date(2026, 5, 20)


async def test_a_campaign_stored_again_replaces_the_earlier_one_in_every_search(index):
    changed = campaign("birch-cash", channel="twitter", campaign_text="Zebras only", offer="")
    new = campaign("dune", campaign_text="A dune")
    assert await index.put([changed, new, new]) == 1
    assert await index.count() == 7
    assert await index.get(["birch-cash"]) == [changed]
    assert ids(await index.full_text("grocery", ALL)) == []
    assert ids(await index.full_text("zebra", ALL)) == ["birch-cash"]
    assert ids(await index.filter(Filters(channel=("twitter",)))) == ["birch-cash"]
    assert ids(await index.similar("zebras", ALL, field="copy"))[0] == "birch-cash"
    assert ids(await index.similar("zebras", ALL, field="copy")).count("birch-cash") == 1


async def test_earlier_texts_of_a_campaign_do_not_match(index):
    for i in range(5):
        await index.put([campaign(each, campaign_text=f"Kayak {i}") for each in ("one", "two")])
    result = await index.full_text("kayak", ALL, limit=1)
    assert (len(result.matches), result.total) == (1, 2)


async def test_a_deleted_campaign_is_in_no_result(index):
    assert await index.delete(["birch-cash", "nothing", "birch-cash"]) == 1
    assert await index.count() == 5
    assert await index.get(["birch-cash"]) == []
    assert ids(await index.full_text("cash back", ALL)) == []
    assert "birch-cash" not in ids(await index.similar("cash back", ALL))
    assert "birch-cash" not in ids(await index.filter(ALL))
    assert await index.put([LIBRARY[1]]) == 1
    assert ids(await index.full_text("cash back", ALL)) == ["birch-cash"]


async def test_owners_do_not_see_each_others_campaigns(index, index_of):
    other = await index_of("bob")
    assert await other.put([campaign("birch-cash", campaign_text="Bob's own")]) == 1
    assert (await other.count(), await index.count()) == (1, 6)
    assert ids(await other.full_text("cash", ALL)) == []
    assert ids(await other.similar("his own", ALL, field="copy")) == ["birch-cash"]
    assert await other.get(["alder-travel"]) == []
    assert await other.delete(["alder-travel"]) == 0
    assert await index.get(["birch-cash"]) == [LIBRARY[1]]


# A test fills its index once for all queries: filling it takes longer than to search it.
FILTERED: list[tuple[Filters, set[str]]] = [
    (
        ALL,
        {"alder-travel", "birch-cash", "birch-savings", "cedar-security", "cedar-credit", "alder-plain"},
    ),
    (Filters(channel=("facebook",)), {"birch-cash", "cedar-credit"}),
    (Filters(channel=("facebook", "instagram")), {"birch-cash", "cedar-credit", "alder-travel"}),
    (Filters(company=("CEDAR UNION",)), {"cedar-security", "cedar-credit"}),
    (Filters(company=(" birch online ",)), {"birch-savings"}),
    (Filters(company=("Alder",)), set()),
    (Filters(product=("credit card",)), {"alder-travel", "birch-cash"}),
    (Filters(value_prop=("Cash Back / Rewards",)), {"alder-travel", "birch-cash"}),
    (
        Filters(value_prop=("Travel Benefits", "Credit Building")),
        {"alder-travel", "cedar-credit"},
    ),
    (Filters(sentiment=("Trust-Building",)), {"birch-savings", "cedar-security"}),
    (Filters(visual_style=("Illustration", "Text-Heavy")), {"birch-cash", "cedar-security"}),
    (Filters(has_offer=False), {"cedar-security", "alder-plain"}),
    (Filters(has_offer=True, channel=("email",)), {"birch-savings"}),
    (Filters(date_range=DateRange(start=date(2026, 4, 28))), {"alder-travel", "birch-savings"}),
    (Filters(date_range=DateRange(end=date(2025, 12, 31))), {"cedar-credit", "alder-plain"}),
    (
        Filters(date_range=DateRange(start=date(2025, 12, 31), end=date(2026, 1, 15))),
        {"cedar-credit", "cedar-security"},
    ),
    (Filters(date_range=DateRange(start=date(2027, 1, 1), end=date(2026, 1, 1))), set()),
    (Filters(exclude=Values(channel=("facebook", "email"))), {"alder-travel", "cedar-security"}),
    (
        Filters(exclude=Values(value_prop=("No Fee / No Minimum",), company=("cedar union",))),
        {"alder-travel", "alder-plain"},
    ),
    (
        Filters(exclude=Values(sentiment=("Playful",), visual_style=("Text-Heavy",), product=("",))),
        {"alder-travel", "birch-savings", "cedar-credit", "alder-plain"},
    ),
    (Filters(channel=("facebook",), exclude=Values(sentiment=("Urgent",))), {"birch-cash"}),
]


async def test_filters_apply_to_every_kind_of_search(index):
    """E20, E23, E26, E-R3: all tools honour all filters."""
    for filters, expected in FILTERED:
        result = await index.filter(filters)
        assert (set(ids(result)), result.total) == (expected, len(expected)), filters
        similar = ids(await index.similar("no fee credit card", filters, limit=50))
        assert set(similar) <= expected, filters
        assert similar or not expected & {"birch-cash", "birch-savings", "alder-travel", "cedar-credit"}
        with_word = {each.id for each in LIBRARY if "back" in each.full_campaign_text}
        result = await index.full_text("back", filters)
        assert (set(ids(result)), result.total) == (with_word & expected, len(with_word & expected)), filters
        counts = {group.value: group.count for group in await index.group(filters, "channel")}
        assert sum(counts.values()) == len(expected), filters


async def test_results_are_sorted_and_paginated(index):
    """E-R8: the total counts all matches, also beyond the page."""
    newest = await index.filter(ALL, limit=2)
    assert (ids(newest), newest.total) == (["alder-travel", "birch-savings"], 6)
    assert ids(await index.filter(ALL, offset=2, limit=2)) == ["birch-cash", "cedar-security"]
    assert ids(await index.filter(ALL, offset=4)) == ["cedar-credit", "alder-plain"]
    assert await index.filter(ALL, offset=6) == Matches((), 6)
    assert await index.filter(ALL, limit=0) == Matches((), 6)
    assert ids(await index.filter(ALL, sort="oldest", limit=1)) == ["alder-plain"]
    assert ids(await index.filter(ALL, sort="spend", limit=2)) == ["alder-travel", "birch-cash"]
    assert ids(await index.filter(ALL, sort="volume"))[:3] == ["birch-cash", "alder-travel", "birch-savings"]
    by_company = ids(await index.filter(ALL, sort="company"))
    assert by_company[:4] == ["alder-plain", "alder-travel", "birch-cash", "birch-savings"]


async def test_an_export_yields_every_campaign_once(index):
    """Newest first, in portions, and only campaigns that match the filters."""
    await index.put([campaign(f"m-{n}", company=f"Many {n % 2}") for n in range(1_100)])
    exported = [each.id async for portion in index.export(ALL) for each in portion]
    assert len(exported) == len({*exported}) == 1_100 + len(LIBRARY)
    assert exported == ids(await index.filter(ALL, limit=2_000))
    of_one_company = [
        each async for portion in index.export(Filters(company=("many 1",))) for each in portion
    ]
    assert len(of_one_company) == 550
    assert {each.company for each in of_one_company} == {"Many 1"}
    assert [portion async for portion in index.export(Filters(company=("nobody",)))] == []


async def test_campaigns_with_equal_sort_keys_are_sorted_by_id(index):
    equal = [campaign(f"same-{i}", channel="twitter") for i in (3, 1, 2, 0)]
    await index.put(equal)
    on_twitter = Filters(channel=("twitter",))
    assert ids(await index.filter(on_twitter)) == ["same-0", "same-1", "same-2", "same-3"]
    assert ids(await index.filter(on_twitter, sort="spend", offset=1, limit=2)) == ["same-1", "same-2"]


async def test_groups_have_counts_spend_and_volume(index):
    """E-R7."""
    assert await index.group(ALL, "channel") == (
        Group("email", 2, 9_000.0, 80_000),
        Group("facebook", 2, 26_000.0, 300_000),
        Group("direct_mail", 1, 0.0, 0),
        Group("instagram", 1, 40_000.5, 120_000),
    )
    props = {group.value: group.count for group in await index.group(ALL, "value_prop")}
    assert props == {
        "No Fee / No Minimum": 2,
        "Cash Back / Rewards": 2,
        "Travel Benefits": 1,
        "High-Yield Savings": 1,
        "Credit Building": 1,
        "Security / Fraud Protection": 1,
    }
    companies = [group.value for group in await index.group(Filters(has_offer=True), "company")]
    assert companies == ["Birch Financial", "Alder Bank", "cedar union"]
    assert (await index.group(ALL, "product"))[0].value == "Credit Card"
    assert {group.value for group in await index.group(ALL, "sentiment")} == {
        *("Aspirational", "Playful", "Trust-Building", "Urgent"),
    }
    assert sum(group.count for group in await index.group(ALL, "visual_style")) == 5
    months = [(group.value, group.count) for group in await index.group(ALL, "month")]
    assert months == [
        *(("2025-11", 1), ("2025-12", 1), ("2026-01", 1)),
        *(("2026-04", 2), ("2026-05", 1)),
    ]
    assert await index.group(Filters(company=("none",)), "month") == ()


MATCHING: list[tuple[str, set[str]]] = [
    ("cash back", {"birch-cash"}),
    ("BACK cash", {"birch-cash"}),
    ('"cash back"', {"birch-cash"}),
    ('"back cash"', set()),
    ("“no annual fee”", {"birch-cash"}),
    ("annual-fee", {"birch-cash"}),
    ("fees", {"alder-travel", "birch-cash", "birch-savings"}),
    ('"no foreign fees"', {"alder-travel"}),
    ('"foreign no fees"', set()),
    ("4.50%", {"birch-savings"}),
    ("savings accounts", {"birch-savings"}),
    ('"savings account" 4.50%', {"birch-savings"}),
    ("cafe", {"cedar-security"}),
    ("CAFÉ noir", {"cedar-security"}),
    ("build", {"cedar-credit"}),
    ("the lounges", {"alder-travel"}),
    ("miles zebra", set()),
    ("groceries", {"birch-cash"}),
    ("beach", set()),
]


async def test_full_text_search_matches_words_and_phrases_of_the_copy(index):
    """E21, E22, E-R9: English stems, phrases in quotes, and only the copy."""
    for query, expected in MATCHING:
        result = await index.full_text(query, ALL)
        assert (set(ids(result)), result.total) == (expected, len(expected)), query
        assert all(match.score > 0 for match in result.matches), query


WORDS_INSIDE = {
    "信用卡": "新客户申请信用卡享优惠",
    "优惠": "本周末特别优惠活动开始了",
    "现金回馈": "每笔消费现金回馈百分之五",
    "銀行": "全台灣最好的銀行就在這裡",
    "年費": "首年免年費的白金卡",
    "カード": "新しいクレジットカードが登場",
    "ポイント": "お買い物で二倍ポイントがたまる",
    "無料": "年会費は永年無料です",
    "旅行": "海外旅行の保険が付いています",
    "ガス": "毎月のガス料金を節約できます",
    "保険": "家族を守る生命保険のご案内",
    "카드": "새로운신용카드를만나보세요",
    "할인": "모든매장에서할인됩니다",
    "여행": "가족과함께하는해외여행은행복",
    "적금": "청년을위한정기적금으로시작",
    "บัตร": "สมัครบัตรเครดิตวันนี้รับส่วนลด",
    "เครดิต": "เช็คคะแนนเครดิตบูโรฟรี",
    "ส่วนลด": "รับทันทีส่วนลดทุกการใช้จ่าย",
    "ฟรี": "ไม่มีค่าธรรมเนียมฟรีตลอดชีพ",
    "เงินฝาก": "บัญชีเงินฝากดอกเบี้ยสูง",
}


async def test_chinese_japanese_korean_and_thai_words_match_within_a_text(index):
    texts = list(WORDS_INSIDE.values())
    copies = [campaign(f"copy-{n}", campaign_text=text) for n, text in enumerate(texts)]
    offers = [campaign(f"offer-{n}", offer=text) for n, text in enumerate(texts)]
    await index.put([*copies, *offers])
    for word in WORDS_INSIDE:
        holding = [n for n, text in enumerate(texts) if word in text]
        result = await index.full_text(word, ALL)
        assert sorted(ids(result)) == sorted(f"copy-{n}" for n in holding), word
        assert all(word in match.snippet for match in result.matches)
        of_offers = await index.full_text(word, ALL, field="offer")
        assert sorted(ids(of_offers)) == sorted(f"offer-{n}" for n in holding), word
    # Not the characters in another order, or with another mark.
    assert ids(await index.full_text("卡信用", ALL)) == []
    assert ids(await index.full_text("カス", ALL)) == []


NUMBERS: list[tuple[str, set[str]]] = [
    ("5%", {"five-percent"}),
    ("5 percent", {"five-percent"}),
    ("5", {"five-percent", "five-dollars"}),
    ("$5", {"five-dollars"}),
    ("$5,000", {"thousands"}),
    ("5000", {"thousands"}),
    ("2.5%", {"decimals"}),
    ("2.50 %", {"decimals"}),
    ("2", set()),
]


async def test_a_number_is_one_word_with_its_sign(index):
    await index.put(
        [
            campaign("five-percent", channel="twitter", campaign_text="Get 5% back"),
            campaign("five-dollars", channel="twitter", campaign_text="Only $5 a month"),
            campaign("thousands", channel="twitter", campaign_text="Spend $5,000 first"),
            campaign("decimals", channel="twitter", campaign_text="Earn 2.5% on all"),
        ]
    )
    for query, expected in NUMBERS:
        result = await index.full_text(query, Filters(channel=("twitter",)))
        assert set(ids(result)) == expected, query


async def test_offers_are_searched_in_their_own_column(index):
    await index.put([campaign("bag", offer="Free tote bag", campaign_text="Open an account")])
    result = await index.full_text("tote bags", ALL, field="offer")
    assert (ids(result), result.total) == (["bag"], 1)
    assert result.matches[0].snippet == "Free tote bag"
    assert ids(await index.full_text("tote", ALL)) == []
    assert ids(await index.full_text("account", Filters(company=("Alder Bank",)), field="offer")) == []
    assert ids(await index.full_text("5%", ALL, field="offer")) == ["birch-cash"]
    filtered = await index.full_text("back", Filters(channel=("email",)), field="offer")
    assert (ids(filtered), filtered.total) == ([], 0)


async def test_the_best_match_comes_first_with_a_snippet(index):
    long = "Filler words go on. " * 50
    await index.put(
        [
            campaign("once", full_campaign_text=f"{long} A kayak waits. {long}"),
            campaign("often", full_campaign_text="Kayak, kayak, kayak!"),
        ]
    )
    result = await index.full_text("kayaks", ALL)
    assert ids(result) == ["often", "once"]
    assert [match.score for match in result.matches] == sorted(
        (match.score for match in result.matches), reverse=True
    )
    once = result.matches[1]
    assert "A kayak waits." in once.snippet
    assert len(once.snippet) < 300
    assert (ids(await index.full_text("kayak", ALL, limit=1)), result.total) == (["often"], 2)


ODD = [
    *("", " ", '"', '""', '"""', "'", "AND", "cash AND NOT back", "OR", "NOT cash", "-cash", "+cash"),
    *("cash*", "*", "cash~2", "(cash", "cash)", "[a TO b]", "copy:cash", "row:1", "cash^5", "\\", "a\\"),
    *("cash & back", "cash | back", "!cash", "cash <-> back", "cash:*", "'; DROP TABLE campaigns; --"),
    *(
        "%",
        "_",
        "\x00",
        "cash\x00back",
        "\ud800",
        "💳",
        "ไทย",
        "信用卡",
        "İ",
        "ß",
        "ﬁ",
        "5%",
        "$$$",
        "1e5",
        "{}",
    ),
    *(
        "/cash/",
        "cash/back",
        "a" * 300,
        "cash " * 2_000,
        '"' + "cash " * 2_000 + '"',
        "x" * 10_000,
        '"' * 9_999,
    ),
]


async def test_search_operators_and_odd_characters_raise_no_error(index):
    """Operators of search engines, quotes and odd characters are plain text, and long queries are bounded."""
    for query in ODD:
        result = await index.full_text(query, ALL)
        assert result.total == len(result.matches), query
        await index.similar(query, ALL)
        await index.filter(Filters(company=(query.replace("\x00", ""),)))


async def test_search_operators_are_matched_as_words(index):
    await index.put([campaign("logic", campaign_text="Cash and not back or near")])
    assert ids(await index.full_text("cash AND NOT back", ALL)) == ["logic"]
    assert ids(await index.full_text('"cash back"', Filters(company=("Alder Bank",)))) == []
    assert set(ids(await index.full_text("-back", ALL))) == {"logic", "birch-cash", "cedar-credit"}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(max_size=200))
async def test_any_text_is_a_valid_query(index, query):
    result = await index.full_text(query, ALL)
    assert result.total == len(result.matches)


SIMILAR = [
    ("travel benefits", "value_prop", "alder-travel"),
    ("interest on savings", "value_prop", "birch-savings"),
    ("protects against fraud", "value_prop", "cedar-security"),
    ("seaside holiday", "visual", "alder-travel"),
    ("lock", "visual", "cedar-security"),
    ("apply before the end of the week", "copy", "cedar-credit"),
]


async def test_the_most_similar_campaign_comes_first(index):
    """E19, E30: three embeddings, each of a different text."""
    for query, field, expected in SIMILAR:
        result = await index.similar(query, ALL, field=field, limit=3)
        assert ids(result)[0] == expected, query
        scores = [match.score for match in result.matches]
        assert scores == sorted(scores, reverse=True), query
        assert all(-1.001 <= score <= 1.001 for score in scores), query


async def test_campaigns_far_less_similar_than_the_best_match_are_left_out(index):
    """E12, E-R8: the total counts matches, not all campaigns."""
    for field in ("value_prop", "copy", "visual"):
        result = await index.similar("fraud alerts and a padlock", ALL, field=field)
        assert ids(result)[0] == "cedar-security", field
        assert result.total == len(result.matches) < len(LIBRARY), field


@pytest.mark.parametrize(
    ("query", "filters", "expected"),
    [
        ("campaigns about flying", ALL, "about flying"),
        ("premium ads about flying", Filters(sentiment=("Premium",)), "about flying"),
        (
            "Illustrated emails: savings!",
            Filters(channel=("email",), visual_style=("Illustration",)),
            "savings!",
        ),
        ("direct mail of Cedar Union", Filters(channel=("direct_mail",), company=("cedar union",)), "of"),
        ("Instagram campaigns", Filters(channel=("instagram",)), "Instagram campaigns"),
        ("travel", Filters(exclude=Values(value_prop=("Travel Benefits",))), "travel"),
        ("… 💳", ALL, "… 💳"),
        ("", ALL, ""),
    ],
)
def test_words_of_the_filters_are_removed_from_a_similarity_query(query, filters, expected):
    assert distinctive_text(query, filters) == expected


async def test_a_similarity_search_returns_at_most_its_limit(index):
    result = await index.similar("bank account", ALL, limit=2)
    assert len(result.matches) == 2
    assert result.total >= 2
    assert (await index.similar("bank account", ALL, limit=0)).matches == ()


async def test_concurrent_writes_and_searches_give_correct_results(index):
    async def change(i: int) -> None:
        await index.put([campaign(f"more-{i}-{j}", campaign_text="Many more") for j in range(10)])

    async def search() -> Any:
        result = await index.full_text("cash back", ALL)
        assert ids(result) == ["birch-cash"]
        return await index.similar("savings", ALL)

    await asyncio.gather(*(change(i) for i in range(10)), *(search() for _ in range(10)))
    assert await index.count() == 106
    result = await index.full_text("many more", ALL, limit=200)
    assert (len(result.matches), result.total) == (100, 100)
    assert len({match.campaign.id for match in result.matches}) == 100
