"""The name in a client description, and what the client says it is."""

import re
from collections.abc import Iterator
from itertools import takewhile

from providers.offline.ad_creation import capitals
from providers.offline.ad_creation.kinds import is_kind as is_trade
from providers.offline.ad_creation.wording import CAPITAL, GOES_ON, mentions, small_words
from state.languages import find

_THAI = re.compile(r"[\u0e00-\u0e7f]")
_THAI_TRADE = 8
"""A first word this short is the trade ("ร้านกาแฟ"), and the name comes after it."""
_NAME_CHARS = 48
_NAME_WORDS = 6
_WHAT_WORDS = 16
_QUOTED = re.compile(r"[\"“„«]([^\"”“»\n]{2,48})[\"”“»]")
_BREAK = re.compile(
    r"\s[-–—|]\s|[:：,，、;|()（）\n]|\s?[–—]\s?|(?<!\bDr)(?<!\bSt)(?<!\bMr)(?<!\bMrs)(?<!\bNo)[.!?。！？](?=\s|$)"
)
_IS = re.compile(
    r"^(?P<name>[^\s,].{0,46}?)\s(?P<verb>is|are|to|jest|es|son|é|são|là|je|jsou|este|sunt|adalah|est|sont)\s(?P<what>(?:an?|the|your|one|un|une|una|uma|um|o|một|nov\w+|sebuah)?\s?.{3,120})"
)
_WE = re.compile(
    r"^(?:we are|we're|i run|i own|we run|this is|meet|introducing|jesteśmy|somos|kami|chúng tôi là|jsme"
    r"|nous sommes|je suis|on est|voici"
    r"|suntem|我们是|พวกเราคือ|เราคือ)\s?(?P<name>[^,，.:;–—\n]{2,48})",
    re.IGNORECASE,
)
_FOR = re.compile(
    r"(?:(?:\bad|\bads|\bspot|\bcommercial|\badvert|\bpromo|\bcampaign|\bscript)\b[^.\n]{0,30}?\bfor|\bpromot(?:e|ing)|\badvertis(?:e|ing)|\blaunching"
    r"|\b(?:pub|publicité|annonce|spot)\b[^.\n]{0,30}?\bpour)\s(?:(?:my|our|the|a|an|new|notre|nos|mon|ma|les?|la|une?)\s){0,3}"
    r"(?P<name>[^,.:;\n]{2,60})",
    re.IGNORECASE,
)
_RUN = (
    r"(?:["
    + CAPITAL
    + r"][\w'’&-]*|\d+[A-Z]\w*)(?:\s(?:(?:&|and|of|the|de|la|del|du|des|do|da|dos|das|y|e|et|i|a)\s|de la\s)?"
    r"(?:[dl]['’])?[" + CAPITAL + r"0-9][\w'’&.-]*){0,4}"
)
_CHINESE = re.compile(
    r"[\u3400-\u9fff]{2,12}?(?=卖|出售|招募|招收|招聘|提供|推出|做[一个条支段则]|专营|主营|专做|承接|举办|位于|开业|开在|免费|面向|每周"
    r"|(?:\d{1,2}|[一二三四五六七八九十]{1,2})月|今天|本周|现在|\s[\u3400-\u9fff])"
)
"""A Chinese name and what ends it: a verb, a time, a space."""
_CAPITALS = re.compile(rf"(?<![.!?]\s){_RUN}")
_BE = re.compile(
    r"(?:^|\s)(?:we are|we're|it is|it's|is|are|the|a|an|our|its|y|e"
    r"|(?:the|our|la|notre|nuestra|a|nossa|el|o|le)\s(?:shop|store|company|boutique|tienda|loja|magasin)"
    r"|que|et|qui|on|ça|ca|il|elle|nous nous)$",
    re.IGNORECASE,
)
_OWNER = re.compile(
    r"(?:(?:we|i)(?:'re| are| run| own| have|'ve got)|tengo|tenemos|llevo|llevamos|somos|soy|tenho|temos|sou"
    r"|j['’]ai|nous avons|on a|je tiens|on tient|nous tenons|nous sommes|je suis|on est)"
    r"\s(?=(?:an?|the|una?|el|uma?|o|une?|le|la|les)\s[a-zà-ÿ]|[a-zà-ÿ]+s\s(?:à|en|in|de|em)\s)",
    re.IGNORECASE,
)
"""Before what a client says it is: "we run a bike shop"."""
_SIGNED = re.compile(
    r"(?:(?P<end>[.!?;\n]\s*)|[,\s]\s*)"
    r"(?P<self>(?:we(?:'re| are)|somos|sou|soy|nous sommes|on est|c['’]est|é|es|signé)\s)?"
    rf"(?P<name>{_RUN})[.!]?$"
)
"""The name at the end of a text, a sentence of its own or after "we are"."""
_LONGEST_SIGNATURE = 5
_LOWER = re.compile(r"\s*[a-ząćęłńóśźżáčďéěíňřšťúůýž]")
_ADS = (
    r"(?:radio\s)?(?:ads?|advert(?:isement)?|spot|commercial|promo|reklam[aęuy]|iklan|quảng cáo|spotu|โฆษณา"
    r"|สปอต(?:วิทยุ)?|anuncio|anúncio|cuña|reclam[ăa]|pub(?:licité)?|annonce|广告)(?:\s(?:de\s|do\s)?(?:r[aá]di(?:ow\w{1,4}|[oa])|rozhlasov\w+|audio))?"
)
_LENGTH = (
    r"\d{1,3}\s?-?(?:de\s)?(?:s|secs?|seconde?s?|sekund\w*|segundos?|detik|giây|วินาที|vteřin\w*|secunde|秒钟?)"
)
_WISH = (
    r"(?:potrzebn[aey]|potrzebuj[ęe]|potrzebujemy|pros(?:zę|ze|imy) o|poproszę|chciał\w+(?: bym| zamówić)?"
    r"|(?:potřeboval|chtěl)\w* bych|potřebuj\w+|prosím o|a[șs] vrea|vreau|vrem|a(?:m|vem) nevoie de|dorim)"
    r"(?:\s(?:vă rog|va rog|prosím|proszę))?\s"
)
_ORDERED = (
    r"(?:(?:an?|the|une?|una|uma?|la|o|một)\s)?"
    rf"(?:{_ADS}\s?(?:(?:of|na|de|dài|ยาว)\s)?{_LENGTH}|{_LENGTH}(?:\s?{_ADS})?)"
)
_ORDER = re.compile(
    rf"^\W*(?:(?:{_WISH})?{_ORDERED}|{_WISH}(?:un\s|o\s)?{_ADS})"
    r"(?:\s?[:：]\s?|\.\s+|\s(?:for|dla|untuk|cho|para|pra|pro|pentru|pour)\s|\s?สำหรับ|\s?给)",
    re.IGNORECASE,
)
"""What is ordered and how long it is, before who it is for: no part of a name."""
_WHERE = re.compile(r"(?:^|\s)(?:in|near|w|we|ve|en|em|di|în|din|ở|tại|à|a|près de)\s$")
_DOES = re.compile(
    r"(?:(?:cherche|propose|présente|aide|organise|recrute|accueille|ouvre|joue|fête)(?:nt)?|vend(?:ent)?|vous"
    r"|(?:procura|apresenta|oferece|busca|abre|vende|organiza|convida|recebe|presenta|ofrece|celebra|enseña)[nm]?"
    r"|(?:[a-z-]+\s){0,2}(?:teaches|presents|offers|hosts|celebrates|rents|sells|bakes|repairs|fixes|serves"
    r"|brews|delivers|roasts|is looking for|is hiring))\s"
)
"""A sentence whose subject was the name."""
_SINCE = re.compile(
    r"(?P<told>(?:schon |już |už |deja )?(?:seit|od|už|de|din|since|for|depuis|desde|desde hace|há|dal)"
    r"\s\d+\b[^.:!?\n]{0,40}):\s",
    re.IGNORECASE,
)
"""How long it has been there, before the name: "Seit 30 Jahren für Sie da: Elektro Brandl"."""
_FIRM = re.compile(
    r"(?:^|(?<=[.,;:]))\s*(?:(?:die|unsere?|mein|das|der|nasza|nasze|nasz|moja|naše|náš|moje|the|our)\s)?"
    r"(?:firma|firmy|laden|geschäft|betrieb|sklep|zakład|lokal|obchod|podnik|provozovna|magazinul|localul"
    r"|compania|company|business|shop)?[\s,]*(?:\b(?:und|i|a|și|si|and|y|e|et))?$",
    re.IGNORECASE,
)
"""What only leads to a name at the end: "… rund um die Uhr. Die Firma", "… in Husum und"."""
_AND_END = re.compile(r"[\s,]+(?:und|i|a|și|si|and|et)$", re.IGNORECASE)
_MORE_OF_NAME = re.compile(
    r"(?:\s(?!(?:v|ve|na|u|a|i|z|s|se|je|pro|od|do|za)\s)[^\W\d_A-Z][^\W\d_]+){1,2}(?=\s*(?:[,.;:!?\n]|$))"
)
"""Czech writes only the first word of a name with a capital: "Vodácké doupě"."""
_HEAD_WORDS = 4
_CZECH_CALLED = {"jmenuje se", "jmenujeme se", "se jmenuje", "se jmenujeme", "s názvem", "název je"}
_QUOTED_WORDS = 4
_WHAT_CHARS = 120
_NOUN = re.compile(r"(?:an?|the|our|my|une?|una|uma?|la|les?|el|o|os|as|notre|mon|ma|một)\s", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:an?|the|our|your|my|new|une?|notre|nos)\s", re.IGNORECASE)
_LOCAL = re.compile(rf"\s(?:(?:in|at|near|from)\s.{{2,40}}|à\s[{CAPITAL}].{{1,40}})$")
"""Only English and French: elsewhere the place is a part of the name or inflected."""


