"""PDFs are read in a process of their own: what one of them takes is nobody else's trouble (B4, B5)."""

import asyncio

import psutil
import pytest

from callsheet.state.errors import Invalid, TooLarge
from callsheet.state.uploads import MAX_MATERIAL
from callsheet.tools.guard.sandbox import MAX_PROCESSES
from callsheet.tools.lessons import pdf as pdf_reader
from callsheet.tools.lessons.pdf import Limits
from callsheet.tools.lessons.sources import pasted_source
from tests.doubles.pdf_writer import pdf, pdf_from_streams
from tests.doubles.waiting import until
from tests.lessons.lesson_material import material


def bomb(mib: int) -> bytes:
    """A page of a few KiB that unpacks to `mib` of words."""
    return pdf_from_streams([b"BT /F1 11 Tf 50 700 Td (" + b"All is well. " * (mib * 80_000) + b") Tj ET"])


@pytest.mark.slow
async def test_the_words_and_the_pages_are_those_that_are_read_here():
    text = "\n\n".join([material("the_moon").text.strip()] * 2)
    data, told = pdf(text, rows=10), []
    read = await pdf_reader.read_sandboxed(data, "moon.pdf", lambda done, of: told.append((done, of)))
    assert read == pdf_reader.read(data, "moon.pdf")
    assert read.text == pasted_source(text).text
    assert told == [(number, read.pages) for number in range(1, read.pages + 1)]


@pytest.mark.slow
async def test_what_is_wrong_with_a_pdf_is_said_in_the_same_words():
    with pytest.raises(Invalid, match=r"scan\.pdf was scanned: its 2 pages are pictures"):
        await pdf_reader.read_sandboxed(pdf_from_streams([b"q Q"] * 2), "scan.pdf")


@pytest.mark.slow
async def test_a_pdf_that_unpacks_to_more_than_it_may_take_ends_its_own_process_alone():
    others = set(psutil.Process().children())
    with pytest.raises(TooLarge, match=r"bomb\.pdf"):
        await pdf_reader.read_sandboxed(
            bomb(60), "bomb.pdf", limits=Limits(memory_bytes=96 * 2**20, cpu_s=20)
        )
    until(lambda: set(psutil.Process().children()) <= others, "the end of its process")


@pytest.mark.slow
async def test_a_pdf_that_takes_too_long_is_given_up():
    whole = pdf("\n\n".join([material("the_moon").text.strip()] * 60), rows=3)
    with pytest.raises(TooLarge, match=r"took over 0\.1 s of processor"):
        await pdf_reader.read_sandboxed(whole, "book.pdf", limits=Limits(cpu_s=0.1))


@pytest.mark.slow
async def test_the_pdfs_of_one_owner_do_not_keep_another_waiting():
    """C52: so many processes at once; the others wait for their turn."""
    heavy = pdf("\n\n".join([material("the_moon").text.strip()] * 2_000), rows=400)
    light = pdf(material("the_moon").text.strip())

    async def given_up() -> None:
        with pytest.raises(TooLarge, match=r"took over 1 s of processor"):
            await pdf_reader.read_sandboxed(heavy, "book.pdf", limits=Limits(cpu_s=1), owner="alice")

    of_alice = [asyncio.create_task(given_up()) for _ in range(MAX_PROCESSES + 2)]
    await asyncio.sleep(0)
    assert (await pdf_reader.read_sandboxed(light, "moon.pdf", owner="bob")).pages
    assert sum(task.done() for task in of_alice) <= 1
    await asyncio.gather(*of_alice)


async def test_a_file_over_the_limit_starts_no_process():
    with pytest.raises(TooLarge, match="over 50"):
        await pdf_reader.read_sandboxed(b"%PDF-" + bytes(MAX_MATERIAL), "huge.pdf")
