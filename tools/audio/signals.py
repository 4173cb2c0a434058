"""Arithmetic of sound: files, rates, loudness, true peaks, limits. Only the sandbox imports it."""

import math
from collections.abc import Mapping
from functools import cache
from io import BytesIO
from typing import Any, Final

import numpy as np
import soundfile
from numpy.typing import NDArray

from callsheet.state.errors import UnreadableSound

Samples = NDArray[np.float32]
"""Mono as one row of numbers, stereo as two columns."""
RATE: Final = 44_100
"""Samples a second of everything that is mixed."""
FORMATS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "mp3": (
        "audio/mpeg",
        # The library counts down from 320 to 32 kbit/s: this is 192.
        {
            "format": "MP3",
            "subtype": "MPEG_LAYER_III",
            "bitrate_mode": "CONSTANT",
            "compression_level": 4 / 9,
        },
    ),
    "ogg": ("audio/ogg", {"format": "OGG", "subtype": "VORBIS", "compression_level": 0.4}),
    "wav": ("audio/wav", {"format": "WAV", "subtype": "PCM_16"}),
}
"""Media type and options of the library, by format."""
_QUIET: Final = 10 ** (-45 / 20)
"""Share of the highest sample below which a clip's ends count as silence."""
_MARGIN_S: Final = 0.03
_BLOCK_S: Final = 0.4
_STEP_S: Final = 0.1
_SILENT_LUFS: Final = -70.0
_RELATIVE_LU: Final = -10.0
_PART: Final = 10 * RATE
"""Samples that are filtered at once."""
_OVERSAMPLING: Final = 4
_TAPS: Final = 24
_LOOKAHEAD: Final = 221
"""Samples, 5 ms, over which the limiter falls and rises; odd."""
_ATTEMPTS: Final = 6
_LOUD_ENOUGH_LU: Final = 0.1


def decode(sound: bytes) -> Samples:
    """Return a sound file as mono at our rate; raises `UnreadableSound` for bytes that are none."""
    try:
        samples, rate = soundfile.read(BytesIO(sound), dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, RuntimeError, ValueError) as error:
        raise UnreadableSound(
            "the speech server sent a sound file that cannot be read",
            remedy="try again, and check SPEECH_BASE_URL if it is set",
        ) from error
    return resample(samples.mean(axis=1, dtype=np.float32), rate)