def name(client: str, *, is_kind: bool, german: bool = False) -> tuple[str, str]:
    """Return `(brand, rest)`: the name, empty if none is given, and the client's text without it.

    `is_kind` says whether the first words are only the name of a trade ("Coffee shop, hipsters"). In a
    `german` text capitals tell nothing.
    """
    text = client.strip()
    since = _SINCE.match(text)
    if since:
        brand, rest = name(text[since.end() :], is_kind=False, german=german)
        return brand, ". ".join((rest.strip(" ."), since.group("told"))) if brand else text
    if german:
        return _german(text)
    text = _OWNER.sub("", text, count=1) if _OWNER.match(text) else text
    for finder in (_named, _quoted, _who, _equals, _asked, _ordered, _signed, _head):
        brand, rest = finder(text, is_kind)
        if brand:
            return brand, f"{brand} {rest}" if _DOES.match(rest) else rest
    order = _ORDER.match(text)
    # What is ordered is nothing to be said of the client, who is a noun with its article.
    return "", text[order.end() :] if order and _NOUN.match(text, order.end()) else text


def _german(text: str) -> tuple[str, str]:
    brand, rest = _named(text, False)  # noqa: FBT003
    if brand:
        return brand, capitals.whole(brand, rest)
    quoted = _QUOTED.search(text)
    if quoted and (brand := _quoted(text, False)[0]):  # noqa: FBT003
        before, after = text[: quoted.start()].strip(" ,:"), text[quoted.end() :].lstrip(" ,:-–—")
        return brand, ". ".join(part for part in (before, capitals.whole(brand, after)) if part)
    brand, rest = capitals.name(text)
    return _fits(brand), rest


