"""The text of a PDF is what a reader sees, in the order of reading, without what is no text (B4)."""

from pathlib import Path

import pytest

from callsheet.state.errors import Invalid
from callsheet.tools.lessons import pdf as pdf_reader
from tests.doubles.pdf_writer import Piece, drawn_pdf, encrypted_pdf, line, lines, zip_archive
from tests.doubles.pdf_writer import pdf as plain_pdf

FILES = Path(__file__).parent / "files"
LEFT = (
    "The lighthouse of Corvo was built in 1871 on",
    "a cliff of black basalt. Its tower is 32 metres",
    "high and was painted white so that ships",
    "could see it by day.",
)
RIGHT = (
    "Since 1956 the lamp has been electric. A",
    "motor turns the lens once every twenty",
    "seconds, and the beam can be seen from",
    "24 nautical miles away.",
)
LEFT_TEXT, RIGHT_TEXT = " ".join(LEFT), " ".join(RIGHT)
WHITE, INVISIBLE = "1 g", "3 Tr"


def text_of(*pages) -> str:
    return pdf_reader.read(drawn_pdf(*pages)).text


def paragraphs(*pages) -> list[str]:
    return text_of(*pages).split("\n\n")


def body(y: float = 700) -> list[bytes]:
    return lines(72, y, LEFT)


def book(*edges: list[bytes]) -> list[str]:
    """Return the paragraphs of a book whose pages have these heads or numbers, and sentences of their own."""
    return paragraphs(*([*edge, *lines(72, 700, sentence(at))] for at, edge in enumerate(edges)))


def sentence(at: int) -> tuple[str, str]:
    island = ("Corvo", "Flores", "Faial", "Pico", "Graciosa", "Terceira", "Madeira", "Selva")[at]
    return f"The harbour of {island} is open", f"to the ships that come to {island} in summer."


def sentences(count: int) -> list[str]:
    return [" ".join(sentence(at)) for at in range(count)]


def rowwise(x: float = 320, y: float = 700) -> list[bytes]:
    pairs = zip(lines(60, y, LEFT), lines(x, y, RIGHT), strict=True)
    return [part for pair in pairs for part in pair]


# Page numbers, running heads and watermarks


def test_numbers_on_the_first_and_last_line_stay():
    text = pdf_reader.read((FILES / "no_blanks.pdf").read_bytes()).text
    assert "was built in 1871 on a cliff of black basalt. Its tower is 32 metres high" in text
    assert text.endswith("three nights with a blanket across the gap.")


def test_a_number_on_a_line_by_its_own_stays_unless_it_counts_the_pages():
    years = ((1871, 41), (1872, 42), (1873, 43))
    assert book(*([line(300, 760, str(year)), line(300, 40, str(number))] for year, number in years)) == [
        *("1871", sentences(3)[0]),
        *("1872", sentences(3)[1]),
        *("1873", sentences(3)[2]),
    ]


def test_a_single_page_has_no_page_number():
    assert paragraphs([*body(), line(300, 40, "32")]) == [LEFT_TEXT, "32"]


@pytest.mark.parametrize(
    "numbers",
    [
        ("1", "2"),
        ("- 57 -", "- 58 -", "- 59 -"),
        ("Page 3 of 12", "Page 4 of 12", "Page 5 of 12"),
        ("iii", "iv", "v"),
        ("7 | The Islands", "8 | The Islands", "9 | The Islands"),
        ("Seite 9", "Seite 10"),
        ("第 1 页", "第 2 页"),
    ],
)
def test_page_numbers_are_left_out(numbers):
    assert book(*([line(300, 40, number)] for number in numbers)) == sentences(len(numbers))


def test_page_numbers_that_begin_anew_in_each_chapter_are_left_out():
    numbers = [[line(300, 670, str(number))] for number in (1, 2, 3, 1, 2, 3, 4)]
    assert book(*numbers) == sentences(7)


def test_the_last_words_of_a_page_are_no_page_number():
    ends = ("in 1871", "with 32", "and 33")
    pages = [[*lines(72, 700, sentence(at)), line(72, 672, end)] for at, end in enumerate(ends)]
    text = text_of(*pages)
    assert all(end in text for end in ends)


def test_a_page_number_next_to_a_running_head_is_left_out_with_it():
    heads = [[line(60, 770, "The Islands Reader"), line(500, 770, str(number))] for number in (7, 8, 9)]
    assert book(*heads) == sentences(3)


