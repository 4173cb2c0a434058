"""Six files of ads as six programs write them, 60 rows, each with the campaigns that they mean."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from importlib import import_module
from typing import Any, NamedTuple

ADS = (
    ("Grünwald Outdoor", "Hiking boots", "20 % off", "Wege, die bleiben.", ["Waterproof", "Repair for life"]),
    ("Café Noisette", "Coffee subscription", "First bag free", "Slow mornings.", ["Freshly roasted"]),
    ("Northloop Software", "Planning tool", "", "Plan less. Ship more.", ["Saves time", "Safety"]),
    ("Björk & Söner", "Kitchen table", "Free delivery over 500", "Made to be inherited.", ["Solid oak"]),
    ("Velo Ruiz", "City bike", "2 years of service", "The nicest way.", ["Light", "Made in Spain"]),
    ("Hotel Sankt Anton", "Weekend", "Third night free", 'The "quiet" one.', ["Spa", "Late check-out"]),
    ("Pacific Paddle", "Kayak course", "Bring a friend", "In a weekend; for life.", ["Small groups"]),
    ("Marlowe Books", "Audiobooks", "30 days for 1", "Stories, for the way home.", ["No contract"]),
    ("Tanaka Tea", "Green tea", "", "Eighty degrees. Not more.", ["Organic"]),
    ("Lumen Home", "Lamps", "Buy 2, get 1", "Light that knows the hour.", ["Dimmable", "Repair for life"]),
)  # fmt: skip
CHANNELS = ("tiktok", "linkedin", "youtube", "out_of_home", "podcast", "instagram")
FIRST_DAY = date(2026, 1, 5)


class AdFile(NamedTuple):
    """A file with what it means."""

    name: str
    content: bytes
    campaigns: list[dict[str, Any]]
    params: dict[str, str]
    refused: list[int]
    """Lines of rows that are ambiguous by themselves."""


def ad_files() -> list[AdFile]:
    """Return the files."""
    return [_meta(), _german(), _british(), _linkedin(), _sheet(), _plain_json()]


def _campaigns(
    prefix: str, channel: str, currency: str, numbers: Iterable[int] = range(10)
) -> list[dict[str, Any]]:
    campaigns = []
    for number in numbers:
        company, product, offer, text, props = ADS[number]
        campaigns.append(
            {
                "id": f"{prefix}-{number}",
                "company": company,
                "channel": channel,
                "primary_product": product,
                "offer": offer,
                "campaign_text": text,
                "key_value_props": props,
                "spend": 1_250.0 * (number + 1),
                "volume": 12_500 * (number + 1),
                "currency": currency,
                "capture_date": FIRST_DAY + timedelta(days=11 * number),
            }
        )
    return campaigns


def _table(heading: Sequence[str], rows: Iterable[Sequence[object]], delimiter: str = ",") -> str:
    target = io.StringIO()
    writer = csv.writer(target, delimiter=delimiter)
    writer.writerows([heading, *rows])
    return target.getvalue()


def _meta() -> AdFile:
    """Meta's Ad Library: bounds instead of numbers, lists as Python prints them, ISO days."""
    campaigns = _campaigns("1002", "instagram", "USD")
    heading = [
        *("ad_archive_id", "page_name", "publisher_platforms", "ad_creative_bodies", "spend", "impressions"),
        *("currency", "ad_delivery_start_time", "key_value_props", "product", "offer", "bylines"),
    ]
    rows = []
    for one in campaigns:
        one["spend_max"], one["volume_max"] = one["spend"] + 499, one["volume"] + 4_999
        rows.append([
            one["id"], one["company"], "['instagram']", one["campaign_text"],
            f"lower_bound: {one['spend']:.0f}, upper_bound: {one['spend_max']:.0f}",
            f"{one['volume']}-{one['volume_max']}", "USD", one["capture_date"], str(one["key_value_props"]),
            one["primary_product"], one["offer"], "Paid for by NULL",
        ])  # fmt: skip
    return AdFile("meta.csv", _table(heading, rows).encode(), campaigns, {}, [])


