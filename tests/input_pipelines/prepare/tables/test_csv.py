"""CSV files are read as Python's csv module reads them; bad files are errors."""

from __future__ import annotations

import csv
import gzip
import io
import random
from collections import Counter

import numpy as np
import pytest

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import csv_files, reader
from input_pipelines.prepare.tables.options import CsvOptions

pytestmark = pytest.mark.no_tensorflow

UTF16 = (
    "starts with b'\\xff\\xfe', so its text is UTF-16, but UTF-8 is expected. Write the file again "
    "in UTF-8; in Excel, save it as CSV UTF-8"
)


def write(path, content):
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def load(paths, dtypes=None, rounded=None, **options):
    """The columns of some files, their rows, and the notes."""
    table = reader.open_table(paths, csv=CsvOptions(**options), dtypes=dtypes)
    rows = []
    for part in table.parts():
        for found in reader.read(part, rounded):
            rows += found.batch.to_pylist()
    return {column.name: column.dtype for column in table.columns}, rows, table.notes


def test_types_missing_values_and_quotes(tmp_path):
    path = write(
        tmp_path / "a.csv",
        'id,price,name,zip,plus,flag,never\n'
        '1,1,"a, ""b""",00123,+49,true,\n'
        '2,1.5,"x\ny",77516,+1,false,\n'
        "\n"
        '-3,,"",1,2,true,\n'
        ",2e3,?,2,3,?,",
    )  # fmt: skip
    types, rows, notes = load([path], missing=("?",))
    assert types == {
        "id": "int64", "price": "float32", "name": "string", "zip": "string", "plus": "string",
        "flag": "string", "never": None,
    }  # fmt: skip
    assert [row["id"] for row in rows] == [1, 2, -3, None]
    assert [row["price"] for row in rows] == [1.0, 1.5, None, 2000.0]
    assert [row["name"] for row in rows] == [b'a, "b"', b"x\ny", b"", None]
    assert [row["zip"] for row in rows] == [b"00123", b"77516", b"1", b"2"]
    assert [row["plus"] for row in rows] == [b"+49", b"+1", b"2", b"3"]
    assert [row["flag"] for row in rows] == [b"true", b"false", b"true", None]
    assert [row["never"] for row in rows] == [None] * 4
    assert notes == [
        f"name: 1 field with line breaks, the first one in {path}: line 3",
        "zip: text, because 1 of 4 numbers begin with a zero that would be lost, the first one "
        f"'00123' in {path}: line 2",
        "plus: text, because 2 of 4 values are not numbers, the first one '+49' in "
        f"{path}: line 2; if it means a missing value, name it with --csv_missing",
    ]


def test_types_are_of_the_whole_files_and_not_of_the_first_block(tmp_path):
    rows = 600_000  # Two blocks of 4 MB.
    lines = "".join(f"{i},{i},{i}\n" for i in range(rows))
    one = write(tmp_path / "1.csv", "a,b,c\n" + lines + "1.5,x,1\n")
    two = write(tmp_path / "2.csv", "c,b,a\n-1,1,1\n")
    table = reader.open_table([one, two])
    assert [(c.name, c.dtype) for c in table.columns] == [
        ("a", "float32"), ("b", "string"), ("c", "int64"),
    ]  # fmt: skip
    assert table.notes == [
        f"a: float32, because 1 of 600,002 values are not integers, the first one '1.5' in {one}: "
        "line 600002",
        f"b: text, because 1 of 600,002 values are not numbers, the first one 'x' in {one}: line "
        "600002; if it means a missing value, name it with --csv_missing",
    ]
    sizes, total = Counter(), 0
    for part in table.parts():
        for found in reader.read(part):
            assert found.batch.schema.names == ["a", "b", "c"]
            sizes[found.batch.num_rows] += 1
            assert found.where(0) == f"{part.path}: line {found.first + 2}"
            total += int(np.asarray(found.batch.column(2)).sum())
    assert sizes == {8192: 73, 600_001 - 73 * 8192: 1, 1: 1}
    assert total == rows * (rows - 1) // 2 + 1 - 1