def resample(samples: Samples, rate: int) -> Samples:
    """Return the samples, mono or stereo, at our rate; by the spectrum, so nothing is folded."""
    if rate == RATE or not len(samples):
        return samples
    unit = rate // math.gcd(rate, RATE)
    padded_length = -(-len(samples) // unit) * unit
    count = padded_length * RATE // rate
    spectrum = np.fft.rfft(samples, padded_length, axis=0)
    moved = np.zeros((count // 2 + 1, *samples.shape[1:]), spectrum.dtype)
    kept = min(len(spectrum), len(moved))
    moved[:kept] = spectrum[:kept]
    result = np.fft.irfft(moved, count, axis=0) * (count / padded_length)
    return result[: round(len(samples) * RATE / rate)].astype(np.float32)


def trim(samples: Samples) -> Samples:
    """Return a clip without the silence at its ends, for a timeline of what is heard."""
    audible = np.flatnonzero(np.abs(samples) > _QUIET * np.abs(samples).max(initial=0.0))
    if not len(audible):
        return samples[:0]
    margin = int(_MARGIN_S * RATE)
    return samples[max(0, audible[0] - margin) : audible[-1] + margin]


def decibels(value: float) -> float:
    """Return the factor of a gain in decibels."""
    return float(10 ** (value / 20))


def loudness_lufs(samples: Samples) -> float:
    """Return the integrated loudness of ITU-R BS.1770-4; minus infinity for silence."""
    columns = samples.reshape(len(samples), -1)
    block, step = int(_BLOCK_S * RATE), int(_STEP_S * RATE)
    if len(columns) < block:
        columns = np.pad(columns, ((0, block - len(columns)), (0, 0)))
    power = np.zeros((len(columns) - block) // step + 1)
    for column in columns.T:
        sums = np.concatenate(([0.0], np.cumsum(np.square(_k_weighting(column), dtype=np.float64))))
        starts = np.arange(len(power)) * step
        power += (sums[starts + block] - sums[starts]) / block
    loud = power[power > _power(_SILENT_LUFS)]
    if not len(loud):
        return -math.inf
    gated = loud[loud > loud.mean() * 10 ** (_RELATIVE_LU / 10)]
    return float(-0.691 + 10 * math.log10(gated.mean()))


def _power(lufs: float) -> float:
    return float(10 ** ((lufs + 0.691) / 10))


def _k_weighting(column: Samples) -> Samples:
    """Return a channel through the K filter, in parts to save memory; it rings for less than a second."""
    result = np.empty_like(column)
    for start in range(0, len(column), _PART):
        before = min(start, RATE)
        part = column[start - before : start + _PART]
        filtered = np.fft.irfft(np.fft.rfft(part, _PART + 2 * RATE) * _response(), _PART + 2 * RATE)
        result[start : start + _PART] = filtered[before : len(part)]
    return result


@cache
def _response() -> NDArray[np.complex64]:
    """Return the K filter at the frequencies of a part."""
    count = _PART + 2 * RATE
    z = np.exp(-2j * np.pi * np.arange(count // 2 + 1) / count)
    return (_biquad(z, *_shelf()) * _biquad(z, *_high_pass())).astype(np.complex64)


def _biquad(z: NDArray[np.complex128], above: list[float], below: list[float]) -> NDArray[np.complex128]:
    return np.polyval(above[::-1], z) / np.polyval(below[::-1], z)


def _shelf() -> tuple[list[float], list[float]]:
    """Return the coefficients of the high shelf at our rate."""
    gain, quality, k = 3.999843853973347, 0.7071752369554196, math.tan(math.pi * 1681.974450955533 / RATE)
    high = 10 ** (gain / 20)
    middle = high**0.4996667741545416
    a0 = 1 + k / quality + k * k
    above = [
        (high + middle * k / quality + k * k) / a0,
        2 * (k * k - high) / a0,
        (high - middle * k / quality + k * k) / a0,
    ]
    return above, [1.0, 2 * (k * k - 1) / a0, (1 - k / quality + k * k) / a0]


def _high_pass() -> tuple[list[float], list[float]]:
    quality, k = 0.5003270373238773, math.tan(math.pi * 38.13547087602444 / RATE)
    a0 = 1 + k / quality + k * k
    return [1.0, -2.0, 1.0], [1.0, 2 * (k * k - 1) / a0, (1 - k / quality + k * k) / a0]


def true_peak_dbtp(samples: Samples) -> float:
    """Return the true peak, four times oversampled; minus infinity for silence."""
    peak = _peaks(samples).max(initial=0.0)
    return 20 * math.log10(peak) if peak else -math.inf


def _peaks(samples: Samples) -> Samples:
    """Return the highest amount between each sample and the next, over the channels."""
    columns = samples.reshape(len(samples), -1)
    peaks: Samples = np.abs(columns).max(axis=1)
    at = np.arange(-_TAPS // 2 + 1, _TAPS // 2 + 1)
    for phase in range(1, _OVERSAMPLING):
        offset = at - phase / _OVERSAMPLING
        taps = (np.sinc(offset) * np.cos(np.pi * offset / (_TAPS + 2)) ** 2).astype(np.float32)
        for column in columns.T:
            np.maximum(peaks, np.abs(np.convolve(column, taps[::-1])[_TAPS // 2 :][: len(peaks)]), out=peaks)
    return peaks


def limit(samples: Samples, ceiling_dbtp: float) -> Samples:
    """Return the samples with their true peaks below a ceiling; the gain moves within 5 ms before a peak."""
    ceiling = decibels(ceiling_dbtp)
    peaks = _peaks(samples)
    if peaks.max(initial=0.0) <= ceiling:
        return samples
    wanted = np.minimum(1.0, ceiling / np.maximum(peaks, 1e-9))
    half = _LOOKAHEAD // 2
    lowest = _lowest(np.pad(wanted, half * 2, constant_values=1.0))
    sums = np.concatenate(([0.0], np.cumsum(lowest, dtype=np.float64)))
    gain = ((sums[_LOOKAHEAD:] - sums[:-_LOOKAHEAD]) / _LOOKAHEAD).astype(np.float32)
    result: Samples = samples * (gain if samples.ndim == 1 else gain[:, None])
    return result


def _lowest(values: Samples) -> Samples:
    """Return the lowest of each `_LOOKAHEAD` values in a row."""
    count = len(values) - _LOOKAHEAD + 1
    padded = np.pad(values, (0, -len(values) % _LOOKAHEAD), constant_values=1.0).reshape(-1, _LOOKAHEAD)
    onward = np.minimum.accumulate(padded, axis=1).ravel()
    back = np.minimum.accumulate(padded[:, ::-1], axis=1)[:, ::-1].ravel()
    return np.minimum(back[:count], onward[_LOOKAHEAD - 1 :][:count])


def master(samples: Samples, lufs: float, ceiling_dbtp: float) -> Samples:
    """Return the samples at a loudness, with true peaks below the ceiling; silence stays silence."""
    gain_db, result = 0.0, samples
    for _ in range(_ATTEMPTS):
        difference = lufs - loudness_lufs(result)
        if abs(difference) < _LOUD_ENOUGH_LU or math.isinf(difference):
            break
        gain_db += difference
        result = limit(samples * np.float32(decibels(gain_db)), ceiling_dbtp)
    return result


def encode(samples: Samples, form: str, tags: Mapping[str, str]) -> bytes:
    """Return a sound file with its tags: `title`, `comment`."""
    file = BytesIO()
    options = dict(FORMATS[form][1])
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    with soundfile.SoundFile(file, "w", RATE, channels, **options) as sound:
        for name, text in tags.items():
            setattr(sound, name, text)
        # A large block overflows the stack of the library's Vorbis encoder.
        for start in range(0, len(samples), RATE):
            sound.write(samples[start : start + RATE])
    return file.getvalue()
