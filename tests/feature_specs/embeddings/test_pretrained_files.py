"""Files of pretrained vectors: the errors of broken files before and in a training, and the report
on good files."""

from __future__ import annotations

import json

import numpy as np
import pytest

import feature_specs
from feature_specs import SpecError
from feature_specs.embeddings import initial_values, pretrained_files
from feature_specs.embeddings.vector_files import VectorFileError, npy_array
from tests.feature_specs.embeddings.test_embeddings import DOCUMENT, checkpoint, parse

LINE = ". A line is a word, a space or a tab, and numbers separated by spaces or tabs."
SAVE = "Write it again with numpy.save(file, vectors.astype(numpy.float32))."
ROWS = (
    ": one row per id, in the order of the ids, and as many numbers per row as the column's "
    "dimension. Write the array in this form, or use a text file, which names its words."
)
CORRECT = ". Correct the path. It is relative to the folder of the spec."


@pytest.fixture
def folder(tmp_path):
    """Files of vectors. Some fit seen_emb, which is [4, 2] over a, b, ü and a bucket."""
    np.save(tmp_path / "good.npy", np.zeros((4, 2)))
    np.save(tmp_path / "wide.npy", np.zeros((4, 3)))
    np.save(tmp_path / "long.npy", np.zeros((5, 2)))
    np.save(tmp_path / "short.npy", np.zeros((2, 2)))
    np.save(tmp_path / "flat.npy", np.zeros(4))
    np.save(tmp_path / "ints.npy", np.zeros((4, 2), np.int64))
    np.save(tmp_path / "strings.npy", np.array([["a", "b"]]))
    np.save(tmp_path / "pickled.npy", np.array([[object(), 1]]), allow_pickle=True)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "good.npy").read_bytes()[:-1])
    (tmp_path / "text.npy").write_text("a 1 2\n")
    (tmp_path / "header.npy").write_bytes(b"\x93NUMPY\x01\x00\x03\x00{1:")
    (tmp_path / "bin.txt").write_bytes(b"a \xff\n")
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "vectors.txt").write_text("a 1 2\n")
    checkpoint(tmp_path, np.zeros((3, 2), np.float32))
    return tmp_path


def spec_with(folder, **entry):
    return parse(folder, seen_emb={"pretrained": entry})


def message_of(error, folder):
    (problem,) = error.problems
    assert problem.path == ("columns", "seen_emb", "pretrained")
    return problem.message.replace(f"{folder}/", "")


@pytest.mark.parametrize(
    "text, message",
    [
        ("a 1\n", f"1: 1 numbers after the word 'a', expected 2, the column's dimension{LINE}"),
        ("a 1 2 3\n",
         f"1: 3 numbers after the word 'a', expected 2, the column's dimension{LINE}"),
        ("a,1,2\n",
         f"1: 0 numbers after the word 'a,1,2', expected 2, the column's dimension{LINE}"),
        ("a 1 2\nq 1\n",
         f"2: 1 numbers after the word 'q', expected 2, the column's dimension{LINE}"),
        ("a 1 2\nb x 1\n", "2: got 'x' for the word 'b', expected a number"),
        ("a 1 2\na 1 2\n", "2: the word 'a' is listed twice. Keep one line."),
        ("a 1 nan\n", "1: got nan for the word 'a', expected a finite float32"),
        ("a 1 -inf\n", "1: got -inf for the word 'a', expected a finite float32"),
        ("a -4e38 0\n", "1: got -4e38 for the word 'a', expected a finite float32"),
        ("3 4\na 1 2\n",
         "1: the header says 4 numbers per word, expected 2, the column's dimension"),
    ],
)  # fmt: skip
def test_what_a_broken_line_is_told_before_and_in_a_training(tmp_path, text, message):
    (tmp_path / "vectors.txt").write_text(text)
    spec = spec_with(tmp_path, file="vectors.txt")
    for look in (pretrained_files.check, lambda spec: initial_values.read(spec, "seen_emb")):
        with pytest.raises(SpecError) as error:
            look(spec)
        assert message_of(error.value, tmp_path) == f"'vectors.txt', line {message}"