def _fits(brand: str) -> str:
    bare = brand.strip(" \"'“”„«».,:;!?-–—")
    return bare if 0 < len(bare) <= _NAME_CHARS and len(bare.split()) <= _NAME_WORDS else ""


def _named(text: str, _kind: bool) -> tuple[str, str]:  # noqa: FBT001 - one signature for all finders
    hits = [hit for hit in mentions("cues/briefs", text) if hit.concept == "named"]
    hit = next((hit for hit in hits if not _LOWER.match(text[hit.end :])), None)
    if not hit:
        return "", ""
    rest = text[hit.end :].lstrip(" :：=\"'“„«")
    capital = _CAPITALS.match(rest)
    brand = (
        capital.group()
        if capital
        else re.split(r"[\"”“»,，.。;:!?！？\n]|\s(?:is|are|that|which|and)\s", rest)[0]
    )
    tail = rest[len(brand) :].lstrip(" \"'”»")
    if capital and text[hit.start : hit.end].lower() in _CZECH_CALLED:
        more = _MORE_OF_NAME.match(rest, len(brand))
        brand += more.group() if more else ""
        tail = rest[len(brand) :].lstrip(" \"'”»")
    before = _AND_END.sub("", _FIRM.sub("", _BE.sub("", text[: hit.start].strip(" ,:")))).strip(" ,.:")
    return _fits(brand), f"{before}. {tail}" if before else tail


