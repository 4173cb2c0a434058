"""The grammar of briefs for an ad, and of requests about one."""

from typing import Final

from callsheet.providers.offline.grammar import SLOTS, Form

DEGREE: Final = r"(?:(?:a bit|a little|slightly|much|even) )?"
WISHES: Final = (
    "slower|faster",
    "louder|quieter|softer",
    "calmer|gentler|livelier|happier|more (?:relaxed|upbeat|urgent|energetic|cheerful|playful|dramatic)",
    "warmer|brighter|darker|simpler|more (?:modern|acoustic|electronic)",
)
"""Wishes for the music; a wish replaces an earlier one of its row."""
SLOWER: Final = "slower|calmer|more relaxed"
FASTER: Final = "faster|livelier|more (?:upbeat|urgent|energetic)"
GENDERS: Final = {"male": "male", "man": "male", "female": "female", "woman": "female"}
ACCENTS: Final = "American|British|Australian|Irish|Indian|Canadian|South African|Mexican|Brazilian"
STYLES: Final = ("energetic", "cheerful", "friendly", "warm", "calm", "serious", "confident")
_SOUNDS: Final = (
    "whoosh|swoosh|ding|chime|bell|gong|pop|applause|laughter|footsteps|rain|thunder|wind|waves|birdsong|"
    "heartbeat|countdown|drum roll|whistle|siren|car horn|engine|click|splash|cash register|door slam"
)
_NTH: Final = rf"(?:the )?(?:{SLOTS['ordinal']}) (?:voice|track|line)|(?:voice|track|line) \d{{1,2}}"
_TRAIT: Final = rf"(?:{'|'.join(GENDERS)}|{ACCENTS}|{DEGREE}(?:more )?(?:{'|'.join(STYLES)}))"
_NO_REQUEST: Final = r"(?!and |then |but |or |not |at |after )[\w'-]+"
_SLOTS: Final = {
    "brief": r"(?-i:[A-Z0-9À-ÞČĎŁŚŠŘŻŽ])[\s\S]*",
    "seconds": r"(?:\d{1,3}|ten|fifteen|twenty|thirty|sixty)[ -]?(?:s|secs?|seconds?)",
    "track": _NTH,
    "tracks": rf"{_NTH}|(?:the |both |all )voices",
    "kind": rf"(?:(?:another|a different|an?) )?{_TRAIT}(?: {_TRAIT})?|another|a different",
    "pace": rf"{DEGREE}(?:slower|faster)",
    "wish": rf"{DEGREE}(?:{'|'.join(WISHES)})",
    "sound": rf"(?:(?:short|soft|loud|distant) )?(?:{_SOUNDS})"
    rf"|sound of {_NO_REQUEST}(?: {_NO_REQUEST}){{0,4}}",
    "place": "at the (?:very )?(?:start|beginning|end)",
    "agreed": "yes|ok|okay|sure|go ahead|do it",
}
_BRIEFS: Final = (
    (
        "brief.for",
        "[please ][(make|create|write|I need|we need) ][(a|an) ]({seconds}[ [audio |radio ](ad|spot|commercial)]"
        "|[audio |radio ](ad|spot|commercial)) for {brief}",
        "30 seconds for Miel, a bakery in Lyon",
    ),
    ("brief.client", "{brief}", "Harbour Bikes rents e-bikes by the hour in Porto."),
)
_REQUESTS: Final = (
    ("music.wish", "make the music {wish}", "make the music more upbeat"),
    ("music.prompt", "change the music to {quote}", 'change the music to "slow bossa nova, 70 BPM"'),
    ("effect.add", "add [(a|an|the|some) ]{sound}[ (sound|effect)][ {place}]", "add a whoosh at the start"),
    ("effect.remove", "remove the [sound ]effects", "remove the effects"),
    (
        "voice.change",
        "(use {kind} voice for {track}|(change|make) {who:track} [to [be ]]{trait:kind}[ voice])",
        "use a British voice for the second track",
    ),
    ("voice.pace", "make {tracks} {pace}", "make the first voice a bit slower"),
    ("script.shorter", "make (it|the script|the ad) shorter", "make the script shorter"),
    ("script.replace", "(replace|change) {old:quote} (with|to) {new:quote}", 'replace "June" with "July"'),
    (
        "variations",
        "create {number} variations[ of this ad][ with different voice tones]",
        "create 3 variations",
    ),
    ("urgent", "make the ad [feel ]more urgent", "make the ad feel more urgent"),
    ("undo", "undo[ (that|it|the last change)]", "undo that"),
    ("reply", "({agreed}|no|no thanks)", "yes"),
)
BRIEFS: Final = tuple(Form(*row, _SLOTS) for row in _BRIEFS)
"""Messages that begin an ad; more sentences about the client may follow."""
FORMS: Final = tuple(Form(*row, _SLOTS) for row in _REQUESTS)
"""Requests about an ad."""
