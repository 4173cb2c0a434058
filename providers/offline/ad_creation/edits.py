"""What a sentence about an ad can ask for: a small vocabulary of edits, and what came of them.

Tracks and effects are counted from 0 here; people count from 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from providers.offline.ad_creation.history import Ad, Step
from state.ad import Placement, Stream


@dataclass(frozen=True)
class Note:
    """A sentence of the reply: its name in `replies/<language>.toml` and the words for its slots."""

    key: str
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """An ad after an edit, and what to say about it."""

    ad: Ad
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class Trait:
    """One thing music can be or have."""

    concept: str
    """"quality.upbeat", "genre.jazz", "instrument.piano"; empty for words the vocabulary does not know."""
    words: str
    """English, for a generator."""


@dataclass(frozen=True)
class ShapeMusic:
    """Give the music traits, or take some from it; the rest of its description stays."""

    add: tuple[Trait, ...] = ()
    drop: tuple[str, ...] = ()
    """Concepts it must not have."""
    bpm: int | None = None
    blend: bool = False
    """A new genre joins the old one instead of taking its place."""


@dataclass(frozen=True)
class ReplaceMusic:
    """Describe the music anew: in these words, or differently from before when there are none."""

    words: str = ""


@dataclass(frozen=True)
class MusicSource:
    """Another provider, or another length in seconds."""

    provider: str | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class SilenceMusic:
    """No music."""


@dataclass(frozen=True)
class AddEffect:
    """One more effect."""

    description: str
    placement: Placement | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class RemoveEffects:
    """Take effects away."""

    places: tuple[int, ...]


@dataclass(frozen=True)
class ChangeEffects:
    """Give effects another sound, place or length."""

    places: tuple[int, ...]
    description: str | None = None
    placement: Placement | None = None
    seconds: float | None = None
    factor: float | None = None
    """Times the length it has."""


@dataclass(frozen=True)
class Wish:
    """What a voice should be; an empty field is no wish."""

    gender: str = ""
    accent: str = ""
    styles: tuple[str, ...] = ()
    """Qualities ("calm"); a voice's published style may be called otherwise."""
    name: str = ""

    @property
    def empty(self) -> bool:
        """Whether anyone else will do."""
        return not (self.gender or self.accent or self.styles or self.name)


@dataclass(frozen=True)
class Recast:
    """Other voices for tracks."""

    tracks: tuple[int, ...]
    wish: Wish = Wish()
    shared: bool = False
    """One voice for all of them, rather than one each for those that differ now."""


@dataclass(frozen=True)
class CopyVoice:
    """The voice of one track for others."""

    source: int
    tracks: tuple[int, ...]


@dataclass(frozen=True)
class SwapVoices:
    """Two tracks exchange their voices."""

    first: int
    second: int
    everywhere: bool = False
    """Wherever these two voices speak, not on these tracks alone."""


@dataclass(frozen=True)
class Speakers:
    """So many people speak; who speaks already stays as far as possible."""

    count: int


@dataclass(frozen=True)
class RestoreCast:
    """The voices of an earlier version, with the words of now."""

    version: int


@dataclass(frozen=True)
class Together:
    """Two tracks start at the same time."""

    first: int
    second: int


@dataclass(frozen=True)
class Pace:
    """Speak faster or slower: by a factor, or at a speed."""

    tracks: tuple[int, ...]
    factor: float = 1.0
    speed: float | None = None


@dataclass(frozen=True)
class Spacing:
    """The pause before tracks: set in seconds (negative overlaps), or changed by some."""

    tracks: tuple[int, ...]
    seconds: float | None = None
    change: float = 0.0
    may_overlap: bool = False
    """A change may make a track start before the one before it ends."""


@dataclass(frozen=True)
class Reorder:
    """Tracks in another order."""

    order: tuple[int, ...]


@dataclass(frozen=True)
class Resize:
    """A shorter or longer text: to fit seconds, or by about a fifth."""

    seconds: float | None = None
    longer: bool = False
    tracks: tuple[int, ...] = ()
    """All when empty."""


@dataclass(frozen=True)
class ReplaceWords:
    """Words of the script by others."""

    old: str
    new: str


@dataclass(frozen=True)
class Rename:
    """The client's name by another."""

    name: str


@dataclass(frozen=True)
class AddLine:
    """A sentence more, in a person's words."""

    text: str
    where: Literal["start", "end", "body"] = "body"
    track: int | None = None


