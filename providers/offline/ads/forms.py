"""The grammar of requests about an ad."""

from typing import Final

from callsheet.providers.offline.grammar import SLOTS, Form

DEGREE: Final = r"(?:(?:a bit|a little|slightly|much|even) )?"
WISHES: Final = (
    "slower|faster",
    "louder|quieter|softer",
    "calmer|gentler|livelier|happier|more (?:relaxed|upbeat|urgent|energetic|cheerful|playful|dramatic)",
    "warmer|brighter|darker|simpler|more (?:modern|acoustic|electronic)",
)
"""Wishes for the music; of one row, the newest replaces the one before."""
SLOWER: Final = "slower|calmer|more relaxed"
FASTER: Final = "faster|livelier|more (?:upbeat|urgent|energetic)"
GENDERS: Final = {"male": "male", "man": "male", "female": "female", "woman": "female"}
ACCENTS: Final = "American|British|Australian|Irish|Indian|Canadian|South African|Mexican|Brazilian"
STYLES: Final = ("energetic", "cheerful", "friendly", "warm", "calm", "serious", "confident")
STREAMS: Final = {"voices": "voices", "script": "voices", "music": "music", "effects": "sfx", "sfx": "sfx"}
_SOUNDS: Final = (
    "whoosh|swoosh|ding|chime|bell|bicycle bell|door bell|sleigh bells|gong|pop|applause|laughter|cheering|"
    "footsteps|rain|thunder|wind|waves|birdsong|seagulls|sizzle|heartbeat|ticking clock|countdown|drum roll|"
    "cymbal crash|whistle|siren|car horn|engine|click|beep|splash|cash register|camera shutter|door slam"
)
"""Sounds to add by their bare name; others as "the sound of …"."""
_NTH: Final = rf"(?:the )?(?:{SLOTS['ordinal']}) (?:voice|track|line)|(?:voice|track|line) \d{{1,2}}"
_PERSON: Final = rf"(?:{'|'.join(GENDERS)}|{ACCENTS}|{DEGREE}(?:more )?(?:{'|'.join(STYLES)}))"
_UNJOINED: Final = r"(?!and |then |but |or |not |at |after )[\w'-]+"
_SLOTS: Final = {
    "track": _NTH,
    "tracks": rf"{_NTH}|(?:the |both |all )voices",
    "kind": rf"(?:(?:another|a different|an?) )?{_PERSON}(?: {_PERSON})?|another|a different",
    "pace": rf"{DEGREE}(?:slower|faster)",
    "wish": rf"{DEGREE}(?:{'|'.join(WISHES)})",
    "sound": rf"(?:(?:short|soft|loud|distant) )?(?:{_SOUNDS})|sound of {_UNJOINED}(?: {_UNJOINED}){{0,4}}",
    "place": rf"at the (?:very )?(?:start|beginning|end)|after (?:{_NTH})",
    "stream": "|".join(STREAMS),
    "agreed": "yes|ok|okay|sure|go ahead|do it",
}
_ROWS: Final = (
    ("music.wish", "make the music {wish}[ and {more:wish}]", "make the music more upbeat"),
    ("music.prompt", "change the music to {quote}", 'change the music to "slow bossa nova, 70 BPM"'),
    ("effect.add", "add [(a|an|the|some) ]{sound}[ (sound|effect)][ {place}]", "add a whoosh at the start"),
    ("effect.remove", "remove the ([sound ]effects|{ordinal} [sound ]effect|{sound})", "remove the effects"),
    ("voice.use", "use {kind} voice for {track}", "use a British voice for the second track"),
    ("voice.change", "(change|make) {track} [to [be ]]{kind}[ voice]", "make the first voice more energetic"),
    ("voice.pace", "make {tracks} {pace}", "make the first voice a bit slower"),
    ("script.shorter", "make (it|the script|the ad) shorter", "make the script shorter"),
    ("script.replace", "(replace|change) {old:quote} (with|to) {new:quote}", 'replace "June" with "July"'),
    ("script.remove", "remove {old:quote}", 'remove "Come and see."'),
    ("script.line", "(change {track} to|make {who:track} say) {quote}", 'change the first line to "Go."'),
    ("script.add", "add {added:quote} to {track}", 'add "No deposit." to the second voice'),
    (
        "variations",
        "create {number} variations[ of this ad with different voice tones]",
        "create 3 variations",
    ),
    ("urgent", "make the ad [feel ]more urgent", "make the ad feel more urgent"),
    ("undo", "undo[ (that|it|the last change)]", "undo that"),
    ("restore", "(go back to|restore) {version} of the {stream}", "go back to v1 of the music"),
    ("show", "(show me the ad|which versions are there)", "show me the ad"),
    ("reply", "({agreed}|no|no thanks)", "yes"),
)
FORMS: Final = tuple(Form(name, pattern, example, _SLOTS) for name, pattern, example in _ROWS)
"""The requests it understands."""
