"""Messages name the line on which a row begins; if it cannot be found, they name the row."""

from __future__ import annotations

import gzip
import random

import pytest

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import csv_lines, reader
from input_pipelines.prepare.tables.csv_lines import CsvRows
from input_pipelines.prepare.tables.options import CsvOptions

pytestmark = pytest.mark.no_tensorflow


def lines_of(path, rows, csv):
    return [csv_lines.line_of(str(path), row, csv) for row in range(1, rows + 2)]


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        (b"a,b\n1,2\n3,4\n", {}, [2, 3]),
        (b"a,b\r\n1,2\r\n\r\n3,4", {}, [2, 4]),  # An empty line, and no line break at the end.
        (b'a,b\n1,"x\n\ny"\n3,4\n', {}, [2, 5]),
        (b'"a\n",b\n1,2\n', {}, [3]),
        (b'\xef\xbb\xbf"a\n",b\n1,2\n', {}, [3]),
        (b'a,b\n1,5" disk\n3,x"\n5,6\n', {}, [2, 3, 4]),  # Quotes inside fields do not quote.
        (b'a,b\n1,"x""\n"\n3,4\n', {}, [2, 4]),
        (b'a,b\n1,"x"y"\n3,4\n', {}, [2, 3]),
        (b"1,2\n3,4\n", {"columns": ("a", "b")}, [1, 2]),
        (b'# "a comment\na,b\n1,"x\n# y"\n\n#\n3,4\n', {"comment": "#"}, [3, 7]),
        (b'a, b\n1, "x\ny"\n   \n3, 4\n', {"skip_spaces": True}, [2, 5]),
        (b"a;b\n1;'x,\"\n3;4\n", {"delimiter": ";"}, [2, 3]),
    ],
)
def test_lines_by_hand(tmp_path, content, options, expected):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    csv = CsvRows(CsvOptions(**options))
    assert lines_of(path, len(expected), csv) == [*expected, None]
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(content))
    assert lines_of(packed, len(expected), csv) == [*expected, None]
    # pyarrow finds the same number of rows.
    given = {"skip_spaces": False, **options}
    table = reader.open_table([str(path)], csv=CsvOptions(**given))
    assert table.counted[str(path)] == len(expected)


def test_an_empty_line_is_a_row_of_the_only_column(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n\nx\n")
    csv = CsvRows(CsvOptions(), empty_rows=True)
    assert lines_of(tmp_path / "a.csv", 3, csv) == [2, 3, 4, None]
    with pytest.raises(DataError) as error:
        reader.open_table([f"{tmp_path}/a.csv"], dtypes={"a": "int64"})
    assert str(error.value).startswith(f"{tmp_path}/a.csv: line 4: column 'a': got 'x', expected")


@pytest.mark.parametrize("seed", range(8))
def test_lines_of_files_that_are_written_at_random(tmp_path, monkeypatch, seed):
    rng = random.Random(seed)
    monkeypatch.setattr(csv_lines, "_BLOCK", rng.choice([7, 40, 2**20]))
    end = rng.choice(["\n", "\r\n"])
    texts = ["x", '"a,b"', '"say ""hi"""', '"two\nlines"', '"two\r\n\r\nlines"', '""', "", " x ",
             'mid"dle', '"x"tail"', '"\n#"', "1"]  # fmt: skip
    if rng.random() < 0.5:
        texts = ["x", "", "17"]  # Rows of one line each, which are counted by blocks.
    content, expected = "a,b,c" + end, []
    for _ in range(60):
        content += rng.choice(["", "", "", end, '# "comment' + end])
        expected.append(content.count("\n") + 1)
        content += ",".join(["k", *(rng.choice(texts) for _ in range(2))]) + end
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode())
    options = CsvOptions(comment="#")
    assert lines_of(path, 60, CsvRows(options)) == [*expected, None]
    assert reader.open_table([str(path)], csv=options).counted == {str(path): 60}


def test_the_row_is_named_if_the_line_cannot_be_found(tmp_path, monkeypatch):
    path = f"{tmp_path}/a.csv"
    csv, bare = CsvRows(CsvOptions()), CsvRows(CsvOptions(columns=("a", "b")))
    uncounted = " (the header is not counted)"
    assert csv_lines.name(path, 2, csv) == f"{path}: row 2{uncounted}"  # The file was removed.
    assert csv_lines.name(path, 2, bare) == f"{path}: row 2"
    # Editors count carriage returns, but sed and grep do not.
    (tmp_path / "a.csv").write_bytes(b'a,b\n1,"x\ry"\n3,4\n')
    assert csv_lines.name(path, 1, csv) == f"{path}: row 1{uncounted}"
    (tmp_path / "a.csv").write_bytes(b"a,b\r1,2\r3,4\r")
    assert csv_lines.name(path, 1, csv) == f"{path}: row 1{uncounted}"
    # A large file is not read again for a message.
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 2**19)
    assert csv_lines.name(path, 2**19, csv) == f"{path}: line {2**19 + 1}"
    monkeypatch.setattr(csv_lines, "_LONGEST_LOOK", 2**20)
    assert csv_lines.name(path, 1, csv) == f"{path}: line 2"
    assert csv_lines.name(path, 2**19, csv) == f"{path}: row {2**19}{uncounted}"
    # Reading line by line is slower, so fewer bytes are read.
    (tmp_path / "a.csv").write_text("a,b\n" + '1,5" disk\n' * 2**19)
    monkeypatch.setattr(csv_lines, "_LONGEST_LOOK", 2**23)
    assert csv_lines.name(path, 2**19, csv) == f"{path}: row {2**19}{uncounted}"
    monkeypatch.setattr(csv_lines, "_LINE_BY_LINE", 1)
    assert csv_lines.name(path, 2**19, csv) == f"{path}: line {2**19 + 1}"


def test_other_files_have_rows(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"a": 1e39}\n')
    (part,) = reader.open_table([f"{tmp_path}/a.jsonl"]).parts()
    with pytest.raises(DataError) as error:
        list(reader.read(part))
    assert str(error.value).startswith(f"{tmp_path}/a.jsonl: row 2: column 'a': got 1e+39, which")
