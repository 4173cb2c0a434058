"""The hard facts of a brief: contact, code, slogan, offers, dates, place and hours, found where they stand.

Each fact keeps the client's own words and where they were; nothing is completed or guessed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from providers.offline.ad_creation.wording import CAPITAL, folded, has, mention, mentions, small_words

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
          "november", "december")  # fmt: skip
TOPICS = frozenset({"price", "discount", "phone", "web", "address", "deadline", "competitors"})
_SPANS = ("today", "tonight", "tomorrow", "weekend", "month_end", "year_end", "week", "month", "limited")

_URL = re.compile(
    r"\b(?:https?://)?(?:www\.)?(?:[a-z0-9-]*[a-z][a-z0-9-]+\.){1,4}[a-z]{2,12}(?:/[^\s,;)\"”]{1,60})?(?![a-z0-9.-]*@)"
)
_EMAIL = re.compile(r"\b[a-z0-9._+-]{1,40}@[a-z0-9-]{1,40}(?:\.[a-z]{2,10}){1,3}")
_HANDLE = re.compile(r"(?<![\w.])@[a-z0-9._]{2,30}\b")
_CODE = re.compile(
    r"(?:\b(?:promo|discount|voucher|coupon|gutschein|rabatt|aktions)?[\s-]?code|kod(?:em|u|e)?(?:\s(?:promo\w*|rabatow\w*))?"
    r"|código|cupón|cupom|kód(?:em)?|codul|mã(?:\s(?:giảm giá|khuyến mãi))?"
    r"|kode(?:\spromo)?|โค้ด|รหัส(?:ส่วนลด)?|优惠码|折扣码|代码|口令)\s?(?:is|:|：|to|є|je|este|là|คือ|lautet|ist|est)?\s?[\"'“„«]?([A-Z][A-Z0-9-]{2,19}|[A-Z0-9]*[0-9][A-Z0-9-]{1,19})\b"
)
_PHONE = re.compile(r"(?<![\w$€£.,/-])(?:\+|\(?0|\(\d|1[ -]?8|\d{2,3}[ .-])[\d(][\d() .-]{2,18}\d(?![\w%])")
_SHORT_PHONE = re.compile(
    r"(?:\bcall|\btel\.?:?|\bphone:?|\bdial|\bcall us(?: at| on)?|โทร\.?|hubungi|telepon|zadzwoń(?: pod)?"
    r"|llama al|llámanos al|ligue(?: para)?|gọi"
    r"|appelez(?: le| au)?|téléphone:?|tél\.?:?"
    r"|(?:ruf\w*|anruf\w*)(?: an)?(?: unter)?:?|zavolejte|volejte|sunați(?: la)?|电话[:：]?|拨打|致电)"
    r"\s?(\d[\d -]{1,14}\d)"
)
_CURRENCY = r"(?:us\$|r\$|s\$|[$€£¥฿₫]|rp\.?|usd|eur|gbp|thb|idr|vnd|pln|czk|ron|rmb|cny)"
_UNIT = (
    r"(?:k\b|zł|złotych|zlotych|pln|kč|czk|korun|lei|ron|baht|บาท|usd|eur|euros?|gbp|dollars?|pounds?|dólares|pesos"
    r"|reais|rupiah|ribu|đồng|vnđ|vnd|đ|元|块|人民币|€|฿|₫|franken|chf|francs)"
)
_AMOUNT = rf"(?:{_CURRENCY}\s?\d[\d.,]{{0,12}}(?:k\b|\s(?:million|juta|ribu))?|\d[\d.,]{{0,12}}\s?{_UNIT})"
_BARE = r"(?<![\d.,:])\d{1,4},\d{2}(?![\d.,:]|\s?(?:%|[kcm]?[mlg]\b|uhr|h\b))"
"""A price with its cents and without its currency: "29,90"."""
_MONEY = re.compile(rf"{_AMOUNT}|{_BARE}")
_PERCENT = re.compile(
    r"(?<![\d.,])(\d{1,3}(?:[.,]\d{1,2})?)\s?(?:%|percent\b|procent\b|prozent\b|pour cent\b)"
)
_TENTHS = re.compile(r"(?<![\d.])(\d(?:\.\d)?|[一二三四五六七八九])\s?折")
"""Chinese discounts name what is still paid: 8折 is eight tenths of the price."""
_DAY = r"(?:mo|di|mi|do|fr|sa|so)(?:[a-z]*tags?|ttwochs?|nnabends?)?\.?"
_JOUR = r"(?:lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche)s?"
_HOURS = re.compile(
    r"\b24/7\b|\b\d{1,2}(?:[:.]\d{2})?\s?(?:am|pm)?\s?(?:-|–|to|till|until|do|a|às|đến|sampai|ถึง|至|到)\s?\d{1,2}(?:[:.]\d{2})?\s?(?:am|pm)\b"
    rf"|(?:\b(?:le|du|les)\s{_JOUR}(?:\s(?:au|et)\s{_JOUR})?,?\s(?:de\s)?)?"
    r"\b\d{1,2}\s?(?:h|heures)\s?(?:\d{2})?\s?(?:-|–|à)\s?\d{1,2}\s?(?:h|heures)\s?(?:\d{2})?\b"
    rf"|(?:\b{_DAY}(?:\s?(?:-|–|bis|und|\+)\s?{_DAY})?,?\s(?:von\s)?)?"
    r"\b\d{1,2}(?:[:.]\d{2})?(?:\suhr)?\s?(?:-|–|bis)\s?\d{1,2}(?:[:.]\d{2})?\suhr\b"
    r"|\b\d{1,2}[:.]\d{2}\s?(?:-|–|to|do|a|às|đến|sampai|ถึง|至|到)\s?\d{1,2}[:.]\d{2}\b"
)
_ADDRESS = re.compile(
    r"\b(?:Route|Highway|Hwy|Interstate)\s\d{1,4}(?:,\s[A-Z][\w'’-]+)?|\b\d{1,3}(?:st|nd|rd|th)\s(?:Street|Avenue|Ave)\b(?:,\s[A-Z][\w'’-]+(?:\s[A-Z][\w'’-]+)?)?"
    r"|\b\d{1,5}[a-z]?\s(?:[" + CAPITAL + r"][\w'’.-]+\s){0,3}"
    r"(?:Street|St\.?|Avenue|Ave\.?|Road|Rd\.?|Lane|Ln\.?|Boulevard|Blvd\.?|Drive|Square|Way|Plaza|Highway|Court"
    r"|Place)\b(?:,\s[" + CAPITAL + r"][\w'’-]+(?:\s[" + CAPITAL + r"][\w'’-]+)?)?"
    r"|\b(?:ul\.|al\.|pl\.|Aleja|Plac|Rynek|Calle|C/|Avenida|Av\.|Plaza|Paseo|Rua|Praça|Travessa|Jalan|Jl\.|Đường|Phố|Ulice|Strada|Str\.|Bulevardul|Bd\.|Piața|Soi|Thanon)\s[^\n,;.!?]{2,40}?(?:,?\s?(?:nr\.?|no\.?|número|số)?\s?\d{1,5}[A-Za-z]?)?(?=[,;.!?\n]|$)"
    r"|\b[" + CAPITAL + r"][\wá-ž]+(?:ova|ská|cká|ného|ého|ní)\s\d{1,4}\b"
    r"|\b["
    + CAPITAL
    + r"][\w.-]*(?:straße|strasse|str\.|allee|weg|platz|gasse|ring|ufer|damm|markt)\s\d{1,4}\s?[a-z]?\b"
    r"(?:,\s(?:\d{5}\s)?[" + CAPITAL + r"][\w-]+(?=[,.!?\n]|$))?"
    r"|\b["
    + CAPITAL
    + r"]\w+(?:er|e|en|es)\s(?:Straße|Strasse|Str\.|Allee|Weg|Platz|Gasse|Ring|Ufer|Damm|Markt)"
    r"\s\d{1,4}[a-z]?\b"
    r"|\b(?:Am|An der|Im|Zum|Zur|Auf dem)\s[" + CAPITAL + r"][\w-]+\s\d{1,4}[a-z]?\b"
    r"|\b\d{1,4}(?:\s(?:bis|ter))?,?\s(?:rue|avenue|av\.|boulevard|bd|place|chemin|route|quai|allée|cours|impasse|square|passage)"
    r"\s[^\n,;.!?]{2,40}?(?:,\s(?:à\s)?(?:\d{5}\s)?[" + CAPITAL + r"][\w'’-]+)?(?=[,;.!?\n]|$)"
    r"|(?:ถนน|ซอย)\S{2,30}(?:\s\d{1,4}(?!\S))?|[\u4e00-\u9fff]{2,12}(?:路|街|大道)\d{0,5}号?"
)
_ONLY = re.compile(r"only|\bnur\b|seulement|uniquement")
_CHINESE_DATE = re.compile(r"(\d{1,2})\s?月\s?(\d{1,2})\s?[日号]")
_VIETNAMESE_DATE = re.compile(r"(\d{1,2})\s?tháng\s?(\d{1,2})\b")
_PLAIN_DATE = re.compile(r"(?<![\d/.])\d{1,2}[/.]\d{1,2}(?:[/.]\d{2,4})?(?![\d/]|\.\d)(?!\s?[%a-z$€£])")
_RANGE = re.compile(
    r"\d(?:st|nd|rd|th|\.)?\s?(?:-|–|to|till|until|and|&|y|al?|e|do|až|đến|sampai|și|i|bis|und|au|et|,)\s?$"
)
"""The beginning of "3 to 14 June", which is no single day."""
_NEAR = re.compile(
    r"\b(?:located (?:in|at|on)|find us (?:in|at|on)|in downtown|opposite|next to|across from"
    r"|in the heart of)\s[^\n,;.!?]{2,50}|\bdowntown\b(?: [A-Z][\w'’-]+)?"
)


@dataclass(frozen=True)
class Span:
    """Where in the text something stood."""

    start: int
    end: int


@dataclass(frozen=True)
class Offer:
    """One reason to buy now."""

    kind: str
    """percent, amount, price, from, two_for_one, free_delivery, free_trial, half_price or sale."""
    value: str = ""
    """The figure in the client's spelling: "20", "$10"."""