def _quoted(text: str, _kind: bool) -> tuple[str, str]:  # noqa: FBT001
    match = _QUOTED.search(text)
    if not match or (match.start() > 0 and len(match.group(1).split()) > _QUOTED_WORDS):
        return "", ""
    return _fits(match.group(1)), (text[: match.start()] + " " + text[match.end() :]).strip(" ,:-–—")


def _who(text: str, _kind: bool) -> tuple[str, str]:  # noqa: FBT001
    match = _WE.match(text)
    if not match or _ARTICLE.match(match.group("name")):
        return "", ""
    return _fits(match.group("name")), text[match.end() :].lstrip(" ,，:.–—-")


def _equals(text: str, _kind: bool) -> tuple[str, str]:  # noqa: FBT001
    sentence = re.split(r"[\n.!?。]", text)[0]
    match = _IS.match(sentence)
    if not match or _ARTICLE.match(match.group("name")) or "," in match.group("name"):
        return "", ""
    if match.group("verb") == "to" and text.isascii():  # Polish "to" is a verb, English "to" is not.
        return "", ""
    return _fits(match.group("name")), text[match.start("what") :]


def _asked(text: str, _kind: bool) -> tuple[str, str]:  # noqa: FBT001
    match = _FOR.search(text)
    if not match:
        return "", ""
    words = match.group("name")
    capital = next(_names(words), None)
    brand = capital.group() if capital else ""
    lead = re.sub(r"\s{2,}", " ", re.sub(r"^\w+'s\s", "", words.replace(brand, "").strip()))
    return _fits(brand), lead + text[match.end() :]


def _ordered(text: str, is_kind: bool) -> tuple[str, str]:  # noqa: FBT001
    order = _ORDER.match(text)
    if not order:
        return "", ""
    rest = text[order.end() :]
    if order.group().rstrip()[-1] in ":：." or not order.group()[-1].isspace():
        return _head(rest, is_kind)
    first = _BREAK.split(rest, maxsplit=1)[0]
    capital = next(_names(first), None)
    if not capital:
        return "", ""
    lead, tail = first[: capital.start()].strip(" ,"), rest[capital.end() :].strip(" ,.")
    return _fits(capital.group()), ". ".join(part for part in (lead, tail) if part)


def _signed(text: str, is_kind: bool) -> tuple[str, str]:  # noqa: FBT001
    """Return the name that a text ends with, where nothing before it is a better one."""
    match = _SIGNED.search(text)
    if not match or not (match.group("end") or match.group("self")):
        return "", ""
    words = match.group("name").split()
    first = _head(text, is_kind)[0]
    better = first and _like_a_name(first, text) and not is_trade(first) and not match.group("self")
    if better or len(words) > _LONGEST_SIGNATURE or any(map(str.isdigit, match.group("name"))):
        return "", ""
    return _fits(match.group("name")), text[: match.start()].strip(" ,;")


