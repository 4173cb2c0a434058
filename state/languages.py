"""Supported languages with their names, codes and speaking rates, and detection of a text's language.

A language is stored by its English name in lower case ("thai"). Names, ISO-639-1 codes, BCP-47 tags and
native names are accepted. Rates are averages for advertising copy read aloud.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Language:
    """One language."""

    name: str
    """English name, lower case: the form that is stored."""
    code: str
    """ISO-639-1 code, or ISO-639-3 where there is none (yue)."""
    native: tuple[str, ...]
    """Names in the language itself."""
    unit: Literal["word", "character"]
    """Unit of `rate`: characters where the script does not separate words."""
    rate: float
    """Units per second at speed 1.0."""
    aliases: tuple[str, ...] = ()
    """Further names and three-letter codes."""


LANGUAGES: tuple[Language, ...] = (
    Language("english", "en", ("English",), "word", 2.5, ("eng",)),
    Language("thai", "th", ("ไทย", "ภาษาไทย"), "character", 13.0, ("tha",)),
    Language("indonesian", "id", ("Bahasa Indonesia", "Indonesia"), "word", 2.2, ("ind", "bahasa")),
    Language("polish", "pl", ("Polski", "Język polski"), "word", 2.1, ("pol",)),
    Language("spanish", "es", ("Español", "Castellano"), "word", 2.6, ("spa", "castilian")),
    Language("portuguese", "pt", ("Português",), "word", 2.5, ("por", "brazilian portuguese", "brazilian")),
    Language("vietnamese", "vi", ("Tiếng Việt", "Việt"), "word", 3.3, ("vie",)),
    Language("czech", "cs", ("Čeština", "Česky"), "word", 2.1, ("ces", "cze")),
    Language("romanian", "ro", ("Română", "Limba română"), "word", 2.3, ("ron", "rum", "moldovan")),
    Language(
        "chinese",
        "zh",
        ("中文", "汉语", "漢語", "普通话", "普通話", "国语", "國語", "华语", "華語"),
        "character",
        4.3,
        ("zho", "chi", "mandarin", "cmn", "mandarin chinese"),
    ),
    Language("cantonese", "yue", ("粤语", "粵語", "广东话", "廣東話"), "character", 4.3, ("zh-hk",)),
    Language("german", "de", ("Deutsch",), "word", 2.1, ("deu", "ger")),
    Language("french", "fr", ("Français",), "word", 2.6, ("fra", "fre")),
    Language("italian", "it", ("Italiano",), "word", 2.5, ("ita",)),
    Language("dutch", "nl", ("Nederlands",), "word", 2.4, ("nld", "dut", "flemish")),
    Language("japanese", "ja", ("日本語",), "character", 6.5, ("jpn",)),
    Language("korean", "ko", ("한국어",), "word", 1.9, ("kor",)),
    Language("hindi", "hi", ("हिन्दी", "हिंदी"), "word", 2.5, ("hin",)),
    Language("arabic", "ar", ("العربية",), "word", 2.0, ("ara",)),
    Language("turkish", "tr", ("Türkçe",), "word", 1.9, ("tur",)),
    Language("swedish", "sv", ("Svenska",), "word", 2.4, ("swe",)),
    Language("russian", "ru", ("Русский",), "word", 1.9, ("rus",)),
    Language("ukrainian", "uk", ("Українська",), "word", 1.9, ("ukr",)),
)


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip().casefold()


_BY_NAME: dict[str, Language] = {
    _normalize(spelling): language
    for language in LANGUAGES
    for spelling in (language.name, language.code, *language.native, *language.aliases)
}


def find(text: str) -> Language | None:
    """Return the language of a name, ISO code, BCP-47 tag or native name; None when unknown.

    A tag's region is ignored ("pt-BR" is portuguese), unless the whole tag is an alias ("zh-HK").
    A trailing qualifier in parentheses is ignored too ("Spanish (Mexico)").
    """
    key = _normalize(text).replace("_", "-")
    if not key:
        return None
    if key in _BY_NAME:
        return _BY_NAME[key]
    head = key.split("(")[0].strip()
    if head in _BY_NAME:
        return _BY_NAME[head]
    tag = key.split("-")[0]
    return _BY_NAME.get(tag) if tag != key and len(tag) in {2, 3} else None


_NO_LANGUAGE = frozenset({"unknown", "none", "other", "mixed", "various", "same"})
_MAX_NAME = 30


def stated_name(text: str) -> str:
    """Return the stored name of a language; one outside the table as it is written; empty for no language."""
    if known := find(text):
        return known.name
    name = " ".join(_normalize(text).split())
    is_name = name.replace(" ", "").isalpha() and len(name) <= _MAX_NAME and len(name.split()) <= 2  # noqa: PLR2004
    return name if is_name and name not in _NO_LANGUAGE else ""


_SCRIPTS: tuple[tuple[str, str], ...] = (
    ("THAI", "thai"),
    ("HIRAGANA", "japanese"),
    ("KATAKANA", "japanese"),
    ("HANGUL", "korean"),
    ("CJK", "chinese"),
    ("DEVANAGARI", "hindi"),
    ("ARABIC", "arabic"),
    ("CYRILLIC", "cyrillic"),
    ("GREEK", "greek"),
)
_COMMON_WORDS: dict[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "english": "the and for with you your our is are of to in a we from this that on it make",
        "indonesian": "yang dan untuk dengan kami anda di dari ini itu ke adalah lebih pada kita bisa"
        " buat tolong sampai sampe mulai buka tutup jam bulan tahun hari setiap tiap aja saja ribu juta"
        " detik anak sekolah orang juga pesan suara ya",
        "polish": "i w na z dla się nie jest do że oraz od to nasze po jak przez więcej we za przy tylko"
        " każdy każda każdą sie nasz nasza mam mamy ul zł zl poniedziałek wtorek wtorki środa"
        " środy czwartek czwartki piątek piątki soboty niedziela niedziele dzień złotych godziny",
        "spanish": "el la los las de y para con un una en que por más su del nuestra es hacer"
        " al lo se sin desde hasta nuestro somos tengo hola muy cada donde mi tu pero también",
        "portuguese": "o os as de e para com um uma em que por mais seu do da dos às nossa não é ao são à"
        " nas pelo pela pra sem tem até você nosso quem oi tenho muito também nao voce",
        "vietnamese": "và của cho với các một những là có được không trong người bạn chúng tôi hãy"
        " cua cac nhung khong duoc giam ngay dich vu tiem quan tuan khach mien phi",
        "czech": "a v na s pro se není je do že od to naše po jak více jsou také nebo ve za při jen"
        " každý každé každou mame máme jsme korun kč kc pondělí úterý středa středu čtvrtek"
        " pátek sobotu neděle neděli hodin jmenuje",
        "romanian": "și în pentru cu un o la de pe este sunt mai nu care din noastră să si se am avem ani"
        " lei noi vă până pana după dupa luni marți miercuri miercurea joi vineri vinerea"
        " sâmbăta duminică duminica secunde numește numeste reclama preț",
        "german": "der die das und für mit ein eine ist nicht von zu wir ihr mehr im am bei auf den dem"
        " ab bis unser jeden aus jetzt seit uhr montag dienstag mittwoch donnerstag freitag samstag sonntag",
        "french": "le la les des et pour avec un une est dans que nous vous plus du"
        " au aux chez sur notre votre à dès jusqu'au rendez-vous tous on qui par"
        " juin juillet août sans j'ai c'est d'un"
        " d'une ce cette mon ma svp bonjour lundi mardi mercredi jeudi vendredi samedi dimanche",
        "italian": "il lo la gli le e per con un una è di che del più nostra dal dalla alle nel nella sono"
        " i della anche come si",
        "dutch": "de het een en voor met is niet van te wij jullie meer op",
        "turkish": "ve bir bu için ile çok daha olan gibi her ne var kadar sonra ama değil olarak da de ya",
        "swedish": "och att det som är av för med den till inte har om ett men vi kan från i en på sin sina"
        " genom upp så de",
        "danish": "og at det er af til på med den ikke som har et en fra vi men sig deres op hele i",
        "finnish": "ja on ei se että oli kun myös mutta ovat joka kuin sen tämä niin",
    }.items()
}


_OWN_LETTERS: dict[str, frozenset[str]] = {
    "polish": frozenset("ąęłńśźż"),
    "czech": frozenset("ěřůťďň"),
    "romanian": frozenset("șțţ"),
    "spanish": frozenset("ñ"),
    "portuguese": frozenset("ãõ"),
    "german": frozenset("ß"),
    "turkish": frozenset("ğı"),
    "danish": frozenset("æø"),
    "vietnamese": frozenset("đơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ"),
}
"""Letters of only one language; Vietnamese, whose words have several such letters, may share them."""
_UKRAINIAN, _RUSSIAN, _OTHER_CYRILLIC = frozenset("їєґ"), frozenset("ыэ"), frozenset("ўјљњћђџѓќѝ")


def detect(text: str) -> str | None:
    """Return the name of the language `text` is written in, or None when it cannot be determined.

    A script of one language decides. Latin text is scored by common words and by lower-case words (not names)
    with a letter of only one language; the best score must be at least 2 and unique. Languages outside the
    table, such as Danish, only keep their neighbours from winning.
    """
    sample = text[:5000]
    scripts = [name for char in sample if (name := _script(char))]
    if len(scripts) * 4 > sum(char.isalpha() for char in sample):
        if "japanese" in scripts:
            return "japanese"
        name = max(set(scripts), key=lambda name: (scripts.count(name), name))
        return _cyrillic(sample) if name == "cyrillic" else _in_table(name)
    words = [unicodedata.normalize("NFC", word).strip(".,;:!?¡¿()\"'") for word in sample.split()]
    scores = sorted(((_evidence(words, name), name) for name in _COMMON_WORDS), reverse=True)
    (best, name), (second, _) = scores[0], scores[1]
    return _in_table(name) if best >= 2 and best > second else None  # noqa: PLR2004


def _in_table(name: str) -> str | None:
    return name if name in _BY_NAME else None


def _cyrillic(text: str) -> str | None:
    """Return the language of a Cyrillic text by its letters; None for neither Russian nor Ukrainian."""
    letters = frozenset(text.casefold())
    if letters & _OTHER_CYRILLIC:
        return None
    if letters & _RUSSIAN:
        return "russian"
    if letters & _UKRAINIAN or "і" in letters:
        return "ukrainian"
    # Without ы and э a text with ъ is Bulgarian.
    return None if "ъ" in letters else "russian"


def _evidence(words: Sequence[str], language: str) -> int:
    """Return the number of words that indicate a language."""
    common, letters = _COMMON_WORDS[language], _OWN_LETTERS.get(language, frozenset())
    return sum(
        _normalize(word) in common or (word[:1].islower() and not letters.isdisjoint(word)) for word in words
    )


def _script(char: str) -> str | None:
    if char < "\u0370" or not (char.isalpha() or unicodedata.category(char) == "Mn"):
        return None
    named = unicodedata.name(char, "")
    return next((language for script, language in _SCRIPTS if named.startswith(script)), None)