def test_integers_of_more_than_64_bits_stay_text(tmp_path):
    path = write(tmp_path / "a.csv", "a,b\n9223372036854775807,9223372036854775808\n-5,12\n")
    types, rows, notes = load([path])
    assert types == {"a": "int64", "b": "string"}
    assert rows[0] == {"a": 2**63 - 1, "b": b"9223372036854775808"}
    assert notes == [
        "b: text, because 1 of 2 integers do not fit into 64 bits, the first one "
        f"'9223372036854775808' in {path}: line 2"
    ]


def test_minus_zero_is_a_number(tmp_path):
    """As programs write a small negative number that they round."""
    path = write(tmp_path / "a.csv", "x,y\n1.5,1\n-0,-0\n2.25,3\n")
    types, rows, notes = load([path])
    assert types == {"x": "float32", "y": "float32"} and notes == []
    assert [row["x"] for row in rows] == [1.5, 0.0, 2.25]
    assert np.signbit(rows[1]["x"])


def test_a_note_tells_of_line_breaks_because_two_stray_quotes_make_them(tmp_path):
    one = write(tmp_path / "1.csv", 'a,b\n1,"x\n2,y"\n3,"x\ny"\n')
    two = write(tmp_path / "2.csv", 'a,b\n4,"\n"\n')
    _, rows, notes = load([one, two])
    assert [row["b"] for row in rows] == [b"x\n2,y", b"x\ny", b"\n"]
    assert notes == [f"b: 3 fields with line breaks, the first one in {one}: line 2"]


@pytest.mark.parametrize(("sign", "shown"), [(";", "';'"), ("\t", "'\\t'"), ("|", "'|'")])
def test_another_delimiter_is_asked_for(tmp_path, sign, shown):
    path = write(tmp_path / "a.csv", f"a{sign}b\n1{sign}2\n")
    with pytest.raises(DataError) as error:
        load([path])
    assert str(error.value) == (
        f"{path}: its only column is named {f'a{sign}b'!r}. If {shown} separates the fields, "
        "pass it as --csv_delimiter; otherwise pass the right delimiter"
    )
    assert load([path], delimiter=sign)[1] == [{"a": 1, "b": 2}]
    assert load([path], delimiter=",")[1] == [{f"a{sign}b": f"1{sign}2".encode()}]


def test_not_finite_numbers_are_told(tmp_path):
    path = write(tmp_path / "a.csv", "a,b\n1,NaN\n-Inf,nan\n")
    types, rows, notes = load([path])
    assert types == {"a": "float32", "b": "string"}  # Nothing shows that b has numbers.
    assert rows[1] == {"a": -np.inf, "b": b"nan"}
    assert notes == [
        f"a: float32; 1 of 2 values are not finite, the first one '-Inf' in {path}: line 3; if it "
        "means a missing value, name it with --csv_missing"
    ]


def test_digits_that_float32_does_not_keep_are_counted(tmp_path):
    path = write(tmp_path / "a.csv", "a\n0.1\n16777217\n0.123456789\n1e-46\n3.25\n1234567e10\n")
    rounded = Counter()
    _, rows, _ = load([path], rounded=rounded)
    assert [row["a"] for row in rows[:2]] == [float(np.float32(0.1)), 16777216.0]
    assert rounded == {("a", "digits"): 2, ("a", "zero"): 1}
    assert reader.rounding_notes(rounded) == [
        "a: 2 values with more than 7 digits, rounded to a float32",
        "a: 1 value too close to 0 for a float32, stored as 0",
    ]


@pytest.mark.parametrize("gz", ["", ".gz"])
def test_the_same_as_pythons_reader(tmp_path, gz):
    rng = random.Random(3)
    texts = ["x", "a,b", 'say "hi"', "two\nlines", "two\r\nlines", "", " x ", "ß", "#1", "1\n#2"]
    rows = [["k"] + [rng.choice(texts) for _ in range(3)] for _ in range(2000)]
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows(
        [["k", "a", "b", "c"], *rows]
    )
    path = write(tmp_path / f"a.csv{gz}", "\ufeff" + file.getvalue())
    expected = [{n: v.encode() for n, v in zip("kabc", row)} for row in rows]
    assert load([path])[1] == expected
    # The same with the code that removes comments and spaces, which must not change quotes.
    assert load([path], comment="#", skip_spaces=True)[1] == expected


