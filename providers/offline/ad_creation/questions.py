"""Questions about the ad and about what can be done: recognised, and answered from what is known."""

from collections.abc import Callable, Mapping
from typing import Any

from providers.offline.ad_creation.clauses import Clause
from providers.offline.ad_creation.edits import Ask, Beyond, Chat, Edit, Note
from providers.offline.ad_creation.history import Ad
from providers.offline.ad_creation.script import duration_s
from providers.offline.ad_creation.tracks import named
from state.ad import STREAMS

STATE_TOPICS = frozenset({"voices", "music", "sfx", "script", "length", "versions", "language", "overview"})
"""Questions whose answer is in the ad as it stands."""
_DIRECT = ("able", "self", "cost", "fit", "length", "changed", "versions")
_ABOUT = (
    ("noun.music", "music"),
    ("noun.effect", "sfx"),
    ("sound", "sfx"),
    ("noun.text", "script"),
    ("noun.line", "script"),
    ("verb.say", "script"),
    ("noun.voice", "voices"),
    ("noun.announcer", "voices"),
    ("question.who", "voices"),
    ("gender", "voices"),
    ("noun.version", "versions"),
    ("noun.length", "length"),
    ("noun.language", "language"),
    ("tongue", "language"),
    ("topic", "script"),
    ("noun.track", "script"),
    ("quality", "overview"),
    ("noun.ad", "overview"),
)
_LOOSE = frozenset({"question.who", "quality", "sound"})
"""Words that tell of the ad only where the others do: not "who" in "who won the match"."""
_DOING = (
    "verb.add",
    "verb.remove",
    "verb.replace",
    "verb.move",
    "verb.translate",
    "verb.shorten",
    "verb.lengthen",
    "verb.write",
)
_REMARKS = frozenset({"chat", "skip", "join", "question", "pronoun", "degree", "particle", "number"})
_FEW = 2


def read(clause: Clause, ad: Ad) -> list[Edit]:
    """Return the question `clause` asks, if it is one."""
    if clause.has("question.self"):
        return [Ask("self")]
    if clause.has("verb.mention") and not clause.asking:
        return []
    direct = _direct(clause)
    if direct:
        return [Ask(direct)]
    why = clause.has("question.why")
    if not _opens(clause) or (clause.has(*_DOING) and not why):
        return []
    if why and not clause.has("verb.change", "verb.remove", "verb.move", "verb.replace", "pronoun.different"):
        return [Ask("self")]
    topic = "changed" if why else _topic(clause)
    if topic == "voices" and clause.has("pronoun.other", "pronoun.different", "question.able"):
        topic = "catalogue"
    return [Ask(topic, named(clause, ad, plural=False).tracks)] if topic else []


def _direct(clause: Clause) -> str:
    """Return the topic of a question that a phrase tells: "how long is it", "what can you do"; or empty."""
    for topic in _DIRECT:
        judged = set(clause.names("quality")) - ({"long"} if topic == "length" else set())
        plain = clause.has(f"question.{topic}") and not clause.has(*_DOING) and not judged
        if plain or (topic == "fit" and clause.has("question.fit") and clause.asking):
            return "length" if topic == "fit" else topic
    return ""


def _opens(clause: Clause) -> bool:
    """Whether the clause begins like a question or ends as one."""
    fillers = {at for mark in clause.all("skip", "chat", "join") for at in range(mark.first, mark.last)}
    first = next((at for at in range(clause.first, clause.last) if at not in fillers), clause.first)
    asking = [mark for mark in clause.all("question") if mark.concept != "question.is"]
    if any(mark.first <= first + 1 for mark in asking):
        return True
    bare = clause.has("question.what", "question.how") and not clause.has("verb")
    counting = (bare or clause.has("question.count")) and clause.has(*(concept for concept, _ in _ABOUT))
    if counting and not clause.has("verb.make", "verb.change", "verb.use", "verb.create", "quality"):
        return True
    is_first = any(mark.first <= first for mark in clause.all("question.is"))
    return (
        clause.asking
        and (is_first or bool(asking))
        and not clause.has("verb.make", "verb.change", "verb.use")
    )


def _topic(clause: Clause) -> str:
    if clause.has("question.who") and clause.has("noun.track", "noun.line") and clause.has("verb.say"):
        return "voices"
    known, concept = next(((topic, one) for one, topic in _ABOUT if clause.has(one)), ("", ""))
    if concept in _LOOSE and not clause.has("pronoun", "verb") and clause.rest():
        return ""
    judged = clause.has("question.is") and not clause.has("quality", "question.what", "question.how")
    if known == "overview" and judged and clause.rest():
        return ""
    return known or ("overview" if clause.has("pronoun.it") and not clause.rest() else "")


def chat(clause: Clause) -> Chat | None:
    """Return small talk, where nothing else is said."""
    if not clause.has("chat"):
        return None
    groups = {mark.concept.split(".")[0] for mark in clause.marks}
    kinds = clause.names("chat")
    spoken = [
        mark
        for mark in clause.marks
        if mark.concept.split(".")[0] not in _REMARKS and not _within_chat(clause, mark)
    ]
    covered = {at for mark in clause.marks for at in range(mark.first, mark.last)}
    unknown = [
        at
        for at in range(clause.first, clause.last)
        if at not in covered and clause.tokens[at].word.isalpha()
    ]
    remark = {"thanks", "praise", "greeting", "bye"} & set(kinds)
    statement = remark and all(
        mark.concept.startswith(("noun", "verb.make", "verb.put", "ordinal", "unit", "quality"))
        for mark in spoken
    )
    if (
        (unknown and not remark)
        or (spoken and not statement)
        or len(unknown) > _FEW
        or ("negation" in groups and not {"no", "yes"} & set(kinds))
    ):
        return None
    if (
        "quality" in groups
        and clause.has("degree", "verb.make", "noun")
        and not clause.has("chat.praise", "chat.thanks")
    ):
        return None
    order = ("no", "yes", "thanks", "praise", "bye", "greeting", "ok")
    kind = next(kind for kind in order if kind in kinds)
    return Chat("yes" if kind == "ok" else kind)