@dataclass(frozen=True)
class When:
    """A day or stretch of time, as known words."""

    unit: str
    """A weekday, "date", or one of `_SPANS`: today, tonight, tomorrow, weekend, week, month, month_end …"""
    day: str = ""
    """Of a date: the day's figure as written."""
    month: str = ""
    """Of a date: the month's English name, lower case."""
    deadline: bool = False
    """Whether it is the end of something (until) and not the day of something (on)."""
    quote: str = ""
    """The client's words, the "until" included."""


@dataclass(frozen=True)
class Contact:
    """How the listener gets there; every value in the client's spelling, absent ones empty."""

    phone: str = ""
    url: str = ""
    email: str = ""
    handle: str = ""
    code: str = ""
    place: str = ""
    hours: str = ""
    spans: tuple[Span, ...] = field(default=(), compare=False)


def contact(text: str) -> Contact:
    """Return every way to get in touch that `text` gives, the first of each kind."""
    low = folded(text)
    email, url = _EMAIL.search(low), _first_url(_plain(text))
    finds = {
        "email": email,
        "url": url,
        "handle": _HANDLE.search(low),
        "code": _CODE.search(_upper_kept(text, low)),
        "place": _ADDRESS.search(text) or _NEAR.search(text),
        "phone": _phone(low),
    }
    values = {key: _said(text, match) for key, match in finds.items() if match}
    spans = tuple(Span(match.start(), match.end()) for match in finds.values() if match)
    return Contact(**values, spans=spans)