def _german() -> AdFile:
    """A German spreadsheet: semicolons, Windows' encoding, points for thousands, dotted days."""
    campaigns = _campaigns("de", "out_of_home", "EUR")
    heading = [
        "Nr",
        "Firma",
        "Kanal",
        "Produkt",
        "Angebot",
        "Werbetext",
        "USP",
        "Kosten (EUR)",
        "Auflage",
        "Datum",
    ]
    rows = [
        [one["id"], one["company"], "Plakat", one["primary_product"], one["offer"] or "-",
         one["campaign_text"], " | ".join(one["key_value_props"]), _german_number(one["spend"]),
         _german_number(one["volume"]), one["capture_date"].strftime("%d.%m.%Y")]
        for one in campaigns
    ]  # fmt: skip
    return AdFile(
        "plakate.csv", ("sep=;\r\n" + _table(heading, rows, ";")).encode("cp1252"), campaigns, {}, []
    )


def _german_number(value: float) -> str:
    return f"{value:,.0f}".replace(",", ".")


def _british() -> AdFile:
    """Tabs in UTF-16, as a spreadsheet saves "Unicode text": pounds with thousands, the day first."""
    campaigns = _campaigns("uk", "podcast", "GBP")
    heading = ["Ad ID", "Advertiser", "Platform", "Product", "Offer", "Headline", "Benefits", "Amount spent",
               "Impressions", "First shown"]  # fmt: skip
    rows = [
        [one["id"], one["company"], "Podcast", one["primary_product"], one["offer"] or "N/A",
         one["campaign_text"], ";".join(one["key_value_props"]), f"£{one['spend']:,.0f}",
         f"{one['volume']:,}", one["capture_date"].strftime("%d/%m/%Y 08:15")]
        for one in campaigns
    ]  # fmt: skip
    return AdFile("ads.tsv", _table(heading, rows, "\t").encode("utf-16"), campaigns, {}, [])


def _linkedin() -> AdFile:
    """LinkedIn's report: lines before the names, no channel, thousands as k, months by name."""
    campaigns = _campaigns("li", "linkedin", "USD")
    heading = ["Campaign ID", "Account Name", "Total Spent", "Impressions", "Start Date (in UTC)", "Product",
               "Introductory text", "USPs", "Promotion", "Clicks"]  # fmt: skip
    rows = [
        [one["id"], one["company"], f"{one['spend'] / 1000:g}k USD", f"{one['volume'] / 1000:g}K",
         f"{one['capture_date']:%b} {one['capture_date'].day} {one['capture_date'].year}",
         one["primary_product"], one["campaign_text"], "; ".join(one["key_value_props"]), one["offer"], 17]
        for one in campaigns
    ]  # fmt: skip
    preamble = "Campaign Performance Report (in UTC)\nDate Generated: Apr 30 2026\n\n"
    content = (preamble + _table(heading, rows)).encode("utf-8-sig")
    return AdFile("report.csv", content, campaigns, {"defaults": json.dumps({"channel": "linkedin"})}, [])


def _sheet() -> AdFile:
    """A workbook: a title above, days and numbers as such, amounts in a format with the currency."""
    campaigns = _campaigns("xl", "tiktok", "EUR")
    book: Any = import_module("openpyxl").Workbook()
    sheet = book.active
    sheet.append(["Ads seen in 2026"])
    sheet.append([])
    sheet.append(
        [
            "ID",
            "Company Name",
            "Channel",
            "Category",
            "Offer",
            "Copy",
            "Value Props",
            "Spend",
            "Reach",
            "Seen",
        ]
    )
    for one in campaigns:
        seen = datetime.combine(one["capture_date"], datetime.min.time())
        sheet.append([
            one["id"], one["company"], "TikTok", one["primary_product"], one["offer"] or None,
            one["campaign_text"], "|".join(one["key_value_props"]), one["spend"], one["volume"], seen,
        ])  # fmt: skip
        sheet.cell(sheet.max_row, 8).number_format = "#,##0.00 [$EUR]"
    target = io.BytesIO()
    book.save(target)
    return AdFile("ads.xlsx", target.getvalue(), campaigns, {}, [])


def _plain_json() -> AdFile:
    """Objects in plain words; of the last row's day nothing decides the order."""
    campaigns = _campaigns("js", "youtube", "EUR")
    rows = [
        {"id": one["id"], "Client": one["company"], "medium": "YouTube", "product": one["primary_product"],
         "deal": one["offer"] or None, "text": one["campaign_text"], "usp": one["key_value_props"],
         "budget": f"{one['spend']:.2f} €", "reach": one["volume"], "date": one["capture_date"].isoformat()}
        for one in campaigns
    ]  # fmt: skip
    rows[-1]["date"] = "04/05/2026"
    return AdFile("ads.json", json.dumps(rows).encode(), campaigns[:-1], {}, [10])
