"""Time and memory from a PDF of 20 pages to facts, offline, compared with extracting its text.

The floor is PDFium's text of the same pages, which every extraction of facts needs. Each round does
both, each in its own process that has done its imports and read one page before it is timed; memory
is the process's largest size, and that of an interpreter with the same imports before it has a PDF.
"""

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench import size
from tests.doubles.pdf_writer import PAGE_LINES, pdf
from tests.lessons.lesson_material import FOLDER

ROUNDS: Final = size(5, short=2)
PAGES: Final = size(20, short=2)
_ROOT: Final = Path(__file__).parent.parent
_ENGLISH: Final = ("struggle_for_existence", "great_fire", "photosynthesis", "the_moon", "growing_a_bean")


def main() -> int:
    """Print the table; with a name, measure that part only and print its figures as JSON."""
    if len(sys.argv) > 1 and sys.argv[-1] in {"facts", "words"}:
        print(json.dumps(_facts() if sys.argv[-1] == "facts" else _words()))
        return 0
    rounds = [{name: _in_own_process(name) for name in ("words", "facts")} for _ in range(ROUNDS)]
    _print("seconds", "s", [(one["words"]["s"], one["facts"]["s"]) for one in rounds])
    _print("largest", "MiB", [(one["words"]["mib"], one["facts"]["mib"]) for one in rounds])
    _print("before", "MiB", [(one["words"]["before_mib"], one["facts"]["before_mib"]) for one in rounds])
    last = rounds[-1]["facts"]
    print(
        f"{last['pages']} pages, {last['chars']} characters, {last['found']} facts; {ROUNDS} rounds, medians"
    )
    return 0


def book() -> bytes:
    """Return a PDF of 20 full pages: the lessons' English materials, over and over."""
    materials = "\n\n".join((FOLDER / f"{name}.txt").read_text(encoding="utf-8").strip() for name in _ENGLISH)
    text = "\n\n".join([materials] * PAGES)
    return pdf(text, most=PAGES * PAGE_LINES)


def _in_own_process(name: str) -> dict[str, Any]:
    process = subprocess.run(
        [sys.executable, "-m", "bench.lesson", name], cwd=_ROOT, check=True, capture_output=True, text=True
    )
    figures: dict[str, Any] = json.loads(process.stdout)
    return figures


def _words() -> dict[str, Any]:
    from pypdfium2 import PdfDocument

    data = book()
    PdfDocument(data)[0].get_textpage().get_text_bounded()
    before_mib = _largest_mib()
    start_s = time.perf_counter()
    for page in PdfDocument(data):
        page.get_textpage().get_text_bounded()
    return {"s": time.perf_counter() - start_s, "mib": _largest_mib(), "before_mib": before_mib}


def _facts() -> dict[str, Any]:
    from callsheet.tools.lessons import pdf as pdf_reader
    from callsheet.tools.lessons.fact_finding import extract_facts

    data = book()
    asyncio.run(
        extract_facts(pdf_reader.read(pdf("A candle has a wick. It draws up the wax.")).text, model="offline")
    )
    before_mib = _largest_mib()
    start_s = time.perf_counter()
    source = pdf_reader.read(data)
    extraction = asyncio.run(extract_facts(source.text, model="offline"))
    duration_s = time.perf_counter() - start_s
    size = {"pages": source.pages, "chars": len(source.text), "found": len(extraction.facts)}
    return {"s": duration_s, "mib": _largest_mib(), "before_mib": before_mib, **size}


def _largest_mib() -> float:
    # Linux counts in KiB, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def _print(row: str, unit: str, pairs: Sequence[tuple[float, float]]) -> None:
    words, facts = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratios = sorted(one / floor for floor, one in pairs)
    columns = (
        f"words {words:>7.2f} {unit:<4} facts {facts:>7.2f} {unit:<4} {statistics.median(ratios):>5.2f}x"
    )
    print(f"{row:<10}{columns}   {ratios[0]:.2f} … {ratios[-1]:.2f}")


if __name__ == "__main__":
    sys.exit(main())
