"""The rows that check an export: the first rows, followed by the unusual rows."""

from __future__ import annotations

import collections
import copy
import logging

import numpy as np
import pytest

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import command_of
from estimator_kit.exporters import comparison, sample_rows, saved_model
from estimator_kit.exporters.sample_rows import UnusualRows
from estimator_kit.training import bad_data
from feature_specs.parser import parser
from input_pipelines.errors import DataError
from input_pipelines.record_files import writing
from tests.conftest import DOCUMENT, make_rows

Ragged = collections.namedtuple("Ragged", "flat_values nested_row_splits")


def test_missing_unknown_and_extreme_values():
    unusual = UnusualRows()
    unusual.add(0, {"id": np.array([4, 5, 4]), "x": np.float32([[0.5], [0.25], [0.5]]),
                    "word": np.array([b"ab", b"a", b"a"], object),
                    "list": Ragged(np.array([7, 7]), [np.array([0, 1, 1, 2])])})  # fmt: skip
    # Least and largest id, number, length of words and lists; the list of 0 values.
    assert unusual.places == [0, 1]
    unusual.add(3, {"id": np.array([4, -1]), "x": np.float32([[9], [0.3]]),
                    "word": np.array([b"a", b""], object),
                    "list": Ragged(np.array([7, 7, 2]), [np.array([0, 0, 3])])})  # fmt: skip
    # 3: the largest number. 4: no id, the empty word, the longest list, which has the least id.
    # 0 and 1 remain: of ids, the first list, the least number, and the list of 0 values.
    assert unusual.places == [0, 1, 3, 4]


def test_the_first_rows_and_the_unusual_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_rows, "_BATCH", 32)
    rows = make_rows(200)
    for row in rows:
        row.update(price=2.0, city="rome", user="ann", tags=["a"])
    rows[150].update(price=1e6)
    rows[160].update(user=None)
    rows[199].update(tags=["a"] * 9)
    for part in range(2):
        writing.write_examples(f"{tmp_path}/{part}", rows[100 * part : 100 * part + 100])
    spec = parser.parse(DOCUMENT)
    paths = [f"{tmp_path}/1", f"{tmp_path}/0"]
    found = sample_rows.unusual_rows(spec, paths, count=10)
    assert found.places[:10] == tuple(range(10)) and {150, 160, 199} <= set(found.places)
    assert len(found.places) < 30 and found.files == (f"{tmp_path}/0", f"{tmp_path}/1")
    every = sample_rows.sample_rows(spec, paths, count=200)
    assert list(found.records) == [every.records[place] for place in found.places]
    for name, value in found.features.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, every.features[name][list(found.places)])
    # All rows, if the file has no more than the requested number.
    assert sample_rows.unusual_rows(spec, paths, count=500).places == tuple(range(200))


def test_a_bad_row_further_on_ends_the_look_and_is_told(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(sample_rows, "_BATCH", 32)
    rows = make_rows(100)
    rows[40].update(price=1e6)
    rows[80].update(price=float("nan"))
    writing.write_examples(f"{tmp_path}/a", rows)
    with caplog.at_level(logging.WARNING):
        found = sample_rows.unusual_rows(parser.parse(DOCUMENT), [f"{tmp_path}/a"], count=10)
    assert 40 in found.places and max(found.places) < 64
    assert caplog.messages == [
        "The rows that check exports are chosen from the first 64 rows, because a later row cannot "
        "be read: NaN or infinity in one of the columns price : Tensor had NaN values"
    ]


def without_robots():
    """A spec whose filter reads a feature that no column reads."""
    document = copy.deepcopy(DOCUMENT)
    document["features"]["robot"] = {"dtype": "int64"}
    document["filter"] = [{"feature": "robot", "not_in": [1]}]
    return parser.parse(document)


@pytest.mark.ci
def test_rows_that_the_filter_drops_check_no_export(tmp_path):
    """They may lack what the model needs, and no evaluation reads them."""
    spec = without_robots()
    rows = [{**row, "robot": 0} for row in make_rows(20)]
    mixed = [one for row in rows for one in ({"robot": 1}, row)]
    writing.write_examples(f"{tmp_path}/a", mixed)
    writing.write_examples(f"{tmp_path}/kept", rows)
    writing.write_examples(f"{tmp_path}/none", [{"robot": 1}] * 3)
    for count in (5, 50):
        found = sample_rows.unusual_rows(spec, [f"{tmp_path}/a"], count=count)
        expected = sample_rows.unusual_rows(spec, [f"{tmp_path}/kept"], count=count)
        assert list(found.records) == list(expected.records)
        assert found.places == expected.places and found.files == (f"{tmp_path}/a",)
    some = sample_rows.sample_rows(spec, [f"{tmp_path}/a"], count=5)
    every = sample_rows.sample_rows(spec, [f"{tmp_path}/kept"], count=5, all_rows=True)
    assert list(some.records) == list(every.records)
    assert sample_rows.unusual_rows(spec, [f"{tmp_path}/none"]) is None
    assert sample_rows.sample_rows(spec, [f"{tmp_path}/none"]) is None
    config = ExperimentConfig(
        mode="transform", export_dir="e", transform="freeze", predict_files=("p",),
        eval_files=(f"{tmp_path}/none",), transform_dir="o",
    )  # fmt: skip
    with pytest.raises(DataError) as error:
        comparison.sample(config, spec, "eval_files", 5)
    assert str(error.value) == (
        f"--eval_files: no records that the filter of the spec keeps in {tmp_path}/none. Name "
        "files with records."
    )


def test_a_record_without_the_feature_of_the_filter_is_named(tmp_path):
    """No column reads it, and rows that are dropped before it may lack anything."""
    spec = without_robots()
    path = f"{tmp_path}/rows.tfrecord"
    (good,) = make_rows(1)
    writing.write_examples(path, [{"robot": 1}, good, {**good, "robot": 0}])
    config = ExperimentConfig(
        mode="export",
        spec="s.yaml",
        model_dir="m",
        eval_files=(path,),
        corrupt_data_policy="skip_record",
    )
    exports = saved_model.RunExports(command_of(config), spec, [path])
    with pytest.raises(DataError, match=r"record 1 at byte \d+: feature 'robot' is missing"):
        exports._sample()
    screened = bad_data.screen(
        config, config, spec, {"--eval_files": [path]}, with_labels=False, filtered=True
    )
    assert screened.counts["eval_files"]["bad_records"] == 1
    assert screened.damaged[path] == {1}
    # A prediction answers every row, so it needs what the model reads, but not the filter.
    config = config.model_copy(update={"mode": "predict"})
    screened = bad_data.screen(config, config, spec, {"--predict_files": [path]}, with_labels=False)
    assert screened.damaged[path] == {0}