@dataclass(frozen=True)
class RemoveLine:
    """Sentences that speak of something."""

    words: str
    topic: str = ""
    """A topic the rules know ("price"), or empty."""


@dataclass(frozen=True)
class RemoveTracks:
    """Whole tracks."""

    tracks: tuple[int, ...]


@dataclass(frozen=True)
class Rewrite:
    """A track's text: a person's words, or written anew when there are none."""

    tracks: tuple[int, ...]
    text: str = ""


@dataclass(frozen=True)
class OpenWithQuestion:
    """A question as the first sentence."""


@dataclass(frozen=True)
class AddTrack:
    """One more track."""

    text: str = ""
    wish: Wish = Wish()
    at_start: bool = False


@dataclass(frozen=True)
class Retone:
    """Another tone: of the script alone, or of script, music and effects together (A79)."""

    tone: str
    quality: str = ""
    """The quality that was asked for, where the tone is only near it."""
    whole: bool = False
    countdown: bool = False


@dataclass(frozen=True)
class Translate:
    """The whole ad in another language."""

    language: str


@dataclass(frozen=True)
class Restore:
    """An earlier version's content as a new version; `version` is a number, from the end when negative."""

    stream: Stream | None
    version: int


@dataclass(frozen=True)
class Walk:
    """Undo or redo."""

    step: Step


@dataclass(frozen=True)
class Variations:
    """Several versions of one stream to choose from (A77)."""

    count: int
    stream: Stream = "voices"
    texts: bool = False
    """Other scripts rather than other voices."""
    genders: tuple[str, ...] = ()
    """The gender of the voices of each, where that is the difference."""


@dataclass(frozen=True)
class Again:
    """The last change once more ("a bit more"), or part of it taken back ("that is too much")."""

    less: bool = False


@dataclass(frozen=True)
class Keep:
    """What must not change in this turn."""

    streams: tuple[str, ...]
    """Streams, or "texts" for the words but not who speaks them; empty: everything that was not asked for."""
    tracks: tuple[int, ...] = ()
    """These tracks only, where the voices are kept."""
    last_sentence: bool = False
    """The last sentence of the script only."""
    always: bool = False
    """In every later turn too, unless it is named in one."""


@dataclass(frozen=True)
class Ask:
    """A question."""

    topic: str
    tracks: tuple[int, ...] = ()
    """The tracks it is about; all when empty."""


@dataclass(frozen=True)
class Chat:
    """Thanks, a greeting, praise, a refusal."""

    kind: str


@dataclass(frozen=True)
class Beyond:
    """Something no tool here can do."""

    limit: str
    words: str = ""


@dataclass(frozen=True)
class Unclear:
    """Words that mean nothing to the rules, or name what is not there."""

    words: str
    key: str = "unclear.words"
    acting: bool = False
    """They ask for some change, perhaps of what was made outside the chat."""


Edit = (
    ShapeMusic | ReplaceMusic | MusicSource | SilenceMusic
    | AddEffect | RemoveEffects | ChangeEffects
    | Recast | CopyVoice | SwapVoices | Speakers | RestoreCast | Together | Pace | Spacing | Reorder
    | Resize | ReplaceWords | Rename | AddLine | RemoveLine | RemoveTracks | Rewrite | OpenWithQuestion
    | AddTrack | Retone | Translate
    | Restore | Walk | Variations | Again
    | Keep | Ask | Chat | Beyond | Unclear
)  # fmt: skip
"""Everything a sentence can ask for."""
STREAM: Mapping[type, Stream] = {
    ShapeMusic: "music", ReplaceMusic: "music", MusicSource: "music", SilenceMusic: "music",
    AddEffect: "sfx", RemoveEffects: "sfx", ChangeEffects: "sfx",
    Recast: "voices", CopyVoice: "voices", SwapVoices: "voices", Speakers: "voices", RestoreCast: "voices",
    Together: "voices", Pace: "voices", Spacing: "voices",
    Reorder: "voices", Resize: "voices", ReplaceWords: "voices", Rename: "voices", AddLine: "voices",
    RemoveLine: "voices", RemoveTracks: "voices", Rewrite: "voices", OpenWithQuestion: "voices",
    AddTrack: "voices", Translate: "voices",
}  # fmt: skip
"""The stream an edit writes, where it is always the same."""