def test_comments_spaces_and_other_delimiters(tmp_path):
    path = write(
        tmp_path / "a.csv", '# 1 "comment"\na, b\n1,  "x, # y\n# z"\n#2, w\n2, it\'s "so"\n'
    )
    types, rows, _ = load([path], comment="#", skip_spaces=True)
    assert types == {"a": "int64", "b": "string"}
    assert rows == [{"a": 1, "b": b"x, # y\n# z"}, {"a": 2, "b": b'it\'s "so"'}]
    expected = [{"a": 1, "b": b"x,y"}]
    assert load([write(tmp_path / "b.csv", "a;b\n1;x,y\n")], delimiter=";")[1] == expected
    assert load([write(tmp_path / "c.tsv", "a\tb\n1\tx,y\n")])[1] == expected
    path = write(tmp_path / "d.csv", "1\tx,y\n")
    assert load([path], delimiter="\\t", columns=("a", "b"))[1] == expected


def test_spaces_after_every_comma_are_ignored_with_a_note(tmp_path):
    lines = 'x, y, word, n\n1, 5, "a, b", 3\n2, ?, c,\n4,  -7, "d\n ,,e", \n'
    path = write(tmp_path / "a.csv", lines)
    types, rows, notes = load([path], missing=("?",))
    assert types == {"x": "int64", "y": "int64", "word": "string", "n": "int64"}
    assert rows == [
        {"x": 1, "y": 5, "word": b"a, b", "n": 3},
        {"x": 2, "y": None, "word": b"c", "n": None},
        {"x": 4, "y": -7, "word": b"d\n ,,e", "n": None},
    ]
    told = (
        "begins with a space, so spaces at the start of fields are ignored, which a spec must say "
        "(tables: {csv_skip_spaces: true}); use --nocsv_skip_spaces to keep them"
    )
    assert notes == [
        f"{path}: every value of 'y', 'word', 'n' {told}",
        f"word: 1 field with line breaks, the first one in {path}: line 4",
    ]
    path = write(tmp_path / "b.csv", "1, 5\n")
    types, _, notes = load([path], columns=("x", "y"))
    assert types == {"x": "int64", "y": "int64"}
    assert notes == [f"{path}: every value of 'y' {told}"]
    types, rows, notes = load([path], columns=("x", "y"), skip_spaces=False)
    assert types == {"x": "int64", "y": "string"} and rows == [{"x": 1, "y": b" 5"}]
    assert notes == [
        "y: text, because 1 of 1 values have a space before a number, the first one ' 5' in "
        f"{path}: line 1; use --csv_skip_spaces to ignore spaces at the start of fields"
    ]


def test_with_a_spec_no_file_decides_whether_spaces_count(tmp_path):
    """Otherwise ' Alien' of a file of many rows is 'Alien' in a file of one row."""
    types = {"n": "int64", "film": "string"}
    mixed = write(tmp_path / "mixed.csv", "n,film\n1, Alien\n2,Heat\n")
    assert load([mixed], types)[1] == [{"n": 1, "film": b" Alien"}, {"n": 2, "film": b"Heat"}]
    one = write(tmp_path / "one.csv", "n,film\n1, Alien\n")
    with pytest.raises(DataError) as error:
        load([mixed, one], types)
    assert str(error.value) == (
        f"{one}: every value of 'film' begins with a space, and the spec does not say whether "
        "spaces at the start of fields count. Training and predictions must read them in the same "
        "way, so add this to the spec, with false to keep the spaces:\n"
        "tables:\n  csv_skip_spaces: true\n"
        "For an export, which keeps its spec, pass --csv_skip_spaces or --nocsv_skip_spaces, as "
        "its training data were converted"
    )
    for skip, word in ((True, b"Alien"), (False, b" Alien")):
        assert load([one], types, skip_spaces=skip)[1] == [{"n": 1, "film": word}]
        assert load([mixed], types, skip_spaces=skip)[1][0] == {"n": 1, "film": word}


