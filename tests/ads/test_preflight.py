"""Preflight: every rule of every profile, with a file that meets it and one that does not."""

from dataclasses import replace

import pytest

from callsheet.state.ads.preflight import Measured, preflight, preflight_line
from callsheet.state.ads.profiles import PROFILES

GOOD = Measured(
    seconds=29.0,
    size=700_000,
    format="mp3",
    sample_rate=44_100,
    loudness_lufs=-16.2,
    peak_dbtp=-2.4,
    silence_s=(0.5, 0.5),
    words=60,
    script_s=28.0,
    spot_s=30.0,
)
BAD = {
    "integrated loudness": replace(GOOD, loudness_lufs=-19.0),
    "true peak": replace(GOOD, peak_dbtp=-0.5),
    "silence at both ends": replace(GOOD, silence_s=(0.5, 0.1)),
    "sample rate": replace(GOOD, sample_rate=48_000),
    "length": replace(GOOD, seconds=31.0),
    "format": replace(GOOD, format="flac"),
    "size": replace(GOOD, size=1_000_001),
    "words": replace(GOOD, words=66),
}


@pytest.mark.parametrize("rule", BAD)
def test_a_rule_of_spotify_is_met_by_one_file_and_not_by_another(rule: str) -> None:
    profile = PROFILES["spotify"]
    met = {check["rule"]: check for check in preflight(profile, GOOD)}
    assert {check["verdict"] for check in met.values()} == {"pass"}
    assert met[rule]["remedy"] == ""
    checks = {check["rule"]: check for check in preflight(profile, BAD[rule])}
    assert {name for name, check in checks.items() if check["verdict"] == "fail"} == {rule}
    assert checks[rule]["remedy"]


def test_a_line_names_the_rules_that_a_rendering_breaks() -> None:
    details = {
        "profile": "spotify",
        "seconds": 31.0,
        "format": "mp3",
        "sampleRate": 44_100,
        "loudnessLufs": -16.2,
        "truePeakDbtp": -2.4,
        "silenceSeconds": [0.5, 0.5],
        "words": 60,
        "timeline": {"durationSeconds": 28.0, "spotSeconds": 30.0},
        "notices": [],
    }
    rule = "length 31.0 s, at most 30 s, silence included"
    broken = f"Rendered for spotify, breaks its rules: {rule}."
    assert preflight_line(details, 700_000) == broken
    assert preflight_line({**details, "seconds": 29.0}, 700_000) == "Rendered for spotify, meets its rules."


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_every_profile_wants_its_own_loudness(profile) -> None:
    good = replace(GOOD, loudness_lufs=profile.loudness_lufs, peak_dbtp=profile.peak_dbtp)
    assert {check["verdict"] for check in preflight(profile, good)} == {"pass"}
    quiet = replace(good, loudness_lufs=profile.loudness_lufs - profile.tolerance_lu - 0.1)
    assert "fail" in {check["verdict"] for check in preflight(profile, quiet)}
    assert profile.source


def test_silence_and_stand_ins_are_named() -> None:
    silent = preflight(PROFILES["plain"], replace(GOOD, loudness_lufs=None, peak_dbtp=None))
    assert [check["measured"] for check in silent[:2]] == ["silence", "silence"]
    [*_, last] = preflight(PROFILES["plain"], replace(GOOD, stand_ins=("Ava is not available here",)))
    assert (last["verdict"], last["measured"]) == ("warn", "Ava is not available here")


def test_a_longer_spot_may_have_more_words() -> None:
    checks = preflight(PROFILES["spotify"], replace(GOOD, words=100, script_s=60.0))
    assert {check["rule"]: check["verdict"] for check in checks}["words"] == "pass"


@pytest.mark.parametrize("profile", PROFILES)
def test_a_file_longer_than_its_spot_fails_at_every_place_of_delivery(profile: str) -> None:
    checks = {one["rule"]: one for one in preflight(PROFILES[profile], replace(GOOD, spot_s=20.0))}
    assert checks["length"]["verdict"] == "fail"
    assert checks["length"]["limit"] == "at most 20 s, silence included"