def _within_chat(clause: Clause, mark: Any) -> bool:
    return any(one.first <= mark.first and mark.last <= one.last for one in clause.all("chat"))


def limit(clause: Clause) -> Beyond | None:
    """Return what `clause` asks that no tool here can do, or None."""
    name = next(iter(clause.names("limit")), "")
    if not name or (
        clause.has("sound", "noun.effect", "verb.mention", "genre") and name in {"picture", "weather", "hear"}
    ):
        return None
    if name == "publish" and clause.has("verb.mention", "verb.say"):
        return None
    if name == "other":
        return Beyond("weather")
    if name == "weather" and clause.has(
        "noun.music", "noun.voice", "noun.text", "noun.ad", "verb.add", "quality"
    ):
        return None
    if clause.quotes:
        return None
    return Beyond(name)


def answer(question: Ask, ad: Ad) -> list[Note]:
    """Return the answer to a question about the ad as it stands."""
    if ad.empty:
        return [Note("answer.nothing")]
    return _ANSWERS[question.topic](ad, question.tracks)


def _voices(ad: Ad, tracks: tuple[int, ...]) -> list[Note]:
    chosen = tracks or tuple(range(len(ad.tracks)))
    lines = [f"{at + 1}. {_presented(ad, ad.tracks[at])}" for at in chosen if at < len(ad.tracks)]
    return [Note("answer.voices", {"version": ad.newest.get("voices", ""), "list": "\n".join(lines)})]


def _presented(ad: Ad, track: Mapping[str, Any]) -> str:
    voice = ad.voices.get(str(track.get("voiceId")), {})
    facts = [str(voice[key]) for key in ("gender", "accent") if voice.get(key)]
    speed = float(track.get("speed") or 1.0)
    facts += [f"{speed:g}×"] if speed != 1.0 else []
    name = ad.name(str(track.get("voiceId")))
    return f"{name} ({', '.join(facts)})" if facts else name


def _music(ad: Ad, _tracks: tuple[int, ...]) -> list[Note]:
    if not ad.music:
        return [Note("answer.no_music")]
    return [
        Note(
            "answer.music",
            {
                "version": ad.newest.get("music", ""),
                "prompt": str(ad.music.get("musicPrompt", "")),
                "provider": str(ad.music.get("musicProvider", "")),
            },
        )
    ]


def _effects(ad: Ad, _tracks: tuple[int, ...]) -> list[Note]:
    if not ad.effects:
        return [Note("answer.no_effects")]
    lines = [
        f"{at}. {one.get('description')} – {{{where_code(one)}}}, {float(one.get('duration') or 0):g} s"
        for at, one in enumerate(ad.effects, 1)
    ]
    return [Note("answer.effects", {"version": ad.newest.get("sfx", ""), "list": "\n".join(lines)})]


def where_code(effect: Mapping[str, Any]) -> str:
    """Return where an effect plays as a reply's code: "start", "afterVoice:2"."""
    where = effect.get("placement") or {"type": "end"}
    return (
        f"{where['type']}:{int(where.get('index', 0)) + 1}"
        if where.get("type") == "afterVoice"
        else str(where.get("type"))
    )


def _script(ad: Ad, tracks: tuple[int, ...]) -> list[Note]:
    chosen = tracks or tuple(range(len(ad.tracks)))
    lines = [f"{at + 1}. {ad.tracks[at].get('text')}" for at in chosen if at < len(ad.tracks)]
    return [Note("answer.script", {"version": ad.newest.get("voices", ""), "list": "\n".join(lines)})]


def _length(ad: Ad, _tracks: tuple[int, ...]) -> list[Note]:
    seconds = duration_s(ad, ad.tracks)
    key = "answer.length" if seconds <= ad.spot_s + 0.05 else "answer.too_long"
    return [Note(key, {"duration": f"{seconds:.1f}", "spot": f"{ad.spot_s:g}"})]


def _versions(ad: Ad, _tracks: tuple[int, ...]) -> list[Note]:
    lines = []
    for stream in STREAMS:
        known = list(ad.held.get(stream, {}))
        if stream in ad.newest:
            lines.append(f"• {{stream.{stream}}}: {', '.join(known or [ad.newest[stream]])}")
    return [Note("answer.versions", {"list": "\n".join(lines)})]


def _language(ad: Ad, _tracks: tuple[int, ...]) -> list[Note]:
    return [Note("answer.language", {"language": ad.language})]


def _overview(ad: Ad, tracks: tuple[int, ...]) -> list[Note]:
    return [
        *_script(ad, tracks),
        *_voices(ad, tracks),
        *_music(ad, tracks),
        *_effects(ad, tracks),
        *_length(ad, tracks),
    ]


_ANSWERS: Mapping[str, Callable[[Ad, tuple[int, ...]], list[Note]]] = {
    "voices": _voices, "music": _music, "sfx": _effects, "script": _script, "length": _length,
    "versions": _versions, "language": _language, "overview": _overview,
}  # fmt: skip