def test_a_signature_comes_before_comments_spaces_and_quotes(tmp_path):
    for content, options in (
        ("# export,of 2026\na,b\n1,2\n", {"comment": "#"}),
        ("#\na,b\n1,2\n", {"comment": "#", "skip_spaces": True}),
        (' "a", b\n1, 2\n', {"skip_spaces": True}),
        ('"a","b"\n1,2\n', {"skip_spaces": True}),
    ):
        path = write(tmp_path / "a.csv", "\ufeff" + content)
        assert load([path], **options)[:2] == ({"a": "int64", "b": "int64"}, [{"a": 1, "b": 2}])
    path = write(tmp_path / "a.csv", "\ufeff")
    with pytest.raises(DataError, match="is empty"):
        load([path])


def test_quoted_numbers_that_are_missing(tmp_path):
    path = write(
        tmp_path / "a.csv",
        '"n","x","word","l"\n"1","0.5","NA","1|2"\n"","NA","",""\n"3","","a","NA"\n',
    )
    types, rows, notes = load([path], missing=("NA",), list_separator="|")
    assert types == {"n": "int64", "x": "float32", "word": "string", "l": "int64"}
    assert rows == [
        {"n": 1, "x": 0.5, "word": b"NA", "l": [1, 2]},
        {"n": None, "x": None, "word": b"", "l": []},
        {"n": 3, "x": None, "word": b"a", "l": None},
    ]
    told = "without a number, the first one"
    assert notes == [
        f"n: missing values: 1 quoted field {told} '' in {path}: line 3",
        f"x: missing values: 2 quoted fields {told} '' in {path}: line 4",
        f"l: missing values: 1 quoted field {told} 'NA' in {path}: line 4",
    ]
    # Without numbers, it is text; and what else is text is named first.
    path = write(tmp_path / "b.csv", '"a","b"\n"",""\n"","1"\n"","x"\n"","2"\n"","3"\n')
    types, rows, notes = load([path])
    assert types == {"a": "string", "b": "string"} and rows[0] == {"a": b"", "b": b""}
    assert notes == [
        "b: text, because 2 of 5 values are not numbers, the first one 'x' in "
        f"{path}: line 4; if it means a missing value, name it with --csv_missing"
    ]
    assert load([path], missing=("x",))[0] == {"a": "string", "b": "int64"}
    # A column that the spec declares as numbers.
    path = write(tmp_path / "c.csv", '"a"\n""\n"NA"\n"7"\n')
    assert load([path], {"a": "float32"}, missing=("NA",))[1] == [{"a": None}] * 2 + [{"a": 7.0}]


def test_decimal_commas_are_text_with_a_note(tmp_path):
    path = write(tmp_path / "a.csv", '"x","y"\n"3,48","a"\n"-0,5","b"\n"2","c"\n')
    types, rows, notes = load([path])
    assert types == {"x": "string", "y": "string"} and rows[0]["x"] == b"3,48"
    assert notes == [
        f"x: text, such as '3,48' in {path}: line 2; if its comma is a decimal point, write the "
        "numbers with points; if it separates thousands, pass --csv_thousands"
    ]


@pytest.mark.parametrize(("text", "options", "is_number"), [
    ("kg;y\n4,203;1\n6,255;0\n", {"delimiter": ";"}, False),  # European.
    ('kg,cm\n"4,203","0,006"\n"6,255","1,5"\n', {}, False),  # cm cannot have thousands.
    ('kg,cm\n"4,203",0.006\n"6,255",1.5\n', {}, True),
    ('kg,cm\n"4,203",x\n"6,255",y\n', {}, True),
])  # fmt: skip
def test_commas_that_may_be_decimal_points_separate_no_thousands(
    tmp_path, text, options, is_number
):
    types, _, _ = load([write(tmp_path / "a.csv", text)], **options)
    assert types["kg"] == ("int64" if is_number else "string")


