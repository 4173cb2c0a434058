"""Sketches of sound effects: about twenty archetypes, computed. Only the sandbox imports it.

A sketch stands in for a recording: it says that something is to be heard there, and for how long.
"""

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from callsheet.tools.audio.signals import RATE, Samples

_Random = np.random.Generator
_Wave = NDArray[np.float64]
_PEAK: Final = 0.5
_RING_S: Final = 1.5
_SHUTTER_S: Final = 0.24
PLACEHOLDER: Final = "placeholder chime"
"""Sketch of an effect that no archetype fits."""


def sketch(description: str, seconds: float) -> tuple[str, Samples]:
    """Return the name of the archetype and its sound, mono; the same description has the same sound."""
    words = description.casefold()
    name = next((name for name, (marks, _) in ARCHETYPES.items() if _occurs(marks, words)), PLACEHOLDER)
    draw = ARCHETYPES[name][1] if name in ARCHETYPES else _chime
    random = np.random.default_rng(zlib.crc32(words.encode()))
    count = max(1, int(seconds * RATE))
    wave = draw(random, count)[:count]
    peak = np.abs(wave).max(initial=0.0)
    faded = wave * _edges(len(wave)) * (_PEAK / peak if peak else 0.0)
    return name, faded.astype(np.float32)


def _occurs(marks: Sequence[str], words: str) -> bool:
    """Return True if one of the words occurs, also in the plural or with an ending of a verb."""
    return any(re.search(rf"\b{re.escape(mark)}(?:s|es|e|ed|ing|y)?\b", words) for mark in marks)