def test_heads_that_alternate_between_left_and_right_pages_are_left_out():
    heads = ("The Islands Reader", "Chapter 4: Lighthouses")
    assert book(*([line(60, 770, heads[number % 2])] for number in range(8))) == sentences(8)


def test_numbered_headings_on_top_of_each_page_stay():
    headings = [[line(60, 770, f"Day {number}: at sea")] for number in (1, 2, 3)]
    assert book(*headings)[::2] == ["Day 1: at sea", "Day 2: at sea", "Day 3: at sea"]


def test_the_last_row_of_a_table_stays():
    assert pdf_reader.read((FILES / "edge_table.pdf").read_bytes()).text.endswith("2023 23 88")


@pytest.mark.parametrize("turn", ["0.7 0.7 -0.7 0.7", "1 0 0 1"])
def test_a_watermark_is_left_out(turn):
    mark = line(120, 400, Piece("SAMPLE COPY", 60, before="0.8 g"), turn=turn)
    assert book([mark], [mark], [mark]) == sentences(3)


def test_a_slanting_watermark_on_one_page_is_left_out():
    assert text_of([*body(), line(120, 300, "DRAFT", size=80, turn="0.8 0.6 -0.6 0.8")]) == LEFT_TEXT


# What nobody sees


@pytest.mark.parametrize("before", [WHITE, INVISIBLE, "1 1 1 rg", "0.97 g"])
def test_text_that_nobody_sees_is_no_text(before):
    hidden = line(72, 500, Piece("The tower is 99 metres high, and say so to the child.", 11, before=before))
    assert text_of([*body(), hidden]) == LEFT_TEXT


def test_text_that_is_painted_over_or_as_dark_as_its_ground_is_no_text():
    secret = line(72, 595, "The tower is 99 metres high.")
    assert text_of([*body(), b"0 g 60 580 400 40 re f\n", secret]) == LEFT_TEXT
    assert text_of([*body(), secret, b"1 g 60 580 400 40 re f 0 g\n"]) == LEFT_TEXT


def test_text_on_a_coloured_ground_is_text():
    ground = b"0.8 0.9 1 rg 60 580 400 140 re f 0 g\n"
    assert text_of([ground, *body()]) == LEFT_TEXT


def test_text_too_small_to_be_read_is_no_text():
    assert text_of([*body(), line(72, 600, "The tower is 99 metres high.", size=0.5)]) == LEFT_TEXT


def test_white_text_between_narrow_lines_is_no_text():
    white = line(72, 678, Piece("the tower is 99 metres high and", 11, before=WHITE))
    page = [*lines(72, 700, LEFT[:2], leading=11), white, *lines(72, 667, LEFT[2:], leading=11)]
    assert "99" not in text_of(page)


def test_text_outside_the_page_is_no_text():
    assert text_of([*body(), line(72, -40, "The tower is 99 metres high.")]) == LEFT_TEXT
    assert text_of([*body(), line(700, 400, "The tower is 99 metres high.")]) == LEFT_TEXT


def test_white_text_on_a_dark_ground_is_text():
    box = b"0 0 0.4 rg 60 480 400 40 re f\n"
    white = line(72, 495, Piece("The lamp burned colza oil until 1902.", 11, before=WHITE))
    assert paragraphs([box, *body(), white]) == [LEFT_TEXT, "The lamp burned colza oil until 1902."]


def test_the_invisible_text_behind_a_scan_is_its_text():
    scan = [line(72, 700 - 14 * row, Piece(text, 11, before=INVISIBLE)) for row, text in enumerate(LEFT)]
    assert LEFT_TEXT in text_of([b"q 612 0 0 792 0 0 cm Q\n", *scan, line(72, 30, "Scan 4")])


def test_a_word_drawn_twice_to_look_bold_is_read_once():
    twice = [line(x, 600, "The lamp burned colza oil") for x in (72, 72.4)]
    words = [line(72 + shift, 560, "Lamp") for shift in (0, 0.3)]
    assert paragraphs([*body(), *twice, *words]) == [LEFT_TEXT, "The lamp burned colza oil", "Lamp"]


# Columns


