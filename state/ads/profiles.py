"""Delivery profiles of audio: what a platform or a broadcaster asks of a finished spot, as dated data."""

from dataclasses import dataclass
from typing import Final

SILENCE_S: Final = 0.5
"""Silence at each end of a file."""


@dataclass(frozen=True)
class Profile:
    """The rules of one place of delivery; None where it has no rule."""

    name: str
    title: str
    source: str
    """Document of the rules, and when it was read."""
    loudness_lufs: float = -16.0
    """Integrated loudness, as in ITU-R BS.1770."""
    tolerance_lu: float = 1.0
    peak_dbtp: float = -2.0
    """Highest true peak."""
    silence_s: float = SILENCE_S
    """Silence before the first and after the last sound."""
    sample_rate: int = 44_100
    formats: tuple[str, ...] = ()
    """Formats that are accepted, the best first; empty for all."""
    max_s: float | None = None
    """Longest spot."""
    max_bytes: int | None = None
    """Largest file."""
    words_per_30_s: int | None = None
    """Most words of a script of 30 seconds."""


PROFILES: Final = {
    profile.name: profile
    for profile in (
        Profile(
            "spotify",
            "Spotify",
            "Spotify Advertising, specifications of audio ads, read in 2026-11",
            tolerance_lu=1.5,
            formats=("mp3", "ogg", "wav"),
            max_s=30.0,
            max_bytes=1_000_000,
            words_per_30_s=65,
        ),
        Profile(
            "ebu-r128",
            "EBU R 128",
            "EBU Recommendation R 128, version 5.0, 2023-11",
            loudness_lufs=-23.0,
            tolerance_lu=0.5,
            peak_dbtp=-1.0,
        ),
        Profile(
            "atsc-a85",
            "ATSC A/85",
            "ATSC Recommended Practice A/85:2013",
            loudness_lufs=-24.0,
            tolerance_lu=2.0,
        ),
        Profile("podcast", "Podcast", "Apple Podcasts, audio requirements, read in 2026-11", peak_dbtp=-1.0),
        Profile("plain", "Plain", "no place of delivery: what this program aims at"),
    )
}
"""Profiles by name."""