def _edges(count: int) -> _Wave:
    """Return a gain that opens and closes within 5 ms, so that nothing clicks."""
    ramp = min(count // 2, RATE // 200)
    gain = np.ones(count)
    if ramp:
        gain[:ramp] = np.linspace(0, 1, ramp)
        gain[-ramp:] = np.linspace(1, 0, ramp)
    return gain


def _time(count: int) -> _Wave:
    return np.arange(count) / RATE


def _noise(random: _Random, count: int, low_hz: float, high_hz: float) -> _Wave:
    """Return noise between two frequencies."""
    spectrum = np.fft.rfft(random.standard_normal(count))
    hertz = np.fft.rfftfreq(count, 1 / RATE)
    spectrum[(hertz < low_hz) | (hertz > high_hz)] = 0
    result: _Wave = np.fft.irfft(spectrum, count)
    return result


def _decay(count: int, seconds: float) -> _Wave:
    result: _Wave = np.exp(-_time(count) / seconds)
    return result


def _strike(count: int, partials: Sequence[float], ring_s: float) -> _Wave:
    """Return struck metal or glass: partials in hertz that die away, higher ones faster."""
    time = _time(count)
    result = np.zeros(count)
    for i, hertz in enumerate(partials, 1):
        result += np.sin(2 * np.pi * hertz * time) * np.exp(-time * i / ring_s) / i
    return result


def _repeat(part: _Wave, count: int, every_s: float, gains: Sequence[float] = (1.0,)) -> _Wave:
    """Return a part again and again, with gains in turn."""
    result = np.zeros(count)
    for i, start in enumerate(range(0, count, int(every_s * RATE))):
        piece = part[: count - start]
        result[start : start + len(piece)] += piece * gains[i % len(gains)]
    return result


def _thump(count: int, hertz: float, ring_s: float) -> _Wave:
    return np.sin(2 * np.pi * hertz * _time(count)) * _decay(count, ring_s)


def _click(random: _Random, ring_s: float = 0.004) -> _Wave:
    count = RATE // 20
    return _noise(random, count, 1500, 9000) * _decay(count, ring_s)


def _whoosh(random: _Random, count: int) -> _Wave:
    swell: _Wave = np.sin(np.pi * np.linspace(0, 1, count)) ** 3
    return _noise(random, count, 300, 5000) * swell


def _riser(random: _Random, count: int) -> _Wave:
    rise = np.linspace(0, 1, count)
    tone = np.sin(2 * np.pi * np.cumsum(120 * 8**rise) / RATE)
    return (0.5 * tone + _noise(random, count, 2000, 9000)) * rise**2


def _bell(_random: _Random, count: int) -> _Wave:
    return _repeat(_strike(count, (1180, 2410, 3620, 5100), 0.5), count, 0.55)


def _chime(_random: _Random, count: int) -> _Wave:
    notes = [_strike(count, (hertz, hertz * 2.76, hertz * 5.4), 0.6) for hertz in (1047, 1319, 1568)]
    return sum(
        (np.roll(note, i * RATE // 8) * (_time(count) >= i / 8) for i, note in enumerate(notes)),
        np.zeros(count),
    )


def _phone(_random: _Random, count: int) -> _Wave:
    time = _time(count)
    return (np.sin(2 * np.pi * 440 * time) + np.sin(2 * np.pi * 480 * time)) * (
        (time % _RING_S) < _RING_S / 2
    )


def _till(random: _Random, count: int) -> _Wave:
    result = _strike(count, (2093, 4200, 6300), 0.35)
    part = _click(random, 0.02)
    result[: len(part)][:count] += part[:count] * 2
    return result


def _door(random: _Random, count: int) -> _Wave:
    return _thump(count, 70, 0.12) * 2 + _noise(random, count, 100, 1500) * _decay(count, 0.05)


def _steps(random: _Random, count: int) -> _Wave:
    part = _thump(RATE // 4, 90, 0.03) + _noise(random, RATE // 4, 200, 2500) * _decay(RATE // 4, 0.03)
    return _repeat(part, count, 0.55, (1.0, 0.8))


def _clapping(random: _Random, count: int) -> _Wave:
    result = np.zeros(count)
    for start in random.integers(0, count, max(1, count * 60 // RATE)):
        part = _click(random, 0.008)[: count - start]
        result[start : start + len(part)] += part * random.uniform(0.3, 1)
    return result


def _crowd(random: _Random, count: int) -> _Wave:
    speech = _noise(random, count, 200, 1800)
    return speech * (0.6 + 0.4 * np.abs(_noise(random, count, 1, 6)) * 20)


def _rain(random: _Random, count: int) -> _Wave:
    return _noise(random, count, 1200, 11000) * 0.5 + _clapping(random, count) * 0.2


def _sea(random: _Random, count: int) -> _Wave:
    return _noise(random, count, 80, 3500) * (0.25 + 0.75 * np.sin(np.pi * _time(count) / 5) ** 2)


def _wind(random: _Random, count: int) -> _Wave:
    return _noise(random, count, 150, 900) * (0.6 + 0.4 * np.sin(2 * np.pi * _time(count) / 3.1))


def _thunder(random: _Random, count: int) -> _Wave:
    return _noise(random, count, 20, 180) * _decay(count, 1.2)


def _engine(random: _Random, count: int) -> _Wave:
    hum = (_time(count) * 55 % 1) - 0.5
    return hum * (0.8 + 0.2 * np.sin(2 * np.pi * 27 * _time(count))) + _noise(random, count, 60, 600)


def _horn(_random: _Random, count: int) -> _Wave:
    time = _time(count)
    return np.sign(np.sin(2 * np.pi * 349 * time)) + np.sign(np.sin(2 * np.pi * 440 * time))


def _heartbeat(_random: _Random, count: int) -> _Wave:
    part = _thump(RATE, 55, 0.07)
    part[RATE // 4 :] += _thump(RATE, 48, 0.06)[: RATE - RATE // 4] * 0.7
    return _repeat(part, count, 0.95)


def _countdown(_random: _Random, count: int) -> _Wave:
    beep = np.sin(2 * np.pi * 880 * _time(RATE // 6))
    return _repeat(beep, count, 1.0)


def _ticking(random: _Random, count: int) -> _Wave:
    return _repeat(_click(random), count, 0.5, (1.0, 0.6))


def _birds(random: _Random, count: int) -> _Wave:
    time = _time(RATE // 5)
    chirp = np.sin(2 * np.pi * (3200 * time + 2500 * time**2)) * np.sin(np.pi * time * 5)
    return _repeat(chirp, count, 0.37, tuple(random.uniform(0.2, 1, 5)))


def _crackle(random: _Random, count: int) -> _Wave:
    return _clapping(random, count) + _noise(random, count, 2500, 9000) * 0.15


def _water(random: _Random, count: int) -> _Wave:
    return _noise(random, count, 400, 2600) * (0.7 + 0.3 * np.sin(2 * np.pi * 9 * _time(count)))


def _glass(_random: _Random, count: int) -> _Wave:
    return _strike(count, (2637, 5210, 7900), 0.4)


def _shutter(random: _Random, count: int) -> _Wave:
    return _repeat(_click(random, 0.01), count, 0.12) * (_time(count) < _SHUTTER_S)


def _freewheel(random: _Random, count: int) -> _Wave:
    return _repeat(_click(random, 0.002), count, 0.045) * _decay(count, max(0.3, count / RATE))


def _impact(random: _Random, count: int) -> _Wave:
    return _thump(count, 52, 0.35) * 2 + _noise(random, count, 60, 5000) * _decay(count, 0.08)


def _pop(_random: _Random, count: int) -> _Wave:
    return _thump(count, 420, 0.03)


ARCHETYPES: Final[Mapping[str, tuple[Sequence[str], Callable[[_Random, int], _Wave]]]] = {
    "freewheel": (("freewheel", "bicycle wheel", "spokes"), _freewheel),
    "countdown": (("countdown", "count down", "beep"), _countdown),
    "ticking": (("tick", "clock"), _ticking),
    "phone": (("phone", "ringtone", "notification"), _phone),
    "till": (("till", "cash", "register", "coin", "ka-ching", "checkout"), _till),
    "bell": (("bell", "ding"), _bell),
    "riser": (("riser", "rising", "build-up", "tension"), _riser),
    "whoosh": (("whoosh", "swoosh", "swish", "sweep", "rush", "zoom", "transition"), _whoosh),
    "glass": (("glass", "clink", "cheers"), _glass),
    "chime": (("chime", "sparkle", "magic", "jingle", "twinkle", "logo"), _chime),
    "door": (("door", "knock", "slam"), _door),
    "footsteps": (("footstep", "steps", "walking", "running"), _steps),
    "applause": (("applause", "clap", "cheering"), _clapping),
    "crowd": (("crowd", "chatter", "people", "market", "cafe", "café", "restaurant", "street"), _crowd),
    "thunder": (("thunder", "rumble", "storm"), _thunder),
    "rain": (("rain", "shower"), _rain),
    "sea": (("sea", "wave", "ocean", "beach", "surf"), _sea),
    "wind": (("wind", "breeze"), _wind),
    "horn": (("horn", "honk"), _horn),
    "engine": (("engine", "car", "motor", "truck", "train", "traffic"), _engine),
    "heartbeat": (("heart",), _heartbeat),
    "birds": (("bird", "chirp", "nature", "garden", "forest"), _birds),
    "crackle": (("crackl", "sizzl", "frying", "fire", "crunch", "oven"), _crackle),
    "water": (("water", "pour", "splash", "drip", "stream"), _water),
    "shutter": (("shutter", "camera", "photo"), _shutter),
    "impact": (("impact", "boom", "hit", "drum", "explosion"), _impact),
    "click": (("click", "keyboard", "typing", "mouse", "switch"), _ticking),
    "pop": (("pop", "cork", "bubble"), _pop),
}
"""Words of a description, and the computation, by archetype; the first whose word occurs is taken."""