def _said(text: str, match: re.Match[str]) -> str:
    group = 1 if match.re.groups and match.group(1) else 0
    return text[match.start(group) : match.end(group)].strip().rstrip(".")


def _first_url(text: str) -> re.Match[str] | None:
    return next((one for one in _URL.finditer(text) if text[max(0, one.start() - 1)] not in "@."), None)


def _plain(text: str) -> str:
    """Return `text` in lower case where a word may be an address; "Leeds.We" is the end of a sentence."""
    return re.sub(r"\.(?=[A-Z][a-z])", "\x01", text).lower() if len(text.lower()) == len(text) else text


def _upper_kept(text: str, low: str) -> str:
    """Return folded text except for words in capitals, so that a code is told from a word."""
    return re.sub(r"\b[A-Z0-9-]{3,20}\b", lambda match: match.group(), _merge(text, low))


def _merge(text: str, low: str) -> str:
    kept = list(low)
    for match in re.finditer(r"\b[A-Z0-9][A-Z0-9-]{1,19}\b", text):
        kept[match.start() : match.end()] = match.group()
    return "".join(kept)


def _phone(low: str) -> re.Match[str] | None:
    short = _SHORT_PHONE.search(low)
    return short or next((one for one in _PHONE.finditer(low) if _digits(one.group()) >= _PHONE_DIGITS), None)


_PHONE_DIGITS = 7


def _digits(text: str) -> int:
    return sum(char.isdigit() for char in text)


def hours(clause: str) -> str:
    """Return the opening hours when a clause says little else, else an empty string."""
    match = _HOURS.search(folded(clause))
    if not match:
        return ""
    beside = folded(clause[: match.start()] + clause[match.end() :])
    days = {hit.start for hit in mentions("cues/dates", beside)}
    others = [word for word in re.finditer(r"[^\W\d_]{3,}", beside) if word.start() not in days]
    telling = [word for word in others if word.group() not in small_words("opening")]
    return "" if telling else clause[match.start() : match.end()].strip()


def offers(clause: str) -> list[Offer]:
    """Return the offers in one clause: what is cheaper, free, or what it costs."""
    low = folded(clause)
    return list(_offers(low, clause))