def _like_a_name(first: str, text: str) -> bool:
    """Whether the first words are a name: mostly capitals, and not only where it is ("la playa de Gros")."""
    words = first.split()
    capitals = sum(word[:1].isupper() for word in words)
    placed = re.search(rf"\b(?:de|del|do|da|du|of|from)\s{re.escape(first)}\b", text)
    return capitals * 2 > len(words) and not (placed and len(words) == 1)


def _names(text: str) -> Iterator[re.Match[str]]:
    """The capitalised words of a text, but those that say where."""
    return (run for run in _CAPITALS.finditer(text) if not _WHERE.search(text[: run.start()]))


def _head(text: str, is_kind: bool) -> tuple[str, str]:  # noqa: FBT001
    if is_kind:
        return "", text
    if _THAI.match(text):
        return _thai(text)
    first = _BREAK.split(text, maxsplit=1)[0].strip()
    rest = text[len(first) :].lstrip(" -–—|:：,，、;()（）\n.")
    if brand := _chinese(first):
        return _fits(brand), text[len(brand) :].lstrip()
    if _is_title(first):
        bare = _LOCAL.sub("", first)
        return _fits(bare), ". ".join(part for part in (first[len(bare) :].strip(), rest) if part)
    runs = [run for run in _names(first) if run.group().split()[0] not in small_words("orders")]
    runs = [run for run in runs if not find(run.group())] or runs
    # A capital that only begins the sentence names nothing when another one stands further on.
    capital = (
        runs[1]
        if len(runs) > 1 and runs[0].start() == 0 and runs[0].group()[1:].islower()
        else next(iter(runs), None)
    )
    if capital:
        lead, tail = first[: capital.start()].strip(" ,"), first[capital.end() :].strip(" ,")
        return _fits(capital.group()), ". ".join(part for part in (lead, tail, rest) if part)
    return _apart(text)


def _apart(text: str) -> tuple[str, str]:
    """Return the name that stands alone between commas: "a bike shop, Le Rayon Libre, repairs in a day"."""
    parts = [part.strip() for part in re.split(r"[,;]\s", text)]
    names = (part for part in parts[1:] if " " in part and re.fullmatch(_RUN, part))
    name = next(names, "")
    return (_fits(name), ", ".join(part for part in parts if part != name)) if name else ("", text)


def _chinese(first: str) -> str:
    """Return the name that begins a Chinese sentence, up to what it does or when: "老张养蜂场 | 卖…"."""
    match = _CHINESE.match(first)
    return match.group() if match else ""


def _is_title(first: str) -> bool:
    """Whether the first words of a text are a name: few, or a few more with capitals among them."""
    words = first.split()
    if not words or words[0] in small_words("orders") or len(first) > _NAME_CHARS or _ARTICLE.match(first):
        return False
    capitals = [word for word in words if word[:1].isupper()]
    return len(words) <= _HEAD_WORDS or (
        len(words) <= _NAME_WORDS and len(capitals) > 1 and words[0] in capitals
    )


def _thai(text: str) -> tuple[str, str]:
    """Thai sets a space between phrases: the name is the first, with the Latin letters that follow it."""
    line = _BREAK.split(text, maxsplit=1)[0].strip()
    words = line.split()
    latin = len(list(takewhile(str.isascii, words[1:])))
    count = 1 + (latin or sum(1 for _ in words[1:2] if len(words[0]) <= _THAI_TRADE))
    brand = _fits(" ".join(words[:count]))
    return brand, text[len(" ".join(words[:count])) :].lstrip(" -–—|:,.\n") if brand else text


def what(rest: str) -> str:
    """Return the client's own words for what it is: the first clause of `rest`, if it is short and a noun."""
    first = re.split(
        rf"[\n.!?。！？;；]|(?<=\S)[,，:：|](?!\s{GOES_ON})(?:\s|(?<=[，：]))|\s[–—-]\s", rest.strip()
    )[0].strip(" )(）")
    first = re.sub(r"^(?:is|are|that is|which is|jest|es|é|là|je|este|adalah|是|คือ|เป็น)\s?", "", first)
    return first if 0 < len(first.split()) <= _WHAT_WORDS and len(first) <= _WHAT_CHARS else ""