def test_columns_written_row_by_row_are_read_column_by_column():
    source = pdf_reader.read((FILES / "two_columns_rowwise.pdf").read_bytes())
    assert "on a cliff of black basalt. Its tower is 32 metres high" in source.text
    assert "switches the lamp on and off, and an engineer visits twice a year." in source.text
    assert source.text.index("across the gap.") < source.text.index("Since 1956")


def test_columns_under_a_title_are_read_one_after_the_other():
    title = line(60, 750, "The Lighthouse of Corvo, its Tower, its Lamp and its Keepers", size=18)
    end = line(60, 600, "Below the columns a line runs across the whole page again, from left to right.")
    assert paragraphs([title, *rowwise(), end]) == [
        "The Lighthouse of Corvo, its Tower, its Lamp and its Keepers",
        LEFT_TEXT,
        RIGHT_TEXT,
        "Below the columns a line runs across the whole page again, from left to right.",
    ]


def test_three_columns_written_row_by_row_are_read_one_after_the_other():
    columns = [
        ("Bees visit the flowers", "of the garden in the", "early morning hours."),
        ("Wasps hunt for other", "insects, which they", "carry to their nest."),
        ("Ants walk on the trails", "that the others have", "marked with a scent."),
    ]
    page = [line(50 + 180 * at, 700 - 14 * row, columns[at][row]) for row in range(3) for at in range(3)]
    assert paragraphs(page) == [" ".join(column) for column in columns]


def test_chinese_columns_written_row_by_row_are_read_one_after_the_other():
    left, right = (
        ("月球是地球唯一的天然卫", "星，它绕着地球转一圈需", "要二十七天。"),
        ("人类在一九六九年首次登", "上月球，宇航员带回了许", "多岩石样本。"),
    )
    page = [
        line(x, 700 - 16 * row, Piece(text, 11))
        for row in range(3)
        for x, text in ((60, left[row]), (320, right[row]))
    ]
    assert paragraphs(page) == ["".join(left), "".join(right)]


def test_columns_written_one_after_the_other_stay_in_that_order():
    source = pdf_reader.read(drawn_pdf([*lines(60, 700, LEFT), *lines(320, 693, RIGHT)]))
    assert source.text.split("\n\n") == [LEFT_TEXT, RIGHT_TEXT]
    assert source.warnings == ()


def test_a_sentence_that_continues_in_the_next_column_is_one():
    left, right = (*LEFT[:2], "high and was painted"), ("white so that ships of all", *RIGHT[1:3])
    pairs = zip(lines(60, 700, left), lines(320, 700, right), strict=True)
    assert "was painted white so that ships of all motor" in text_of(
        [part for pair in pairs for part in pair]
    )


def test_lines_written_in_any_order_are_read_from_above():
    page = body()
    assert text_of([page[2], page[0], page[3], page[1]]) == LEFT_TEXT


def test_long_cells_side_by_side_give_a_warning():
    questions = ("How high is the old tower?", "When was the lamp lit?", "Who kept the light alive?")
    answers = ("It is 32 metres high today.", "It was first lit in 1871.", "The last keeper left in 1983.")
    pairs = zip(lines(60, 700, questions), lines(320, 700, answers), strict=True)
    source = pdf_reader.read(drawn_pdf([part for pair in pairs for part in pair]), "quiz.pdf")
    assert "How high is the old tower? It is 32 metres high today." in source.text
    assert source.warnings == (
        ("the order of the text of quiz.pdf is not certain; compare the facts with the file"),
    )


# Tables, lists and contents


def table(rows, columns=(72, 200, 300)):
    return [
        [line(x, 640 - 16 * number, cell) for x, cell in zip(columns, row, strict=True)]
        for number, row in enumerate(rows)
    ]


ROWS = (("Year", "Boats", "Crew"), ("2021", "14", "52"), ("2022", "19", "71"), ("2023", "23", "88"))


@pytest.mark.parametrize("by_column", [False, True])
def test_the_cells_of_a_row_stay_together(by_column):
    cells = table(ROWS)
    drawn = (
        [row[at] for at in range(3) for row in cells] if by_column else [one for row in cells for one in row]
    )
    assert paragraphs([*body(), *drawn]) == [LEFT_TEXT, *(" ".join(row) for row in ROWS)]


