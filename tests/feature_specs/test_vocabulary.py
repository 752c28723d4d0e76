"""vocabulary: the errors of a vocabulary file, read directly and through a spec."""

from __future__ import annotations

import json
import pathlib

import pytest

import feature_specs
from feature_specs import SpecError
from feature_specs.kinds.vocabulary import VocabularyError, inside, read_words

pytestmark = pytest.mark.no_tensorflow

# --- The file -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content, words",
    [
        (b"rome\noslo\n", ["rome", "oslo"]),
        (b"rome\noslo", ["rome", "oslo"]),
        (b"one\n", ["one"]),
        ("Malmö\n東京\nß\n".encode(), ["Malmö", "東京", "ß"]),
        # Everything that TensorFlow takes as part of a word is part of it here.
        (b" a \nb c\n#d\n\te\n", [" a ", "b c", "#d", "\te"]),
        ("a\u2028b\nc\x0cd\x85\n".encode(), ["a\u2028b", "c\x0cd\x85"]),
        (b"Rome\nrome\n", ["Rome", "rome"]),
    ],
)
def test_one_word_a_line(tmp_path, content, words):
    (tmp_path / "words.txt").write_bytes(content)
    assert read_words(tmp_path / "words.txt") == words


def test_integers(tmp_path):
    (tmp_path / "words.txt").write_bytes(b"3\n-1\n0\n9223372036854775807\n")
    words = ["3", "-1", "0", "9223372036854775807"]
    assert read_words(tmp_path / "words.txt", integers=True) == words


EMPTY_LINE = "has an empty line, line {}. Remove it."
DUPLICATES = "has {} duplicates: {}. Keep each word once."
NO_INTEGER = "is for an int64 feature and has words that are not integers: {}"
WINDOWS = (
    "has Windows line ends, which would become part of each word. Write the file with line feeds "
    "only."
)


@pytest.mark.parametrize(
    "content, integers, message",
    [
        (b"", False, "is empty. Write one word per line."),
        (b"\n", False, EMPTY_LINE.format(1)),
        (b"a\n\nb\n\n", False, EMPTY_LINE.format(2)),
        (b"a\nb\n\n", False, EMPTY_LINE.format(3)),
        (b"a\r\nb\r\n", False, WINDOWS),
        (b"a\nb\r\n\n", False, WINDOWS),
        (
            b"a\nb\na\na\n", False,
            DUPLICATES.format(2, "'a' on lines 1 and 3, 'a' on lines 1 and 4"),
        ),
        (
            b"a\nb\nc\nd\nd\nc\nb\na\n", False,
            DUPLICATES.format(
                4, "'d' on lines 4 and 5, 'c' on lines 3 and 6, 'b' on lines 2 and 7"
            ),
        ),
        (
            b"a\n\xff\n", False,
            "cannot be read as UTF-8: 'utf-8' codec can't decode byte 0xff in position 2: "
            "invalid start byte",
        ),
        (b"1\n1.5\n3\n", True, NO_INTEGER.format("line 2: '1.5'")),
        (
            b"a\nb\n-\n--1\n", True,
            NO_INTEGER.format("line 1: 'a', line 2: 'b', line 3: '-'"),
        ),
        (
            "1\n²\n٣\n 4\n".encode(), True,
            NO_INTEGER.format("line 2: '²', line 3: '٣', line 4: ' 4'"),
        ),
        pytest.param(
            b"a\na\n", False, "has 1 duplicate: 'a' on lines 1 and 2. Keep each word once.",
        ),
        pytest.param(
            b"7\n07\n", True, NO_INTEGER.format("line 2: '07'"),
        ),
        pytest.param(
            b"1\n9223372036854775808\n", True, NO_INTEGER.format("line 2: '9223372036854775808'"),
        ),
        pytest.param(
            b"\xef\xbb\xbfa\nb\n", False,
            "has a byte order mark, which would become part of the first word. Write the file as "
            "UTF-8 without a byte order mark.",
        ),
    ],
)  # fmt: skip
def test_files_that_cannot_be_used(tmp_path, content, integers, message):
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(VocabularyError) as error:
        read_words(path, integers=integers)
    assert str(error.value) == f"{str(path)!r} {message}"


