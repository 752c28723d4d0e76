"""Vocabulary files: the words that writers may store are read back with their ids."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from feature_specs.kinds.vocabulary import VocabularyError, fits_a_line, read_words
from input_pipelines.transform.batch import make_table

# Each character that has a meaning in some format, and a few of other scripts.
CHARACTERS = [*map(chr, range(256)), "\u2028", "\u2029", "\ufeff", "\u3000", "東", "😀"]
WORDS = list(dict.fromkeys(
    word.format(i, c)
    for i, c in enumerate(CHARACTERS) for word in ("{1}{0}", "{0}{1}{0}", "{0}{1}")
))  # fmt: skip


def test_tensorflow_and_the_kit_read_each_word_that_fits(tmp_path):
    words = [word for word in WORDS if fits_a_line(word)]
    assert len(WORDS) - len(words) == 5  # Three with a line feed, "\r" at the end, and a BOM.
    (tmp_path / "words.txt").write_bytes("".join(f"{word}\n" for word in words).encode())
    assert read_words(tmp_path / "words.txt") == words
    (tmp_path / "spec.yaml").write_text(
        "features: {a: {dtype: string}}\ncolumns: {a: {vocabulary: a, file: words.txt}}\n"
        "groups: {wide: [a]}\nlabels: {y: {dtype: int64}}\nobjectives: {y: {head: binary}}\n"
    )
    spec = feature_specs.load(tmp_path / "spec.yaml")
    ids = make_table(spec, spec.columns["a"]).lookup(tf.constant(words)).numpy()
    np.testing.assert_array_equal(ids, np.arange(len(words)))


@pytest.mark.parametrize("word", ["", "\n", "a\nb", "a\r", "\r", "\ufeffa"])
def test_a_word_that_does_not_fit_is_not_read_back(tmp_path, word):
    assert not fits_a_line(word)
    path = tmp_path / "words.txt"
    path.write_bytes(f"{word}\nother\n".encode())
    try:
        words = read_words(path)
    except VocabularyError:
        return
    assert words != [word, "other"]
