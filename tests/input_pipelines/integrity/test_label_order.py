"""Warnings about sorted labels, and no warnings if shuffling mixes the labels."""

from __future__ import annotations

import random

import pytest

import feature_specs
from input_pipelines.integrity import label_order
from input_pipelines.reading import shuffling
from input_pipelines.record_files import record_lists, tfrecords, writing


@pytest.fixture
def spec():
    return feature_specs.parse(
        {
            "features": {"x": {"dtype": "int64"}},
            "columns": {"x": {"identity": "x", "size": 10}},
            "groups": {"wide": ["x"]},
            "labels": {"click": {"dtype": "int64"}},
            "objectives": {"click": {"head": "binary"}},
        }
    )


@pytest.fixture
def warned(spec, tmp_path):
    """The warnings for files of these labels."""

    def write(labels_of_files, spec=spec):
        paths = [f"{tmp_path}/{i:03}.tfrecord" for i in range(len(labels_of_files))]
        for path, labels in zip(paths, labels_of_files):
            writing.write_examples(path, [{"x": 1, "click": label} for label in labels])
        return list(label_order.warnings(spec, record_lists.first_records(paths)))

    return write


def drawn(count, seed, rate=0.1):
    rng = random.Random(seed)
    return [int(rng.random() < rate) for _ in range(count)]


def test_files_of_one_class_each_that_are_not_open_together(warned, tmp_path):
    (warning,) = warned([[0] * 40] * 30 + [[1] * 40] * 10)
    assert warning == (
        "label 'click' is sorted over the files: it is 0 in 38% of the sampled records of the 16 "
        f"files from {tmp_path}/024.tfrecord on, but in 75% of all sampled records. Shuffling "
        "mixes only 16 files that follow each other by name. Write files that each have all "
        "classes, or name them so that the classes alternate"
    )


@pytest.mark.parametrize(
    "files",
    [
        [[0] * 40] * 8 + [[1] * 40] * 8,  # All of them are open at the same time.
        [[0] * 40, [1] * 40] * 20,
        [drawn(40, i) for i in range(40)],
        [[0] * 3] * 20 + [[1] * 3] * 20,  # Too few to say.
        [[1] * 40] * 40,
    ],
)
def test_files_that_shuffling_mixes(warned, files):
    assert warned(files) == []


def test_a_file_that_is_sorted_inside(warned, tmp_path, monkeypatch):
    monkeypatch.setattr(tfrecords, "BLOCK", 64)
    monkeypatch.setattr(shuffling, "BLOCK_BUFFER", 8)
    (warning,) = warned([[0] * 40, [0] * 1024 + [1] * 1024])
    assert warning == (
        f"label 'click' is sorted inside {tmp_path}/001.tfrecord: it is 0 in 100% of the sampled "
        "records from record 0 on, but in 50% of the first 2,048. Shuffling mixes only about 256 "
        "records of a file that follow each other. Shuffle the records before you write them"
    )
    assert warned([drawn(2048, 3)]) == []


def test_records_that_the_filter_drops_are_not_sampled(warned, spec):
    files = [[0] * 40] * 20 + [[1] * 40] * 20
    assert len(warned(files)) == 1
    keeps_nothing = spec.to_dict()
    keeps_nothing["filter"] = [{"feature": "x", "min": 2}]
    assert warned(files, feature_specs.parse(keeps_nothing)) == []


def test_files_that_shuffling_reads_whole_are_not_complained_about(warned):
    assert warned([[0] * 1000 + [1] * 1000]) == []