def _offers(low: str, clause: str) -> Iterator[Offer]:
    said = {hit.concept for hit in mentions("cues/offers", clause)}
    yield from (Offer(kind) for kind in ("two_for_one", "free_delivery", "free_trial") if kind in said)
    less = "less" in said
    tenths = _TENTHS.search(low)
    if tenths:
        yield Offer("tenths", tenths.group(1))
    percent = _PERCENT.search(low)
    if percent and less:
        yield Offer("percent", percent.group(1))
    elif "half_price" in said:
        yield Offer("half_price")
    money = _MONEY.search(low)
    if money:
        value = clause[money.start() : money.end()].strip(" .,")
        yield Offer("amount" if less and not percent else "from" if "from" in said else "price", value)
    if "sale" in said and not (percent or money or tenths):
        yield Offer("sale")


def when(clause: str) -> When | None:
    """Return the day or stretch of time a clause names, or None."""
    low = folded(clause)
    date = _date(low)
    unit = (
        "date" if date else next((key for key in (*_SPANS, *WEEKDAYS) if has("cues/dates", key, clause)), "")
    )
    if not unit:
        return None
    position = date[2] if date else _position(unit, low)
    head = low[max(0, position - 24) : position]
    until = unit in {"month_end", "year_end", "limited"} or has("cues/dates", "until", head)
    until = until or (unit in {"today", "weekend", "week", "month"} and bool(_ONLY.search(low)))
    return When(unit, date[0] if date else "", date[1] if date else "", until, clause.strip(" ."))


def _position(unit: str, low: str) -> int:
    hit = mention("cues/dates", unit, low)
    return hit.start if hit else 0


def _date(low: str) -> tuple[str, str, int] | None:
    for hit in mentions("cues/dates", low):
        if hit.concept in MONTHS:
            before = re.search(
                r"(?<![\d.,:])(\d{1,2})(?:st|nd|rd|th|er|\.|º)?(?:\sof|\sde)?\s?$", low[: hit.start]
            )
            after = re.match(r"\s(\d{1,2})(?:st|nd|rd|th)?\b(?!\s?[%:])", low[hit.end :])
            head = low[: before.start() if before else hit.start]
            if _RANGE.search(head):
                return None
            if before or after:
                day = (before or after).group(1)  # type: ignore[union-attr]  # one of them matched
                return day, hit.concept, before.start() if before else hit.start
    return _numbered_date(low)


def _numbered_date(low: str) -> tuple[str, str, int] | None:
    chinese, vietnamese = _CHINESE_DATE.search(low), _VIETNAMESE_DATE.search(low)
    month, day = (chinese or vietnamese), ""
    if not month:
        plain = _PLAIN_DATE.search(low)
        return (plain.group(), "", plain.start()) if plain else None
    number, day = (month.group(1), month.group(2)) if chinese else (month.group(2), month.group(1))
    return (day, MONTHS[int(number) - 1], month.start()) if 1 <= int(number) <= len(MONTHS) else None


def slogan(text: str) -> tuple[str, Span] | None:
    """Return the brand's own line and where it stood: quoted, or to the end of its sentence."""
    hit = mention("cues/briefs", "slogan", text)
    if not hit:
        return None
    rest = re.match(r"\s*(?:is|are|to|es|é|je|este|ist|lautet|est|:|：|=|-|–|,)?\s*", text[hit.end :])
    start = hit.end + (rest.end() if rest else 0)
    quoted = re.match(r"[\"“„«‘']([^\"”“»’\n]{2,90})[\"”“»’']", text[start:])
    plain = re.match(r"[^\n.!?。！？;]{2,90}[.!?。！？]?", text[start:])
    found = quoted or plain
    if not found:
        return None
    line = found.group(1) if quoted else found.group()
    return line.strip(" .,"), Span(hit.start, start + found.end())


def script(text: str) -> tuple[str, Span] | None:
    """Return the script a client gives word for word and where it stood: quoted, or all after a colon."""
    hit = mention("cues/briefs", "script", text)
    if not hit:
        return None
    quoted = re.match(r"[^\"“„«\n]{0,40}[\"“„«]([^\"”“»]{12,})[\"”“»]", text[hit.end :])
    colon = re.search(r"[:：]", text[hit.start : hit.end + 1])
    found = quoted or (re.match(r"\s*[:：]?\s*((?:[^\n]+\n?)+)", text[hit.end :]) if colon else None)
    if not found or len(found.group(1)) < _SCRIPT_CHARS:
        return None
    return found.group(1).strip(), Span(hit.start, hit.end + found.end())


_SCRIPT_CHARS = 24


def names_currency(text: str) -> bool:
    """Whether `text` ends with the name of a currency: "a thousand dollars"."""
    return bool(re.search(rf"(?<!\w){_UNIT}$", folded(text).strip()))


def has_money(text: str) -> bool:
    """Whether `text` names an amount of money."""
    return bool(_MONEY.search(folded(text)))
