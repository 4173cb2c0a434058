"""PDFs are read in a sandboxed process with limits on memory and time (B4, B5)."""

import asyncio

import psutil
import pytest

from callsheet.state.errors import Invalid, TooLarge
from callsheet.state.uploads import MAX_MATERIAL
from callsheet.tools.guard.sandbox import MAX_PROCESSES
from callsheet.tools.lessons import pdf as pdf_reader
from callsheet.tools.lessons.pdf import PdfLimits
from callsheet.tools.lessons.sources import pasted_source
from tests.doubles.pdf_writer import pdf, pdf_from_streams
from tests.doubles.waiting import until
from tests.lessons.lesson_material import material


def pdf_bomb(mib: int) -> bytes:
    """Return a PDF of a few KiB whose page unpacks to `mib` of text."""
    return pdf_from_streams([b"BT /F1 11 Tf 50 700 Td (" + b"All is well. " * (mib * 80_000) + b") Tj ET"])


@pytest.mark.slow
async def test_the_sandbox_reads_the_same_text_and_pages_as_this_process():
    text = "\n\n".join([material("the_moon").text.strip()] * 2)
    data, progress = pdf(text, rows=10), []
    source = await pdf_reader.read_sandboxed(data, "moon.pdf", lambda done, of: progress.append((done, of)))
    assert source == pdf_reader.read(data, "moon.pdf")
    assert source.text == pasted_source(text).text
    assert progress == [(number, source.pages) for number in range(1, source.pages + 1)]


@pytest.mark.slow
async def test_the_sandbox_raises_the_same_error_for_a_scanned_pdf():
    with pytest.raises(Invalid, match=r"scan\.pdf was scanned: its 2 pages are pictures"):
        await pdf_reader.read_sandboxed(pdf_from_streams([b"q Q"] * 2), "scan.pdf")


@pytest.mark.slow
async def test_a_pdf_that_unpacks_beyond_the_memory_limit_is_refused_and_its_process_ends():
    processes_before = set(psutil.Process().children())
    with pytest.raises(TooLarge, match=r"bomb\.pdf"):
        await pdf_reader.read_sandboxed(
            pdf_bomb(60), "bomb.pdf", limits=PdfLimits(memory_bytes=96 * 2**20, cpu_s=20)
        )
    until(lambda: set(psutil.Process().children()) <= processes_before, "the end of its process")


@pytest.mark.slow
async def test_a_pdf_that_takes_more_processor_time_than_the_limit_is_refused():
    book = pdf("\n\n".join([material("the_moon").text.strip()] * 60), rows=3)
    with pytest.raises(TooLarge, match=r"took over 0\.1 s of processor"):
        await pdf_reader.read_sandboxed(book, "book.pdf", limits=PdfLimits(cpu_s=0.1))


@pytest.mark.slow
async def test_many_slow_pdfs_of_one_owner_do_not_delay_another_owners():
    """C52: an owner's PDFs beyond the number of processes wait for their turn."""
    heavy = pdf("\n\n".join([material("the_moon").text.strip()] * 2_000), rows=400)
    light = pdf(material("the_moon").text.strip())

    async def refuse_heavy_pdf() -> None:
        with pytest.raises(TooLarge, match=r"took over 1 s of processor"):
            await pdf_reader.read_sandboxed(heavy, "book.pdf", limits=PdfLimits(cpu_s=1), owner="alice")

    tasks_of_alice = [asyncio.create_task(refuse_heavy_pdf()) for _ in range(MAX_PROCESSES + 2)]
    await asyncio.sleep(0)
    assert (await pdf_reader.read_sandboxed(light, "moon.pdf", owner="bob")).pages
    assert sum(task.done() for task in tasks_of_alice) <= 1
    await asyncio.gather(*tasks_of_alice)


async def test_a_file_over_the_size_limit_is_refused_before_a_process_starts():
    with pytest.raises(TooLarge, match="over 50"):
        await pdf_reader.read_sandboxed(b"%PDF-" + bytes(MAX_MATERIAL), "huge.pdf")