@pytest.mark.parametrize("line", ["1;72,4;4", "14,168;2,542;0"])
def test_an_error_names_the_delimiter_that_may_be_meant(tmp_path, line):
    path = write(tmp_path / "a.csv", f"id\n{line}\n")
    with pytest.raises(DataError, match="If ';' separates the fields, pass it as --csv_delimiter"):
        load([path])


def test_spaces_before_some_values_are_kept_with_a_note(tmp_path):
    path = write(tmp_path / "a.csv", "n,word\n  5, a\n 15,b\n115, c\n")
    types, rows, notes = load([path])
    assert types == {"n": "string", "word": "string"}
    assert [row["word"] for row in rows] == [b" a", b"b", b" c"]
    assert notes == [
        "n: text, because 2 of 3 values have a space before a number, the first one '  5' in "
        f"{path}: line 2; use --csv_skip_spaces to ignore spaces at the start of fields"
    ]
    with pytest.raises(DataError) as error:
        load([path], {"n": "int64"})
    assert str(error.value) == (
        f"{path}: line 2: column 'n': got '  5', expected int64, as the spec says; "
        "use --csv_skip_spaces to ignore spaces at the start of fields"
    )
    assert load([path], {"n": "int64"}, skip_spaces=True)[0]["n"] == "int64"
    path = write(tmp_path / "b.csv", 'n,word\n1, "a, b"\n2,c\n')
    with pytest.raises(DataError) as error:
        load([path])
    assert str(error.value) == (
        f"{path}: line 2: has 3 fields, expected 2: '1, \"a, b\"'. A quote after a space does "
        "not start a quoted field. Use --csv_skip_spaces to ignore such spaces"
    )


@pytest.mark.parametrize("words, told", [(1, True), (2, True), (3, True), (4, False)])
def test_a_column_of_which_half_is_no_number_is_told(tmp_path, words, told):
    rows = ["x"] * words + ["1", "2.5", "3"]
    path = write(tmp_path / "a.csv", "n,m\n" + "".join(f"{row},0\n" for row in rows))
    types, _, notes = load([path])
    assert types["n"] == "string"
    expected = (
        f"n: text, because {words} of {words + 3} values are not numbers, the first one 'x' in "
        f"{path}: line 2; if it means a missing value, name it with --csv_missing"
    )
    assert notes == ([expected] if told else [])


def test_words_before_the_numbers_hide_none(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "_BLOCK", 64)
    path = write(tmp_path / "a.csv", "n,m\n" + "x,0\n" * 40 + "7,0\n" * 80)
    assert load([path])[2] == [
        f"n: text, because 40 of 120 values are not numbers, the first one 'x' in {path}: line 2; "
        "if it means a missing value, name it with --csv_missing"
    ]


def test_an_empty_line_is_a_missing_value_of_the_only_column(tmp_path):
    assert load([write(tmp_path / "a.csv", "a\n1\n\n2")])[1] == [{"a": 1}, {"a": None}, {"a": 2}]
    assert load([write(tmp_path / "b.csv", "a,b\n")])[1] == []


def test_an_empty_line_before_the_name_of_the_only_column(tmp_path):
    path = write(tmp_path / "a.csv", "\nname\nann\n")
    with pytest.raises(DataError) as error:
        load([path])
    assert str(error.value) == (
        f"{path}: its first line is empty, but the name of its only column is expected there: in a "
        "file with one column, an empty line is a row. Remove the line"
    )
    path = write(tmp_path / "c.csv", "name,age\nann,3\n")
    with pytest.raises(DataError) as error:
        list(csv_files.batches(path, CsvOptions(), ("name", "city")))
    assert str(error.value) == (
        f"{path}: its columns are name, age, expected name, city. It was changed while it was "
        "read. Start again when it is complete"
    )
    # Otherwise, an empty line is ignored.
    path = write(tmp_path / "b.csv", "\nname,age\n\nann,3\n")
    assert load([path])[1] == [{"name": b"ann", "age": 3}]