@pytest.mark.parametrize(
    "text, message",
    [
        (b"a 1 2\n\n", "'vectors.txt', line 2 is empty. Remove it."),
        (b"a 1 2\nb\xff 1 2\n",
         "'vectors.txt', line 2 is not UTF-8. Write the vectors as UTF-8 text, or with numpy.save "
         "to a file whose name ends in .npy."),
        (b"\xef\xbb\xbfa 1 2\n",
         "'vectors.txt', line 1 starts with a byte order mark, which would become part of the "
         "first word. Write the file as UTF-8 without a byte order mark."),
        (b"q 1 2\n",
         "'vectors.txt' has none of the 3 words of the vocabulary. Check that it belongs to this "
         "vocabulary, and that its words have the same case."),
        (b"",
         "'vectors.txt' has none of the 3 words of the vocabulary. Check that it belongs to this "
         "vocabulary, and that its words have the same case."),
    ],
)  # fmt: skip
def test_what_a_broken_text_file_is_told(tmp_path, text, message):
    (tmp_path / "vectors.txt").write_bytes(text)
    spec = spec_with(tmp_path, file="vectors.txt")
    for look in (pretrained_files.check, lambda spec: initial_values.read(spec, "seen_emb")):
        with pytest.raises(SpecError) as error:
            look(spec)
        assert message_of(error.value, tmp_path) == message


@pytest.mark.parametrize(
    "entry, message",
    [
        ({"file": "no.txt"}, f"the file 'no.txt' does not exist{CORRECT}"),
        ({"file": "vector.txt"}, "the file 'vector.txt' does not exist. Did you mean "
                                 "'vectors.txt'?"),
        ({"file": "folder.txt"}, "'folder.txt' is a folder, expected a file of vectors"),
        ({"file": "wide.npy"}, f"got float64 [4, 3], expected floats [3 to 4, 2]{ROWS}"),
        ({"file": "long.npy"}, f"got float64 [5, 2], expected floats [3 to 4, 2]{ROWS}"),
        ({"file": "short.npy"}, f"got float64 [2, 2], expected floats [3 to 4, 2]{ROWS}"),
        ({"file": "flat.npy"}, f"got float64 [4], expected floats [3 to 4, 2]{ROWS}"),
        ({"file": "ints.npy"}, f"got int64 [4, 2], expected floats [3 to 4, 2]{ROWS}"),
        ({"file": "strings.npy"},
         f"'strings.npy' contains the type '<U1', expected floats. {SAVE}"),
        ({"file": "pickled.npy"},
         f"'pickled.npy' contains Python objects, expected floats. {SAVE}"),
        ({"file": "cut.npy"},
         "'cut.npy' is truncated: it has 191 bytes, but its header says 192. Copy it again."),
        ({"file": "text.npy"},
         "'text.npy' is not a NumPy array. Write it with numpy.save, or give a text file a name "
         "that does not end in .npy."),
        ({"file": "header.npy"},
         "'header.npy' has a header that cannot be read. Write it again with numpy.save."),
        ({"checkpoint": "none", "tensor": "table"},
         f"the checkpoint 'none' does not exist: its folder has no file 'none.index'{CORRECT}"),
        ({"checkpoint": "old2", "tensor": "table"},
         "the checkpoint 'old2' does not exist: its folder has no file 'old2.index'. Did you mean "
         "'old'?"),
        ({"checkpoint": "old.index", "tensor": "table"},
         "'old.index' is one file of a checkpoint. Use the common prefix of its files, 'old'."),
    ],
)  # fmt: skip
def test_what_a_broken_file_is_told_before_and_in_a_training(folder, entry, message):
    for look in (pretrained_files.check, lambda spec: initial_values.read(spec, "seen_emb")):
        with pytest.raises(SpecError) as error:
            look(spec_with(folder, **entry))
        assert message_of(error.value, folder) == message