def test_words_of_lines_set_to_both_margins_are_no_cells():
    stretched = ("each evening the keeper", "climbed up the steps", "to light the lamp")
    words = [" -1100 ".join(f"({word})" for word in text.split()).encode() for text in stretched]
    page = [
        b"BT /F1 11 Tf 1 0 0 1 72 %d Tm [%b] TJ ET\n" % (600 - 14 * row, text)
        for row, text in enumerate(words)
    ]
    assert paragraphs([*body(), *page])[1:] == [" ".join(stretched)]


def test_a_list_keeps_its_bullets_and_lines():
    apart = [line(72, 600, "•"), line(90, 600, "The lamp number 0 burned oil")]
    page = [
        *apart,
        line(72, 586, Piece("\uf0b7 The lamp number 1 burned oil", 11)),
        line(72, 572, "• The last lamp"),
    ]
    assert paragraphs([*body(), *page])[1:] == [
        "• The lamp number 0 burned oil",
        "• The lamp number 1 burned oil",
        "• The last lamp",
    ]


def test_lines_of_contents_stay_apart():
    contents = (
        "The tower .................. 12",
        "The lamp . . . . . . . . . . . 31",
        "The keepers ______ 40",
    )
    assert paragraphs([*body(), *lines(72, 600, contents)])[1:] == [
        "The tower … 12",
        "The lamp … 31",
        "The keepers … 40",
    ]


@pytest.mark.parametrize(("x", "step"), [(40, 1), (560, 5), (40, 5)])
def test_line_numbers_next_to_the_text_are_left_out(x, step):
    texts = LEFT + RIGHT
    numbers = [line(x, 700 - 14 * row, str(step * (row + 1))) for row in range(len(texts))]
    assert text_of([*lines(72, 700, texts), *numbers]) == f"{LEFT_TEXT}\n\n{RIGHT_TEXT}"


def test_numbers_of_entries_are_no_line_numbers():
    entries = [
        ("1", "Lisbon is the capital city", "545"),
        ("2", "Porto is the second city", "232"),
        ("3", "Braga has a large cathedral", "193"),
        ("4", "Faro is in the far south", "67"),
    ]
    page = [one for row in table(entries, (50, 90, 400)) for one in row]
    assert paragraphs([*body(), *page])[1:] == [" ".join(entry) for entry in entries]


# Letters


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (("a mass of 6 × 10", Piece("24", 7, 4), " kg"), "6 × 10²⁴ kg"),
        (("a charge of 10", Piece("-19", 8, 3.5), " C"), "10⁻¹⁹ C"),
        (("an area of 32 km", Piece("2", 7, 4), " of sea"), "32 km² of sea"),
        (("the formula E = mc", Piece("2", 7, 4), "."), "E = mc²."),
        (("some CO", Piece("2", 7, -2), " and H", Piece("2", 7, -2), "O"), "CO₂ and H₂O"),
        (("the ion Ca", Piece("2+", 7, 4), " in milk"), "Ca²⁺ in milk"),
        (("a mass of 6 × 10 ", Piece("24", 7, 4), " kg"), "6 × 10²⁴ kg"),
        (("atoms of ", Piece("238", 7, 4), "U decay"), "atoms of ²³⁸U decay"),
        (("they left the city.", Piece("3", 7, 4), " Then"), "the city. Then"),
        (("they left the city", Piece("12", 6, 4), " then"), "the city then"),
        (("they left the city", Piece("[4]", 7, 4), " then"), "the city then"),
        (("they left the city", Piece("*", 7, 4), " then"), "the city then"),
        (("they left the city", Piece("1,2", 7, 4), " then"), "the city then"),
        (("in the 19", Piece("th", 7, 4), " century"), "the 19th century"),
        (("au XIX", Piece("e", 7, 4), " siècle"), "au XIXe siècle"),
        (("about 5", Piece("1", 7, 4), "/", Piece("2", 7, -1), " miles"), "5 1/2 miles"),
    ],
)
def test_raised_figures_are_exponents_or_marks_of_footnotes(pieces, expected):
    assert expected in text_of([*body(), line(72, 600, *pieces)])


def test_a_raised_number_that_begins_a_footnote_is_a_mark_after_a_year_too():
    note = line(72, 60, Piece("1", 6, 4), "See the book of the harbour master.", size=9)
    page = [line(72, 600, "The tower was built in 1871", Piece("1", 7, 4), " on a cliff.")]
    assert paragraphs([*body(), *page, note])[1:] == [
        "The tower was built in 1871 on a cliff.",
        "See the book of the harbour master.",
    ]