def test_types_that_a_spec_says(tmp_path):
    path = write(tmp_path / "a.csv", "zip,price,n\n12,3,\n7,4,x\n")
    types, rows, _ = load([path], {"zip": "string", "price": "float32", "other": "int64"})
    assert types == {"zip": "string", "price": "float32", "n": "string"}
    assert rows[0] == {"zip": b"12", "price": 3.0, "n": None}
    with pytest.raises(DataError) as error:
        load([path], {"n": "int64"})
    assert str(error.value) == (
        f"{path}: line 3: column 'n': got 'x', expected int64, as the spec says; correct the spec, "
        "or name the values that mean missing with --csv_missing"
    )
    # The spec of an export cannot be corrected.
    with pytest.raises(DataError, match="as the spec says; correct the table, or name the values"):
        reader.open_table([path], dtypes={"n": "int64"}, correct="correct the table")
    # A column with only empty fields has the type in the spec.
    assert load([write(tmp_path / "b.csv", "n,m\n,1\n")], {"n": "int64"})[0]["n"] == "int64"


@pytest.mark.parametrize(
    "content, options, message",
    [
        ("a,b\n1,2\n3\n", {}, "line 3: has 1 fields, expected 2: '3'"),
        ('a,b\n1,"x\ny"\n\n1,2,3\n', {}, "line 5: has 3 fields, expected 2: '1,2,3'"),
        ("1,2,3\n1,2\n", {"columns": ("a", "b")}, "line 1: has 3 fields, expected 2: '1,2,3'"),
        (b"a,b\n1,2\n\xff,3,4\n", {}, "line 3: has 3 fields, expected 2: '\ufffd,3,4'"),
        ("a,b\n1," + "x" * 98 + ",3\n", {},
         f"line 2: has 3 fields, expected 2: '1,{'x' * 94} ...'"),
        ("", {}, "is empty; a CSV file starts with a line of column names"),
        ("", {"columns": ("a",)},
         "is empty; a CSV file starts with a line of column names, or with a row if you pass "
         "--csv_columns"),
        ("a,b,a\n1,2,3\n", {},
         "two columns are named 'a'. Rename one of them. If the file has no line of column names, "
         "name the columns with --csv_columns"),
        (b"a,b\n1,x\n2,\xe9t\xe9\n", {},
         r"line 3: column 'b' is not UTF-8: b'\xe9t\xe9'. Write the file again in UTF-8"),
        (b"\xff,b\n1,x\n", {},
         "the names of its columns are not UTF-8: b'\\xff'. Write the file again in UTF-8"),
        (b"\xff\xfe" + "a,b\n1,x\n".encode("utf-16-le"), {}, UTF16),
        (b"\xff\xfe\x00a", {}, UTF16),
        ('a,"b\n1,2\n', {},
         "line 1: has a quote that is never closed. Close it, or remove it"),
        ('\n# "\na, "b\n1,2\n', {"comment": "#", "skip_spaces": True},
         "line 3: has a quote that is never closed. Close it, or remove it"),
        ("#a\n\n", {"comment": "#"},
         "has only empty lines and comments; a CSV file starts with a line of column names"),
        ("a,b", {}, "has only b'a,b', without a line break; a CSV file starts with a line of "
         "column names. Write the whole file again"),
        ('a,b\n1,x\n2,"y\n3,z\n', {},
         "line 3: its last field starts with a quote that is never closed"),
        ('a,b\n1,x\n2,"y', {}, "line 3: its last field starts with a quote that is never closed"),
        ("a,b\n1,1e39\n2,1.5\n", {},
         "line 2: column 'b': got 1e39, which does not fit into a float32. Scale the column down, "
         "or store it as text"),
        ("a\n1.5\n-1e400\n", {},
         "line 3: column 'a': got -1e400, which does not fit into a float32. Scale the column "
         "down, or store it as text"),
    ],
)  # fmt: skip
def test_bad_files(tmp_path, content, options, message):
    path = write(tmp_path / "a.csv", content)
    with pytest.raises(DataError) as error:
        load([path], **options)
    assert str(error.value) == f"{path}: {message}"