@pytest.mark.parametrize(
    "entry, message",
    [
        ({"checkpoint": "old", "tensor": "tabel"},
         "'old' has no tensor 'tabel'. Did you mean 'table'?"),
        ({"checkpoint": "old", "tensor": "t"}, "'old' has no tensor 't'. Use one of: table."),
        ({"checkpoint": "old", "tensor": "table"},
         f"got float32 [3, 2], expected floats [4, 2]{ROWS}"),
        ({"checkpoint": "torn", "tensor": "table"},
         "'torn' cannot be read as a checkpoint. Copy its .index file and all its .data files "
         "again, or name another checkpoint."),
        ({"file": "nan.npy"},
         "the vectors contain NaN, infinity or values that are too large for float32, first in "
         "row 1. Replace them by finite values."),
        ({"file": "large.npy"},
         "the vectors contain NaN, infinity or values that are too large for float32, first in "
         "row 2. Replace them by finite values."),
    ],
)  # fmt: skip
def test_what_only_a_training_finds(folder, entry, message):
    (folder / "torn.index").write_bytes(b"no index")
    for name, row, value in (("nan", 1, np.nan), ("large", 2, 1e39)):
        values = np.zeros((4, 2))
        values[row, 1] = value
        np.save(folder / f"{name}.npy", values)
    spec = spec_with(folder, **entry)
    assert len(pretrained_files.check(spec)) == 1
    with pytest.raises(SpecError) as error:
        initial_values.read(spec, "seen_emb")
    assert message_of(error.value, folder) == message


def test_all_files_are_told_of_with_their_lines(folder):
    text = json.dumps(DOCUMENT, indent=1)
    for column, file in (("seen", "no.txt"), ("user", "no.npy")):
        before = f'"{column}_emb": {{'
        text = text.replace(before, f'{before} "pretrained": {{"file": "{file}"}},')
    (folder / "spec.yaml").write_text(text)
    lines = [i for i, line in enumerate(text.splitlines(), 1) if "pretrained" in line]
    spec = feature_specs.load(folder / "spec.yaml")
    with pytest.raises(SpecError) as error:
        pretrained_files.check(spec)
    assert [problem.line for problem in error.value.problems] == lines
    with pytest.raises(SpecError, match=rf"spec.yaml:{lines[1]}: columns.user_emb.pretrained: "):
        initial_values.read(spec, "user_emb")


# --- What needs no file ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column, entry, message",
    [
        ("user_emb", {"file": "vectors.txt"},
         "columns.user_emb.pretrained.file: a text file names words, but column 'user' is "
         "hash_bucket, which has no words. Use a vocabulary column, or an .npy file in the order "
         "of the ids."),
        ("seen_emb", {"file": "../vectors.txt"},
         "columns.seen_emb.pretrained.file: got '../vectors.txt', expected a path below the folder "
         "of the spec, '.'"),
        ("seen_emb", {"checkpoint": "/model.ckpt-1", "tensor": "table"},
         "columns.seen_emb.pretrained.checkpoint: got '/model.ckpt-1', expected a path below the "
         "folder of the spec, '.'"),
    ],
)  # fmt: skip
def test_what_every_reading_of_a_spec_refuses(column, entry, message):
    with pytest.raises(SpecError) as error:
        parse(**{column: {"pretrained": entry}})
    (line,) = str(error.value).splitlines()[1:]
    assert line == f"  <dict>: {message}"


# --- What is good ---------------------------------------------------------------------------------


def test_spaces_and_tabs_and_words_with_spaces(tmp_path):
    (tmp_path / "vectors.txt").write_bytes("a\t1\t2\nü 3  4 \r\nx y\t5 6\n".encode())
    spec = parse(
        tmp_path, seen_word={"list": ["a", "ü", "x y"]}, seen_emb={
            "pretrained": {"file": "vectors.txt"}},
    )  # fmt: skip
    table = initial_values.read(spec, "seen_emb")
    np.testing.assert_array_equal(table.values, [[1, 2], [3, 4], [5, 6], [0, 0]])


def test_a_weighted_column_has_the_words_of_the_one_under_it(folder):
    spec = parse(folder, word_emb={"pretrained": {"file": "vectors.txt"}})
    table = initial_values.read(spec, "word_emb")
    np.testing.assert_array_equal(table.known, [True, False, False, False])