def test_a_file_that_is_missing(tmp_path):
    with pytest.raises(VocabularyError) as error:
        read_words(tmp_path / "words.txt")
    assert str(error.value) == (
        f"the file '{tmp_path}/words.txt' does not exist. Correct the path, or write the file with "
        "one word per line."
    )


def test_a_file_that_is_a_folder(tmp_path):
    with pytest.raises(VocabularyError) as error:
        read_words(tmp_path)
    assert str(error.value) == f"'{tmp_path}' cannot be read: Is a directory"


# --- Where the file may be ------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A folder `spec` with files of words in it, below it and next to it, and links to them."""
    for name in ("spec/words.txt", "spec/below/words.txt", "outside/words.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("rome\noslo\n")
    (tmp_path / "spec/link_in.txt").symlink_to("below/words.txt")
    (tmp_path / "spec/link_out.txt").symlink_to("../outside/words.txt")
    (tmp_path / "spec/folder_out").symlink_to("../outside")
    (tmp_path / "spec_too").mkdir()
    (tmp_path / "spec_too/words.txt").write_text("rome\noslo\n")
    return tmp_path / "spec"


INSIDE = ["words.txt", "below/words.txt", "./words.txt", "below/../words.txt", "link_in.txt"]
OUTSIDE = [
    "../outside/words.txt", "../spec_too/words.txt", "..", ".", "", "link_out.txt",
    "folder_out/words.txt", "below/../../outside/words.txt", "/etc/passwd", "../spec",
]  # fmt: skip


@pytest.mark.parametrize("file", INSIDE)
def test_files_below_the_spec(folder, file):
    assert inside(folder, file) == (folder / file).resolve()


@pytest.mark.parametrize("file", OUTSIDE)
def test_files_outside_the_folder_of_the_spec(folder, file):
    assert inside(folder, file) is None


def test_an_absolute_path_is_refused_even_below_the_spec(folder):
    assert inside(folder, str(folder / "words.txt")) is None


def test_the_folder_of_the_spec_may_be_a_link(folder, tmp_path):
    (tmp_path / "link").symlink_to("spec")
    assert inside(tmp_path / "link", "words.txt") == (folder / "words.txt").resolve()


# --- Through a spec -------------------------------------------------------------------------------


def write_spec(folder, document, city):
    """Writes spec.json with the given column `city`, and returns its path."""
    document["columns"]["city"] = city
    (folder / "spec.json").write_text(json.dumps(document))
    return folder / "spec.json"


def messages_of(path):
    """The messages about the column `city`."""
    with pytest.raises(SpecError) as error:
        feature_specs.load(path)
    head, *lines = str(error.value).split("\n  ")
    noun = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
    assert head == f"{path}: {noun} in the feature spec"
    return [line.removeprefix(f"{path}:1: columns.city") for line in lines]


def words(**entry):
    return {"vocabulary": "city", "file": "words.txt", **entry}


def test_a_spec_with_a_vocabulary_file(folder, document):
    spec = feature_specs.load(write_spec(folder, document, words(oov_buckets=2)))
    assert spec.columns["city"].size == 2
    assert spec.size_of("city") == 4
    assert spec.columns["city"].path(spec) == folder / "words.txt"
    assert feature_specs.parse(spec.to_dict(), directory=folder, source=spec.source) == spec


def test_size_takes_the_first_words_only(folder, document):
    spec = feature_specs.load(write_spec(folder, document, words(size=1)))
    assert (spec.columns["city"].size, spec.size_of("city")) == (1, 1)


ONE_OF_TWO = ": set either `list` or `file`"


@pytest.mark.parametrize(
    "city, message",
    [
        ({"vocabulary": "city"}, ONE_OF_TWO),
        (words(list=["rome"]), ONE_OF_TWO),
        (
            {"vocabulary": "city", "list": ["rome"], "size": 1},
            ": `size` can only be set with `file`. Remove size, or shorten the list.",
        ),
        ({"vocabulary": "city", "list": ["rome", "rome"]}, ": the list contains a word twice. "
                                                           "Remove one of them."),
        (
            {"vocabulary": "city", "list": [1]},
            ".list: the words are int64 but feature 'city' is string",
        ),
        (
            {"vocabulary": "city", "list": [True]},
            ".list[0]: got True, expected a valid string; or got True, expected a valid integer",
        ),
        (words(oov_buckets=1, default_id=0), ": set oov_buckets or default_id, not both"),
        (words(oov_buckets=-1), ".oov_buckets: got -1, expected greater than or equal to 0"),
        (words(default_id=-2), ".default_id: got -2, expected greater than or equal to -1"),
        (words(size=0), ".size: got 0, expected greater than or equal to 1"),
        (words(size=3), ".size: got 3, but 'words.txt' has 2 words. Lower size or remove it."),
        pytest.param(
            {"vocabulary": "city", "list": ["rome"], "default_id": 1},
            ": default_id must be less than the number of words, 1, got 1",
        ),
        pytest.param(
            words(default_id=2),
            ".default_id: got 2, expected an id less than the number of words, 2",
        ),
        pytest.param(
            words(size=1, default_id=1),
            ".default_id: got 1, expected an id less than the number of words, 1",
        ),
    ],
)  # fmt: skip
def test_what_a_vocabulary_column_is_told(folder, document, city, message):
    assert messages_of(write_spec(folder, document, city)) == [message]


@pytest.mark.parametrize("file", [*OUTSIDE, "a\0b"])
def test_a_spec_reads_no_file_outside_its_folder(folder, document, file):
    path = write_spec(folder, document, words(file=file))
    expected = f"got {file!r}, expected a path below the folder of the spec, '{folder}'"
    assert messages_of(path) == [f".file: {expected}"]


@pytest.mark.parametrize(
    "content, message",
    [
        (
            None,
            "the file {!r} does not exist. Correct the path, or write the file with one word "
            "per line.",
        ),
        (b"", "{!r} is empty. Write one word per line."),
        (b"rome\r\n", f"{{!r}} {WINDOWS}"),
        (b"rome\n\noslo\n", f"{{!r}} {EMPTY_LINE.format(2)}"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_with_its_column(folder, document, content, message):
    file = folder / "words.txt"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    problem = message.format(str(file))
    assert messages_of(write_spec(folder, document, words())) == [f".file: {problem}"]


def test_words_of_an_int64_feature_are_integers(folder, document):
    document["features"]["city"]["dtype"] = "int64"
    path = write_spec(folder, document, words())
    problem = NO_INTEGER.format("line 1: 'rome', line 2: 'oslo'")
    assert messages_of(path) == [f".file: '{folder}/words.txt' {problem}"]


# --- The fingerprint ------------------------------------------------------------------------------


def test_the_fingerprint_is_of_the_bytes_of_the_file_and_not_of_its_place(
    folder, document, tmp_path
):
    before = feature_specs.load(write_spec(folder, document, words())).fingerprint()
    other = tmp_path / "outside"
    assert feature_specs.load(write_spec(other, document, words())).fingerprint() == before
    (other / "words.txt").write_text("oslo\nrome\n")
    assert feature_specs.load(other / "spec.json").fingerprint() != before


def test_the_fingerprint_tells_files_apart(folder, document):
    document["columns"]["user"] = {"vocabulary": "user", "file": "users.txt", "size": 1}
    path = write_spec(folder, document, words(size=1))

    def fingerprint(users, cities):
        pathlib.Path(folder, "users.txt").write_text(users)
        pathlib.Path(folder, "words.txt").write_text(cities)
        return feature_specs.load(path).fingerprint()

    # With size: 1 the first word of cities is b here and a there.
    assert fingerprint("x\na\n", "b\n") != fingerprint("x\n", "a\nb\n")
