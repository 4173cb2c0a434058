"""Random texts and PDFs as material of a lesson: no word is lost, and a damaged file is refused."""

import random
import re
import unicodedata
from collections.abc import Iterator

import pytest

from callsheet.graphs import fact_narration
from tests.doubles.pdf_writer import Piece, drawn_pdf, line
from tests.lessons.lesson_client import SOURCE, LessonClient, ok

GRAPHS = {"fact_narration": fact_narration.graph}
QUICK, LONGER = 4, 60
"""Files of each kind in a quick run, and how many times more a long one has."""
WORDS = (
    "bees",
    "Straße",
    "naïve",
    "don't",
    "3,474",
    "km.",
    "(so)",
    "“fine”",
    "e.g.",
    "№5",
    "50%",
    "a/b",
    "Γη",
    "дом.",
    "עץ",
    "شجرة",
    "月球是",
    "ต้นไม้",
    "🌳",
    "well-known",
    "C++",
    "x_y",
    "1.",
    "•",
    "—",
)
GAPS = (" ", " ", " ", "  ", "\t", "\n", "\n\n", "\r\n", "\u00a0", ".\n", "\u2028", "\f")
TOKEN = re.compile(r"q\d+z")


def random_text(chances: random.Random) -> str:
    words = [chances.choice(WORDS) + chances.choice(GAPS) for _ in range(chances.randint(10, 400))]
    return "A text of words. " + "".join(words)


def letters(text: str) -> str:
    """Return the characters of a text without blanks, and without hyphens, which join the ends of lines."""
    return "".join(unicodedata.normalize("NFC", text).split()).replace("-", "")


def random_pdf(chances: random.Random) -> tuple[bytes, set[str]]:
    """Return a PDF of words that occur once, with these words."""
    drawn: set[str] = set()
    pages = []
    for _ in range(chances.randint(1, 4)):
        columns, size = chances.choice((1, 1, 2, 3)), chances.choice((8, 9.5, 11, 14))
        lefts = [50 + column * 520 / columns for column in range(columns)]
        pages.append([part for left in lefts for part in draw_column(chances, left, columns, size, drawn)])
    return drawn_pdf(*pages), drawn


def draw_column(
    chances: random.Random, left: float, columns: int, size: float, drawn: set[str]
) -> Iterator[bytes]:
    """Yield the lines of a column, and add its words to those that are drawn."""
    y = 745.0
    for _ in range(chances.randint(3, 30)):
        count = max(1, int(500 / columns / (size * 3.5)) - chances.randint(0, 2))
        tokens = [f"q{len(drawn) + number}z" for number in range(count)]
        drawn.update(tokens)
        # An exponent or a footnote mark.
        mark = [Piece("2", size * 0.6, size * 0.4)] if chances.random() < 0.2 else []
        yield line(left + chances.choice((0, 0, 0, 12)), y, " ".join(tokens), *mark, size=size)
        y -= size * chances.choice((1.2, 1.2, 1.2, 2.4))
        if y < 60:
            return


def count_files(request: pytest.FixtureRequest) -> int:
    return QUICK * (LONGER if request.config.getoption("--long") else 1)


async def upload(client: LessonClient, name: str, content: bytes) -> tuple[int, str]:
    """Return the status of an upload in a new session, and the text that the session has then."""
    reply = await client.http.post(f"{SOURCE}/files", params={"fileName": name}, content=content)
    if reply.status_code != 201:
        assert reply.json()["remedy"], reply.text
        return reply.status_code, ""
    session = LessonClient(client.http, reply.headers["X-Session-Id"])
    return 201, (await session.get_session())["session"]["sourceMaterials"]["text"]


@pytest.mark.slow
@pytest.mark.timeout(3_000)
async def test_a_random_text_is_stored_with_all_its_characters(
    lesson_client: LessonClient, request: pytest.FixtureRequest
) -> None:
    """B5."""
    for seed in range(count_files(request) * 4):
        text = random_text(random.Random(seed))
        pasted = await lesson_client.http.post(SOURCE, json={"text": text})
        session = LessonClient(lesson_client.http, pasted.headers["X-Session-Id"])
        ok(pasted, 201)
        stored = (await session.get_session())["session"]["sourceMaterials"]["text"]
        assert letters(stored) == letters(text), seed
        encoding = ("utf-8", "utf-8-sig")[seed % 2]
        status, uploaded = await upload(lesson_client, "a.txt", text.encode(encoding))
        assert (status, letters(uploaded)) == (201, letters(text)), (seed, encoding)


@pytest.mark.slow
@pytest.mark.timeout(3_000)
async def test_a_random_pdf_is_stored_with_all_its_words(
    lesson_client: LessonClient, request: pytest.FixtureRequest
) -> None:
    """B4, B5: in one to three columns, in all sizes."""
    for seed in range(count_files(request)):
        content, drawn = random_pdf(random.Random(seed))
        status, text = await upload(lesson_client, "a.pdf", content)
        assert (status, {*TOKEN.findall(text)} ^ drawn) == (201, set()), seed


@pytest.mark.slow
@pytest.mark.timeout(3_000)
async def test_a_random_pdf_with_changed_bytes_is_read_or_refused(
    lesson_client: LessonClient, request: pytest.FixtureRequest
) -> None:
    """X13: never an internal error."""
    for seed in range(count_files(request)):
        chances = random.Random(seed)
        content = bytearray(random_pdf(chances)[0])
        for _ in range(chances.randint(1, 20)):
            at = chances.randrange(5, len(content))
            content[at : at + chances.choice((0, 1, 30))] = chances.randbytes(chances.choice((0, 1, 4)))
        status, _ = await upload(lesson_client, "a.pdf", bytes(content))
        assert status in {201, 422}, seed
