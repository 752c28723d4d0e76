"""Parquet files: each Arrow type is read as documented or refused, and files must fit."""

from __future__ import annotations

import datetime
import decimal
import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from input_pipelines.errors import DataError
from input_pipelines.prepare.tables import reader

pytestmark = pytest.mark.no_tensorflow

# The smallest integer that no float64 is equal to.
LARGE = 2**53 + 1

NOON = datetime.datetime(2011, 1, 1, 12)


def write(path, columns, **options):
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    pq.write_table(table, path, **options)
    return str(path)


def load(*paths, rounded=None):
    table = reader.open_table(paths)
    rows = [
        row
        for part in table.parts()
        for found in reader.read(part, rounded)
        for row in found.batch.to_pylist()
    ]
    return table, rows


@pytest.mark.parametrize(
    "values, dtype, expected",
    [
        ([True, None, False], pa.bool_(), ("int64", [1, None, 0])),
        ([1, None, 255], pa.uint8(), ("int64", [1, None, 255])),
        ([1, None, 2**63 - 1], pa.uint64(), ("int64", [1, None, 2**63 - 1])),
        ([1.5, None, float("inf")], pa.float64(), ("float32", [1.5, None, float("inf")])),
        ([np.float16(1.5), None, np.float16(-2)], pa.float16(),
         ("float32", [1.5, None, -2.0])),
        ([decimal.Decimal("1.50"), None], pa.decimal128(5, 2), ("float32", [1.5, None])),
        ([LARGE, None, -LARGE], pa.decimal128(38, 0), ("int64", [LARGE, None, -LARGE])),
        ([2**63 - 1, None, -(2**63)], pa.decimal256(70, 0),
         ("int64", [2**63 - 1, None, -(2**63)])),
        ([[LARGE], [], None], pa.list_(pa.decimal128(20, 0)), ("int64", [[LARGE], [], None])),
        (["a", None, ""], pa.large_string(), ("string", [b"a", None, b""])),
        ([b"\xff", None], pa.binary(), ("string", [b"\xff", None])),
        ([b"ab", None], pa.binary(2), ("string", [b"ab", None])),
        (["a", None, "a"], pa.dictionary(pa.int8(), pa.string()), ("string", [b"a", None, b"a"])),
        ([NOON.date(), None], pa.date32(), ("string", [b"2011-01-01", None])),
        ([NOON, None], pa.timestamp("ms"), ("string", [b"2011-01-01 12:00:00.000000", None])),
        ([NOON, None], pa.timestamp("us", "UTC"),
         ("string", [b"2011-01-01 12:00:00.000000Z", None])),
        ([NOON.time(), None], pa.time32("s"), ("string", [b"12:00:00.000000", None])),
        ([None, None], pa.null(), (None, [None, None])),
        ([[1, 2], [], None], pa.list_(pa.int32()), ("int64", [[1, 2], [], None])),
        ([[1.5], None], pa.large_list(pa.float32()), ("float32", [[1.5], None])),
        ([[1, 2], [3, 4]], pa.list_(pa.int8(), 2), ("int64", [[1, 2], [3, 4]])),
        ([["a"], None], pa.list_(pa.dictionary(pa.int8(), pa.string())),
         ("string", [[b"a"], None])),
        ([[True]], pa.list_(pa.bool_()), ("int64", [[1]])),
    ],
)  # fmt: skip
def test_types(tmp_path, values, dtype, expected):
    path = write(tmp_path / "a.parquet", {"x": pa.array(values, dtype)})
    table, rows = load(path)
    (column,) = table.columns
    assert (column.dtype, [row["x"] for row in rows]) == expected
    assert column.multi == any(isinstance(value, list) for value in values)