@pytest.mark.parametrize(
    "field, closed",
    [
        ('"', False), ('"\n', False), ('""', True), ('""\n\n', True), ('"\n"', True),
        ('"\n"\n', True), ('"x', False), ('"x"', True), ('"x\ny', False), ('"x\ny"', True),
        ('"x\ny" ', True), ('"x"""', True), ('"x""', False), ('"x""\r\n', False), ("x", True),
        ('x"', True), ('"' + "y\n" * 99999, False), ('"' + "y\n" * 99999 + '"\n', True),
    ],
    ids=str.split("a b c d e f g h i j k l m n o p long long_closed"),
)  # fmt: skip
def test_a_quote_that_is_never_closed(tmp_path, field, closed):
    path = write(tmp_path / "a.csv", f'a,b\n"1","z"\n3,{field}')
    if closed:
        (_, row) = load([path])[1]
        limit = csv.field_size_limit(2**20)
        (_, _, expected) = filter(
            None, csv.reader(io.StringIO(f'a,b\n"1","z"\n3,{field}', newline=""))
        )
        csv.field_size_limit(limit)
        assert [str(row["a"]), row["b"].decode()] == expected
    else:
        with pytest.raises(DataError, match=r"line 3: its last field starts with a quote that is "):
            load([path])


def test_a_row_that_is_longer_than_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "_BLOCK", 2**20)
    path = write(tmp_path / "a.csv", 'a,b\n1,"' + "x\n" * 2**20)
    with pytest.raises(DataError) as error:
        load([path])
    assert (
        str(error.value)
        == f"{path}: a row is longer than 1 MB. Check whether a quote is not closed"
    )


def test_a_packed_file_that_is_cut(tmp_path):
    path = write(tmp_path / "a.csv.gz", "a,b\n" + "1,2\n" * 1000)
    whole = (tmp_path / "a.csv.gz").read_bytes()
    (tmp_path / "a.csv.gz").write_bytes(whole[:-9])
    with pytest.raises(DataError, match=r"a\.csv\.gz: Truncated compressed stream$"):
        load([path])


def test_files_with_other_columns(tmp_path):
    one = write(tmp_path / "1.csv", "a,b\n1,2\n")
    two = write(tmp_path / "2.csv", "b,c\n1,2\n")
    with pytest.raises(DataError) as error:
        load([one, two])
    assert str(error.value) == (
        f"{two} lacks 'a' and has 'c', unlike {one}; all files of a table must have the same "
        "columns"
    )


def test_a_file_that_changes_between_its_two_readings(tmp_path):
    path = write(tmp_path / "a.csv", "a,b\n1,2\n")
    (part,) = reader.open_table([path]).parts()
    write(tmp_path / "a.csv", "a,b\n1,x\n")
    with pytest.raises(DataError) as error:
        list(reader.read(part))
    assert str(error.value) == (
        f"{path}: line 2: column 'b': got x, which is not an int64. Store it as text"
    )


def test_markers_of_missing_values_are_found(tmp_path):
    """Without a spec and --csv_missing, words that programs write for a missing number are missing.

    A column with another word stays text, and so does one with more markers than numbers.
    """
    path = write(
        tmp_path / "a.csv", "n,word,few,total\n1, ,?,7\n ,a,?,1.5\nNA,b,3,N/A\n4,NA,?,9\n5,c,?,0\n"
    )
    types, rows, notes = load([path])
    assert types == {"n": "int64", "word": "string", "few": "string", "total": "float32"}
    assert [row["n"] for row in rows] == [1, None, None, 4, 5]
    assert [row["total"] for row in rows] == [7.0, 1.5, None, 9.0, 0.0]
    assert [row["word"] for row in rows] == [None, b"a", b"b", None, b"c"]
    assert notes[0] == (
        "' ', 'N/A', 'NA' mean a missing value, also in the text of word, because all other values "
        "of n, total are numbers; to read all of these as text, give only words that mean a "
        "missing value, such as --csv_missing=NULL"
    )
    assert load([path], missing=("no",))[0]["n"] == "string"
    assert load([path], dtypes={"n": "string"})[0]["n"] == "string"