@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f8"])
def test_what_kind_of_array_numpy_wrote(tmp_path, dtype):
    np.save(tmp_path / "a.npy", np.asfortranarray(np.zeros((3, 2), dtype)))
    assert npy_array(tmp_path / "a.npy") == (np.dtype(dtype).name, (3, 2))
    with (tmp_path / "b.npy").open("wb") as file:
        np.lib.format.write_array(file, np.zeros(2, dtype), version=(2, 0))
    assert npy_array(tmp_path / "b.npy") == (np.dtype(dtype).name, (2,))
    (tmp_path / "c.npy").write_bytes(b"\x93NUM")
    with pytest.raises(VectorFileError, match="is not a NumPy array"):
        npy_array(tmp_path / "c.npy")


def test_what_was_looked_at(folder):
    (text,) = pretrained_files.check(spec_with(folder, file="vectors.txt"))
    assert (text.column, text.file, text.warning) == ("seen_emb", "vectors.txt", None)
    assert text.text == "1 of 4 ids have a vector"
    (array,) = pretrained_files.check(spec_with(folder, file="good.npy"))
    assert array.text == "4 of 4 ids have a vector (its numbers were not checked)"
    (tensor,) = pretrained_files.check(spec_with(folder, checkpoint="old", tensor="any"))
    assert tensor.text == "exists; its tensor is checked when a training starts"
    assert pretrained_files.check(spec_with(folder, checkpoint="../" + folder.name + "/old",
                                            tensor="any"))[0].text == tensor.text  # fmt: skip


def test_of_a_large_text_file_the_beginning_is_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(pretrained_files, "_CHECKED_BYTES", 9)
    (tmp_path / "vectors.txt").write_text("q 1 2\na 1 2\nb x 1\n")
    (looked,) = pretrained_files.check(spec_with(tmp_path, file="vectors.txt"))
    assert looked.text == "its first 12 bytes are valid; the rest was not checked"
    assert looked.warning is None


# --- Frozen tables --------------------------------------------------------------------------------


def frozen(missing, buckets):
    return (
        f"column 'seen_emb': trainable is false, but {missing} of 4 ids ({buckets} of them "
        "out-of-vocabulary buckets) have no pretrained vector, so they keep random vectors. Add "
        "vectors for them, or set initializer: zeros or trainable: true."
    )


@pytest.mark.parametrize(
    "file, rest, warning",
    [
        ("vectors.txt", {"trainable": False}, frozen(3, 1)),
        ("three.npy", {"trainable": False}, frozen(1, 1)),
        ("good.npy", {"trainable": False}, None),
        ("vectors.txt", {"trainable": False, "initializer": "zeros"}, None),
        ("vectors.txt", {}, None),
    ],
)
def test_frozen_random_vectors_are_warned_of(folder, file, rest, warning):
    np.save(folder / "three.npy", np.zeros((3, 2)))
    spec = parse(folder, seen_emb={"pretrained": {"file": file}, **rest})
    assert [looked.warning for looked in pretrained_files.check(spec)] == [warning]


@pytest.mark.parametrize(
    "entry, files",
    [
        ({"file": "vectors.txt"}, ["vectors.txt"]),
        ({"file": "good.npy"}, ["good.npy"]),
        ({"file": "missing.txt"}, []),
        ({"file": "missing/vectors.txt"}, []),
        ({"checkpoint": "old", "tensor": "table"}, ["old.data-00000-of-00001", "old.index"]),
        ({"checkpoint": "training", "tensor": "table"},
         ["training/checkpoint", "training/old.data-00000-of-00001", "training/old.index"]),
    ],
)  # fmt: skip
def test_the_files_of_pretrained_vectors(folder, entry, files):
    (folder / "training").mkdir()
    checkpoint(folder / "training", np.zeros((3, 2), np.float32))
    (folder / "training" / "other.index").write_text("")
    (folder / "vectors.txt.counts").write_text("")
    found = pretrained_files.files_of(spec_with(folder, **entry))
    assert [path.replace(f"{folder}/", "") for path in found] == files