# Every Arrow type that stores the midnight of 2011-01-01, UTC, with the form of its text. A zone
# says how a time is shown, and does not change the time.
MIDNIGHT = datetime.datetime(2011, 1, 1, tzinfo=datetime.timezone.utc)
FORMS = {
    "2011-01-01": [pa.date32(), pa.date64(), pa.dictionary(pa.int8(), pa.date32())],
    "2011-01-01 00:00:00.000000": [
        *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
        pa.dictionary(pa.int8(), pa.timestamp("ms")),
    ],
    "2011-01-01 00:00:00.000000Z": [
        pa.timestamp(unit, zone)
        for unit in ("ms", "us", "ns")
        for zone in ("UTC", "Asia/Tokyo", "-05:30", "America/New_York")
    ],
    "00:00:00.000000": [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
}
CALLED = ("dates", "times without a zone", "times with a zone", "times of day")


def array_of(dtype, lists):
    inner = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    at = MIDNIGHT
    if pa.types.is_date(inner):
        at = MIDNIGHT.date()
    elif pa.types.is_time(inner):
        at = MIDNIGHT.time()
    elif inner.tz is None:
        at = MIDNIGHT.replace(tzinfo=None)
    array = pa.array([at, None], inner)
    array = array.dictionary_encode() if pa.types.is_dictionary(dtype) else array
    return pa.ListArray.from_arrays([0, 1], array[:1]) if lists else array


@pytest.mark.parametrize("lists", [False, True])
def test_one_value_has_one_text_whatever_the_type_of_its_file(tmp_path, lists):
    paths = {
        dtype: write(tmp_path / f"{i}.parquet", {"t": array_of(dtype, lists)})
        for i, dtype in enumerate(dtype for dtypes in FORMS.values() for dtype in dtypes)
    }
    for text, dtypes in FORMS.items():
        _, rows = load(*(paths[dtype] for dtype in dtypes))
        expected = [[text.encode()]] if lists else [text.encode(), None]
        assert [row["t"] for row in rows] == expected * len(dtypes)
    # Other forms and texts cannot be compared with each other.
    texts = ["2011-01-01", None]
    firsts = {called: paths[dtypes[0]] for called, dtypes in zip(CALLED, FORMS.values())}
    firsts["string"] = write(tmp_path / "x.parquet", {"t": [texts[:1]] if lists else texts})
    for (one, path), (other, second) in itertools.permutations(firsts.items(), 2):
        with pytest.raises(DataError) as error:
            load(path, second)
        kind = "lists of " if lists else ""
        assert str(error.value) == (
            f"column 't' is {kind}{one} in {path} and {kind}{other} in {second}; a feature must "
            "have one type"
        )


@pytest.mark.parametrize(
    ("number", "dtype"),
    [
        (2**63 - 1, pa.timestamp("us")), (-(2**63), pa.timestamp("us", "UTC")),
        (253_402_300_800_000, pa.timestamp("ms")), (-62_135_596_800_001, pa.timestamp("ms")),
        (2_932_897, pa.date32()), (-719_163, pa.date32()),
    ],
)  # fmt: skip
def test_times_outside_the_years_1_to_9999_have_no_text(tmp_path, number, dtype):
    stored = pa.int32() if pa.types.is_date32(dtype) else pa.int64()
    column = pa.array([None, 0, number], stored).cast(dtype)
    path = write(tmp_path / "a.parquet", {"t": column})
    with pytest.raises(DataError) as error:
        load(path)
    assert str(error.value).endswith(
        f"column 't': expected a time in the years 1 to 9999, got {number} of the type {dtype}. "
        "Write null for a time that is not known"
    )
    first_and_last = [-62_135_596_800, 253_402_300_799]
    path = write(tmp_path / "b.parquet", {"t": pa.array(first_and_last, pa.timestamp("s"))})
    _, rows = load(path)
    assert [row["t"] for row in rows] == [
        b"0001-01-01 00:00:00.000000", b"9999-12-31 23:59:59.000000",
    ]  # fmt: skip


def test_nanoseconds_are_kept(tmp_path):
    """Texts of int64 nanoseconds, worked out with Python's integers."""
    numbers = [0, 1, -1, 999, 1000, -1000, 1_769_817_600_123_456_789, 1_769_817_600_123_456_000]
    column = pa.array([*numbers, None], pa.timestamp("ns"))
    _, rows = load(write(tmp_path / "a.parquet", {"t": column}))

    def expected(number):
        seconds, rest = divmod(number, 10**9)
        at = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
        digits = f"{rest:09}" if rest % 1000 else f"{rest // 1000:06}"
        return f"{at:%Y-%m-%d %H:%M:%S}.{digits}".encode()

    assert [row["t"] for row in rows] == [*map(expected, numbers), None]


@pytest.mark.parametrize(
    "dtype, note",
    [
        (pa.date32(), "date32[day], read as text; parts of it (hour, day of the week, age) would "
         "be better features"),
        (pa.decimal128(5, 2), "decimal128(5, 2), read as float32"),
        (pa.decimal128(5, 0), None),
        (pa.int64(), None),
    ],
)  # fmt: skip
def test_a_note_tells_of_types_that_are_converted(tmp_path, dtype, note):
    table, _ = load(write(tmp_path / "a.parquet", {"x": pa.array([None], dtype)}))
    assert table.notes == ([f"x: {note}"] if note else [])


@pytest.mark.parametrize(
    "values, dtype, message",
    [
        ([{"a": 1}], None, "column 'x' is struct<a: int64>, which a feature cannot store. Write "
         "its parts as separate columns, or leave it out of the file"),
        ([[[1]]], pa.list_(pa.list_(pa.int64())), "column 'x' is list<element: list<element: "
         "int64>>, which a feature cannot store. Write it as a flat list and the lengths of its "
         "lists as another column (row_lengths in a spec), or leave it out of the file"),
        ([1], pa.duration("s"), "column 'x' is duration[s], which a feature cannot store. Write "
         "its parts as separate columns, or leave it out of the file"),
        ([1, 2**63], pa.uint64(), "row 2: column 'x': got 9223372036854775808, which is "
         "too large for int64. Store it as text"),
        ([1, None, 2**63], pa.decimal128(38, 0), "row 3: column 'x': got 9223372036854775808, "
         "which is too large for int64. Store it as text"),
        ([1.0, -1e39], None, "row 2: column 'x': got -1e+39, which does not fit into a float32. "
         "Scale the column down, or store it as text"),
        ([[1], [2, None]], None, "row 2: column 'x': a list has a null, which a record cannot "
         "store. Remove it from the list, or write a value for it"),
    ],
)  # fmt: skip
def test_values_that_cannot_be_stored(tmp_path, values, dtype, message):
    path = write(tmp_path / "a.parquet", {"x": pa.array(values, dtype)})
    with pytest.raises(DataError) as error:
        load(path)
    assert str(error.value) == f"{path}: {message}"


def test_digits_are_counted(tmp_path):
    path = write(tmp_path / "a.parquet", {"x": [0.1, 0.25, 1 / 3, None], "y": [[1 / 3], [1.0]] * 2})
    rounded = Counter()
    load(path, rounded=rounded)
    assert rounded == {("x", "digits"): 1, ("y", "digits"): 2}


def test_parts_follow_row_groups_and_leave_nothing_out(tmp_path):
    paths = [
        write(tmp_path / f"{i}.parquet", {"x": list(range(100 * i, 100 * i + 100))},
              row_group_size=30)
        for i in range(2)
    ]  # fmt: skip
    table = reader.open_table(paths)
    groups = list(table.groups(1))
    assert [[(p.path, p.first, p.groups) for p in group] for group in groups] == [
        [(path, 30 * i, (i,))] for path in paths for i in range(4)
    ]
    values = []
    for group in groups:
        for part in group:
            for found in reader.read(part):
                assert found.where(0) == f"{part.path}: row {part.first + 1}"
                values += found.batch.column(0).to_pylist()
    assert values == list(range(200))
    assert [len(group) for group in table.groups(10**9)] == [2]
    assert [(p.first, p.groups) for p in table.parts()] == [(0, (0, 1, 2, 3))] * 2


@pytest.mark.parametrize(
    "content, message",
    [
        (lambda whole: b"", "Parquet file size is 0 bytes"),
        (lambda whole: whole[:-7], "Parquet magic bytes not found in footer. Either the file is "
         "corrupted or this is not a parquet file"),
    ],
)  # fmt: skip
def test_a_file_that_is_cut(tmp_path, content, message):
    path = write(tmp_path / "a.parquet", {"x": [1, 2]})
    (tmp_path / "a.parquet").write_bytes(content((tmp_path / "a.parquet").read_bytes()))
    with pytest.raises(DataError) as error:
        load(path)
    assert str(error.value) == f"{path}: {message}"


def test_a_file_that_is_corrupt_inside(tmp_path):
    path = write(
        tmp_path / "a.parquet", {"x": list(range(1000))}, write_page_checksum=True,
        use_dictionary=False, compression="none",
    )  # fmt: skip
    content = bytearray((tmp_path / "a.parquet").read_bytes())
    content[2000] ^= 1
    (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.parquet: .*CRC checksum verification failed"):
        load(path)


def test_files_that_do_not_fit(tmp_path):
    one = write(tmp_path / "1.parquet", {"x": [1], "y": pa.array([None], pa.null())})
    two = write(tmp_path / "2.parquet", {"y": ["a"], "x": pa.array([1], pa.int8())})
    assert load(one, two)[1] == [{"x": 1, "y": None}, {"x": 1, "y": b"a"}]
    three = write(tmp_path / "3.parquet", {"x": [1.5], "y": ["a"]})
    with pytest.raises(DataError) as error:
        load(one, two, three)
    assert str(error.value) == (
        f"column 'x' is int64 in {one} and float32 in {three}; a feature must have one type"
    )
    # A spec that says float32 decides, also for decimals with and without fractions.
    cents = pa.array([decimal.Decimal("2.5")], pa.decimal128(5, 2))
    euros = pa.array([decimal.Decimal(3)], pa.decimal128(5, 0))
    prices = [write(tmp_path / f"p{i}.parquet", {"x": x}) for i, x in enumerate((euros, cents))]
    table = reader.open_table(prices, dtypes={"x": "float32"})
    found = [rows.batch.column("x")[0].as_py() for p in table.parts() for rows in reader.read(p)]
    assert found == [3.0, 2.5]
    four = write(tmp_path / "4.parquet", {"x": [1]})
    with pytest.raises(DataError) as error:
        load(one, four)
    assert str(error.value) == (
        f"{four} lacks 'y', unlike {one}; all files of a table must have the same columns"
    )


def test_two_columns_with_the_same_name(tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    path = write(tmp_path / "a.parquet", table)
    with pytest.raises(DataError) as error:
        load(path)
    assert str(error.value) == f"{path}: two columns are named 'x'. Rename one of them"