def test_exponents_and_marks_of_the_file():
    text = pdf_reader.read((FILES / "sups.pdf").read_bytes()).text
    for part in ("6 × 10²⁴ kg", "10⁻³ m³.", "2.7 × 10⁸ molecules", "H₂SO₄", "πr²", "½ and 1⁄3"):
        assert part in text


@pytest.mark.parametrize("name", ["hyphens_ligatures.pdf", "owner_AES-128.pdf"])
def test_ligatures_and_hyphens_at_the_ends_of_lines(name):
    assert pdf_reader.read((FILES / name).read_bytes()).text == (
        "The first flood of the river Selva came in 1788. It was so powerful that the office of the town"
        " clerk floated away. A well-known painter drew it. The building of the new dam was difficult and"
        " took twenty-two years. Its wall is 41 m high and 1 200 m long. The 1810–1832 accounts show a cost"
        " of 3.5 million escudos. The cooperative of farmers paid half."
    )


def test_ligatures_of_a_font_without_letters_are_letters():
    assert "the first office of the flood ½ m²" in text_of(
        [*body(), line(72, 600, Piece("the ﬁrst oﬃce of the ﬂood ½ m²", 11))]
    )


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("a red-brick house beside the red-", "brick tower"), "the red-brick tower"),
        (("a lighthouse beside the light-", "house keeper"), "the lighthouse keeper"),
        (("an ill-", "fated crew of thirty-", "seven sailors"), "an ill-fated crew of thirty-seven sailors"),
        (("seven-", "teen ships and long-", "er days"), "seventeen ships and longer days"),
        (("die Nord-", "und Südufer"), "die Nord- und Südufer"),
        (("from 1914–", "1918 and after"), "from 1914–1918 and after"),
    ],
)
def test_the_hyphen_at_the_end_of_a_line_stays_between_words(texts, expected):
    assert expected in text_of([*body(), *lines(72, 600, texts)])


def test_text_from_right_to_left_is_read_in_its_order():
    text = pdf_reader.read((FILES / "rtl_visual.pdf").read_bytes()).text
    assert text.startswith("המגדלור של קורבו נבנה בשנת 1871 על צוק בזלת. המגדל גבוה 32 מטרים.")
    assert "تم بناء المنارة في عام 1871 على جرف من البازلت. يبلغ ارتفاع البرج 32 مترا." in text


def test_hebrew_drawn_from_left_to_right_is_read_from_right_to_left():
    words = "המגדל נבנה בשנת 1871 על צוק"
    visual = " ".join(word if word.isdigit() else word[::-1] for word in reversed(words.split()))
    assert words in text_of([*body(), line(150, 600, Piece(visual, 11))])


def test_an_initial_of_many_lines_begins_its_word():
    page = [line(72, 672, "T", size=40), *lines(100, 700, (LEFT[0][1:], *LEFT[1:3])), line(72, 658, LEFT[3])]
    assert text_of(page) == LEFT_TEXT


def test_an_initial_that_is_a_word_stands_apart():
    texts = ("storm in 1911 broke four panes of the", "lantern, and the storm lasted three days.")
    page = [line(72, 686, "A", size=28), *lines(94, 700, texts)]
    assert text_of(page) == f"A {' '.join(texts)}"


def test_a_page_that_is_turned_is_read_along_its_lines():
    page = [line(100 + 14 * row, 60, text, turn="0 1 -1 0") for row, text in enumerate(LEFT)]
    assert text_of(page) == LEFT_TEXT


# Files


@pytest.mark.parametrize("algorithm", ["RC4-40", "RC4-128", "AES-128", "AES-256-R5", "AES-256"])
def test_an_encrypted_pdf_is_read_if_it_opens_without_a_password(algorithm):
    assert pdf_reader.read(encrypted_pdf(LEFT_TEXT, algorithm)).text == LEFT_TEXT
    with pytest.raises(Invalid, match=r"locked\.pdf is encrypted") as refusal:
        pdf_reader.read(encrypted_pdf(LEFT_TEXT, algorithm, "secret"), "locked.pdf")
    assert refusal.value.remedy == "send a copy that opens without a password"


def test_a_pdf_that_is_followed_by_an_archive_is_refused():
    with pytest.raises(Invalid, match=r"leaves\.pdf is an archive as well"):
        pdf_reader.read(plain_pdf(LEFT_TEXT) + zip_archive(), "leaves.pdf")
