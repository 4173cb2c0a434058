"""Preflight: the measurements of a rendered ad beside the rules of a place of delivery."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from typing_extensions import TypedDict

from callsheet.state.ads.profiles import PROFILES, Profile


@dataclass(frozen=True)
class Measured:
    """Measurements of a rendered file and its script."""

    seconds: float
    size: int
    format: str
    sample_rate: int
    loudness_lufs: float | None
    """None for silence."""
    peak_dbtp: float | None
    silence_s: tuple[float, float]
    """Silence before the first and after the last sound."""
    words: int
    script_s: float
    """Length of the timeline."""
    spot_s: float
    """Requested length of the ad."""
    stand_ins: tuple[str, ...] = ()
    """Sentences on voices, music and effects that stand in for those of the ad."""

    @classmethod
    def of_rendering(cls, details: Mapping[str, Any], size: int) -> Self:
        """Return the measurements that are kept with a rendered file."""
        return cls(
            seconds=details["seconds"],
            size=size,
            format=details["format"],
            sample_rate=details["sampleRate"],
            loudness_lufs=details["loudnessLufs"],
            peak_dbtp=details["truePeakDbtp"],
            silence_s=tuple(details["silenceSeconds"]),
            words=details["words"],
            script_s=details["timeline"]["durationSeconds"],
            spot_s=details["timeline"]["spotSeconds"],
            stand_ins=tuple(details["notices"]),
        )


class RuleCheck(TypedDict):
    """One rule, with what was measured."""

    rule: str
    measured: str
    limit: str
    verdict: Literal["pass", "warn", "fail"]
    remedy: str
    """Empty for a rule that is met."""


def preflight_line(details: Mapping[str, Any], size: int) -> str:
    """Return in one line which rules of its place of delivery a rendered ad breaks."""
    profile = PROFILES[details["profile"]]
    checks = preflight(profile, Measured.of_rendering(details, size))
    broken = [
        f"{one['rule']} {one['measured']}, {one['limit']}" for one in checks if one["verdict"] == "fail"
    ]
    verdict = f"breaks its rules: {'; '.join(broken)}" if broken else "meets its rules"
    return f"Rendered for {profile.name}, {verdict}."


def preflight(profile: Profile, measured: Measured) -> list[RuleCheck]:
    """Return a check for each rule that the profile has."""
    return [*_sound_checks(profile, measured), *_file_checks(profile, measured), _stand_ins(measured)]


def _check(rule: str, measured: str, limit: str, *, is_met: bool, remedy: str) -> RuleCheck:
    return RuleCheck(
        rule=rule,
        measured=measured,
        limit=limit,
        verdict="pass" if is_met else "fail",
        remedy="" if is_met else remedy,
    )


def _sound_checks(profile: Profile, measured: Measured) -> Iterator[RuleCheck]:
    loudness, peak = measured.loudness_lufs, measured.peak_dbtp
    yield _check(
        "integrated loudness",
        "silence" if loudness is None else f"{loudness:.1f} LUFS",
        f"{profile.loudness_lufs:g} ± {profile.tolerance_lu:g} LUFS",
        is_met=loudness is not None and abs(loudness - profile.loudness_lufs) <= profile.tolerance_lu,
        remedy=f"render it with the profile {profile.name!r}",
    )
    yield _check(
        "true peak",
        "silence" if peak is None else f"{peak:.1f} dBTP",
        f"at most {profile.peak_dbtp:g} dBTP",
        is_met=peak is not None and peak <= profile.peak_dbtp,
        remedy=f"render it with the profile {profile.name!r}",
    )
    start_s, end_s = measured.silence_s
    yield _check(
        "silence at both ends",
        f"{start_s:.2f} s and {end_s:.2f} s",
        f"at least {profile.silence_s:g} s",
        # A tenth is what an encoder and a soft beginning may take.
        is_met=min(start_s, end_s) >= profile.silence_s - 0.1,
        remedy=f"render it with the profile {profile.name!r}",
    )
    yield _check(
        "sample rate",
        f"{measured.sample_rate} Hz",
        f"{profile.sample_rate} Hz",
        is_met=measured.sample_rate == profile.sample_rate,
        remedy="render it again",
    )


def _file_checks(profile: Profile, measured: Measured) -> Iterator[RuleCheck]:
    longest_s = min(measured.spot_s, profile.max_s or measured.spot_s)
    yield _check(
        "length",
        f"{measured.seconds:.1f} s",
        f"at most {longest_s:g} s, silence included",
        is_met=measured.seconds <= longest_s,
        remedy="shorten the script, or the spot" if measured.spot_s > longest_s else "shorten the script",
    )
    if profile.formats:
        yield _check(
            "format",
            measured.format,
            " or ".join(profile.formats),
            is_met=measured.format in profile.formats,
            remedy=f"render it as {profile.formats[0]}",
        )
    if profile.max_bytes is not None:
        yield _check(
            "size",
            f"{measured.size} bytes",
            f"at most {profile.max_bytes} bytes",
            is_met=measured.size <= profile.max_bytes,
            remedy="render it as mp3, or shorten it",
        )
    if profile.words_per_30_s is not None:
        allowed = profile.words_per_30_s
        pace = measured.words * 30 / max(30.0, measured.script_s)
        yield _check(
            "words",
            f"{measured.words} words",
            f"at most {allowed} in 30 s",
            is_met=pace <= allowed,
            remedy="shorten the script",
        )


def _stand_ins(measured: Measured) -> RuleCheck:
    count = len(measured.stand_ins)
    return RuleCheck(
        rule="voices, music and effects of the ad",
        measured="; ".join(measured.stand_ins) or "as described",
        limit="no stand-ins",
        verdict="warn" if count else "pass",
        remedy="produce it with the described voices, music and effects" if count else "",
    )
