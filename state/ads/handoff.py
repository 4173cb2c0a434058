"""Hand-off of an ad: its script and cue sheet for people, and a VAST document for ad servers."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from callsheet.state.ads.timeline import Timeline

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a cell that a spreadsheet takes for a formula."""
_COLUMNS: Final = ("start", "end", "part", "who or what", "words", "gain in dB")


def script(
    title: str, about: Sequence[str], streams: Mapping[str, Mapping[str, Any]], timeline: Timeline
) -> str:
    """Return the script as Markdown: title, sentences about the ad, and the parts with their times."""
    lines = [
        f"# {_plain(title)}",
        *map(_plain, about),
        f"{timeline['durationSeconds']:g} s of {timeline['spotSeconds']:g} s, times {timeline['timing']}.",
    ]
    for track, span in zip(_items(streams, "voices", "voiceTracks"), timeline["voices"], strict=True):
        title = f"**{_clock(span['start'])}–{_clock(span['end'])}, {_plain(track['voiceId'])}**"
        lines.append(f"{title}\n{_plain(track['text'])}")
    if "music" in timeline:
        lines.append(f"**Music** {_plain(streams['music']['musicPrompt'])}")
    lines += [
        f"**{_clock(effect['start'])}–{_clock(effect['end'])}, effect** {_plain(effect['description'])}"
        for effect in timeline["sfx"]
    ]
    return "\n\n".join(lines) + "\n"


def cue_sheet(streams: Mapping[str, Mapping[str, Any]], timeline: Timeline, mixer: Mapping[str, Any]) -> str:
    """Return the cue sheet as CSV, in the order of the starts."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    for row in sorted(_cues(streams, timeline, mixer), key=lambda cue: float(cue[0])):
        writer.writerow([*row[:2], *map(_cell, row[2:5]), row[5]])
    return file.getvalue()


def _cues(
    streams: Mapping[str, Mapping[str, Any]], timeline: Timeline, mixer: Mapping[str, Any]
) -> Iterator[Sequence[str]]:
    for track, span in zip(_items(streams, "voices", "voiceTracks"), timeline["voices"], strict=True):
        gain = f"{mixer['voices'].get(span['id'], 0.0):g}"
        yield (*_span(span), "voice", str(track["voiceId"]), str(track["text"]), gain)
    if "music" in timeline:
        level = f"{mixer['music']['volumeDb']:g}"
        yield (*_span(timeline["music"]), "music", str(streams["music"]["musicPrompt"]), "", level)
    for effect in timeline["sfx"]:
        yield (*_span(effect), "effect", effect["description"], "", f"{mixer['sfx']['volumeDb']:g}")


def vast(ad_id: str, title: str, url: str, media_type: str, seconds: float) -> str:
    """Return a VAST 4.2 document for an audio ad whose file is served at `url`."""
    duration = f"00:{int(seconds) // 60:02}:{int(seconds) % 60:02}.{round(seconds % 1 * 1000) % 1000:03}"
    name, number = escape(ad_id), quoteattr(ad_id)
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<VAST version="4.2" xmlns="http://www.iab.com/VAST">
  <Ad id={number} adType="audio">
    <InLine>
      <AdSystem>Callsheet</AdSystem>
      <AdTitle>{escape(title)}</AdTitle>
      <AdServingId>{name}</AdServingId>
      <Creatives>
        <Creative id={number}>
          <UniversalAdId idRegistry="unknown">{name}</UniversalAdId>
          <Linear>
            <Duration>{duration}</Duration>
            <MediaFiles>
              <MediaFile delivery="progressive" type={quoteattr(media_type)} width="0" height="0">{escape(url)}</MediaFile>
            </MediaFiles>
          </Linear>
        </Creative>
      </Creatives>
    </InLine>
  </Ad>
</VAST>
"""  # noqa: E501 -- an element in one line


def _items(streams: Mapping[str, Mapping[str, Any]], stream: str, field: str) -> Sequence[Mapping[str, Any]]:
    items: Sequence[Mapping[str, Any]] = streams.get(stream, {}).get(field, ())
    return items


def _span(span: Any) -> tuple[str, str]:
    return f"{span['start']:.2f}", f"{span['end']:.2f}"


def _clock(at_s: float) -> str:
    return f"{int(at_s) // 60}:{at_s % 60:04.1f}"


def _cell(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def _plain(text: str) -> str:
    """Return the text with Markdown's special characters escaped."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>#|!" else char for char in " ".join(text.split()))
