"""Loudness, true peaks, beds and sketches, measured beside other implementations."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from callsheet.state.ads.profiles import PROFILES
from callsheet.state.errors import Unavailable
from callsheet.tools.audio.beds import choose_bed, read_bed
from callsheet.tools.audio.effects import ARCHETYPES, PLACEHOLDER, sketch
from callsheet.tools.audio.mixing import mix_ad
from callsheet.tools.audio.signals import (
    FORMATS,
    RATE,
    decode,
    encode,
    limit,
    loudness_lufs,
    master,
    resample,
    trim,
    true_peak_dbtp,
)


def noise(seconds: float, gain: float = 0.1) -> np.ndarray:
    random = np.random.default_rng(7)
    envelope = 1 + np.sin(np.linspace(0, 60, int(seconds * RATE)))
    samples: np.ndarray = random.standard_normal((len(envelope), 2)) * gain * envelope[:, None]
    return samples.astype(np.float32)


def test_loudness_is_that_of_the_standard() -> None:
    """BS.1770: a sine of 997 Hz at full scale in one channel has -3.01 LUFS."""
    # It imports SciPy, which each process would do that collects this file.
    import pyloudnorm

    sine = np.sin(2 * np.pi * 997 * np.arange(RATE * 5) / RATE)
    assert loudness_lufs(np.stack([sine, 0 * sine], 1).astype(np.float32)) == pytest.approx(-3.01, abs=0.01)
    assert loudness_lufs(np.zeros((RATE, 2), np.float32)) == -np.inf
    samples = noise(23)
    assert loudness_lufs(samples) == pytest.approx(
        pyloudnorm.Meter(RATE).integrated_loudness(samples.astype(float)), abs=0.1
    )


def test_peaks_between_samples_are_measured() -> None:
    """A sine of a quarter of the rate, whose samples are all 3 dB below its peak."""
    sine = np.sin(np.pi * np.arange(RATE) / 2 + np.pi / 4).astype(np.float32)
    assert true_peak_dbtp(sine) == pytest.approx(0, abs=0.2)
    assert true_peak_dbtp(np.zeros(10, np.float32)) == -np.inf


def test_mastered_sound_has_the_loudness_and_stays_below_the_ceiling() -> None:
    mastered = master(noise(8, 0.02), -16, -6)
    assert loudness_lufs(mastered) == pytest.approx(-16, abs=0.2)
    assert true_peak_dbtp(mastered) <= -5.9
    silence = np.zeros((RATE, 2), np.float32)
    assert not master(silence, -16, -2).any()
    assert limit(noise(1, 0.001), -2) is not None


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_is_read_again(form: str) -> None:
    samples = noise(2)
    back = decode(encode(samples, form, {"title": "t", "comment": "\u00e9"}))
    assert len(back) / RATE == pytest.approx(2, abs=0.1)


def test_bytes_that_are_no_sound_are_refused() -> None:
    with pytest.raises(Unavailable, match="cannot be read"):
        decode(b"RIFF nothing")


def test_another_rate_keeps_the_tone() -> None:
    sine = np.sin(2 * np.pi * 440 * np.arange(24_000 * 2 + 17) / 24_000).astype(np.float32)
    moved = resample(sine, 24_000)
    assert len(moved) == round(len(sine) * RATE / 24_000)
    expected = np.sin(2 * np.pi * 440 * np.arange(len(moved)) / RATE)
    assert np.abs(moved - expected)[RATE // 2 : -RATE // 2].max() < 0.02


def test_silence_at_the_ends_is_cut() -> None:
    clip = np.concatenate((np.zeros(RATE), noise(1)[:, 0], np.zeros(RATE))).astype(np.float32)
    assert len(trim(clip)) / RATE == pytest.approx(1.06, abs=0.02)
    assert not len(trim(np.zeros(100, np.float32)))


@pytest.mark.parametrize("seconds", [0.001, 0.2, 1.5])
@pytest.mark.parametrize("name", [*ARCHETYPES, PLACEHOLDER])
def test_every_sketch_has_its_length_and_is_audible(name: str, seconds: float) -> None:
    description = ARCHETYPES[name][0][0] if name in ARCHETYPES else "zzz"
    drawn, samples = sketch(description, seconds)
    assert drawn == name
    assert len(samples) == int(seconds * RATE)
    assert np.isfinite(samples).all()
    assert np.abs(samples).max() <= 0.5
    assert seconds < 0.1 or np.abs(samples).max() > 0.1
    assert (samples == sketch(description, seconds)[1]).all()


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("bicycle bell ringing twice", "bell"),
        ("a rainbow over the carpet", PLACEHOLDER),
        ("children\u2019s choir", PLACEHOLDER),
        ("shopping season", PLACEHOLDER),
        ("cars passing", "engine"),
        ("sizzling pan", "crackle"),
    ],
)
def test_a_sketch_is_chosen_by_complete_words(description: str, name: str) -> None:
    assert sketch(description, 0.1)[0] == name


@pytest.mark.parametrize(
    ("prompt", "mood"),
    [
        ("bright acoustic folk guitar, friendly, 96 BPM", "happy"),
        ("calm ambient pads", "calm"),
        ("driving synth, 140 bpm", "energetic"),
        ("bright acoustic folk guitar, friendly, 96 BPM, room for a voice-over, calmer", "calm"),
        ("bright acoustic folk guitar, friendly, 96 BPM, calmer, more upbeat", "energetic"),
        ("calm piano, less energetic", "calm"),
        ("", "happy"),
    ],
)
def test_a_bed_is_chosen_by_mood_and_tempo(prompt: str, mood: str) -> None:
    name = choose_bed(prompt)
    assert name.startswith(f"{mood}/{mood}_{'electronic' if 'synth' in prompt else 'acoustic'}")


def test_a_bed_is_repeated_until_it_is_long_enough() -> None:
    assert read_bed(choose_bed(""), 70.5).shape == (int(70.5 * RATE), 2)


def mixed_ad(speech_s: float, spot_s: float, before: str = "") -> dict[str, Any]:
    speech = encode(noise(speech_s), "wav", {})
    track = {"id": "track-0", "voiceId": "v", "text": "Words.", "playAfter": "start"}
    effect = {"description": "bell", "placement": {"type": "end"}, "duration": 2.0}
    return mix_ad(
        speech,
        lambda *_: None,
        clips={"track-0": len(speech)},
        streams={
            "voices": {"voiceTracks": [track]},
            "music": {"musicPrompt": "calm"},
            "sfx": {"soundFxPrompts": [effect]},
        },
        mixer={
            "voices": {},
            "music": {"volumeDb": -12, "duckingDb": -6, "fadeInSeconds": 0.2, "fadeOutSeconds": 0.5},
            "sfx": {"volumeDb": -6},
        },
        options={
            "language": "english",
            "spotSeconds": spot_s,
            "only": "",
            "format": "wav",
            "profile": asdict(PROFILES["spotify"]),
            "tags": {},
            "musicBefore": {"version": "v1", "prompt": before} if before else None,
        },
    )


@pytest.mark.parametrize(("before", "same"), [("slow ambient pads", True), ("upbeat rock", False)])
def test_music_with_the_bed_of_the_version_before_is_noted(before: str, *, same: bool) -> None:
    notes = " ".join(mixed_ad(0.5, 3.0, before)["notes"])
    assert ("Music v1 has the same bed: the library has no nearer one." in notes) == same


@pytest.mark.parametrize(
    ("speech_s", "seconds", "place"), [(1.5, 3.0, "cut at 2.0 s"), (2.5, 3.5, "left out"), (0.5, 3.0, "cut")]
)
def test_a_file_is_as_long_as_its_spot_unless_the_speech_is_longer(
    speech_s: float, seconds: float, place: str
) -> None:
    """Silence at both ends is part of the spot; an effect that does not fit is cut, and named."""
    mixed = mixed_ad(speech_s, 3.0)
    assert mixed["seconds"] == pytest.approx(seconds, abs=0.02)
    assert min(mixed["silenceSeconds"]) == pytest.approx(0.5, abs=0.1)
    assert place in " ".join(mixed["notes"])
