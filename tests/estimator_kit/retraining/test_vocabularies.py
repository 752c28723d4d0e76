"""How vocabularies grow with the data: append, re_rank and keep."""

from __future__ import annotations

import pytest

from estimator_kit.retraining import vocabularies
from feature_specs.parser import parser
from input_pipelines.record_files import writing
from tests.integration.retraining_data import write_spec


@pytest.mark.parametrize(
    ("growth", "live", "words", "changes"),
    [
        ("append", None, ["oslo", "rome", "lima"], (2, 0, 0)),
        ("append", ["bern", "rome"], ["bern", "rome", "lima"], (1, 0, 0)),
        ("re_rank", None, ["rome", "lima"], (2, 0, 1)),
        ("re_rank", ["lima", "rome"], ["rome", "lima"], (0, 2, 0)),
        ("keep", None, ["oslo"], (0, 0, 0)),
    ],
)
def test_words(tmp_path, growth, live, words, changes):
    path = write_spec(tmp_path, vocabularies=growth)
    rows = [{"city": city, "click": 1, "buy": 0} for city in ["rome"] * 3 + ["lima"] * 2 + ["bonn"]]
    writing.write_examples(str(tmp_path / "a.tfrecord"), rows)
    folder = None
    if live is not None:
        folder = tmp_path / "live"
        (folder / "words").mkdir(parents=True)
        (folder / "words" / "city.txt").write_text("\n".join([*live, ""]))
    for _ in range(2):  # The second time replaces the result of the first.
        found = vocabularies.make(
            parser.load(path), str(tmp_path / "made"), files=[str(tmp_path / "a.tfrecord")],
            min_count=2, live=None if folder is None else str(folder),
        )  # fmt: skip
    assert (tmp_path / "made/words/city.txt").read_text().split() == words
    entry = found["files"]["words/city.txt"]
    assert (entry["new"], entry["moved"], entry["dropped"]) == changes
    assert entry["words"] == len(words)
    assert (tmp_path / "words/city.txt").read_text() == "oslo\n"
    assert parser.load(found["spec"]).retraining.vocabularies == growth
