"""A float32 label of classes is 0 or 1 for every part of the kit: no other value is a class.

The heads come from `HEADS`: all whose label is a class and may be a float32, also with steps.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

import feature_specs
from feature_specs import SpecError
from feature_specs.heads import HEADS
from feature_specs.validation import accepted_values
from input_pipelines.integrity import diagnosis
from input_pipelines.prepare.analyze import drift
from input_pipelines.prepare.analyze.scan import scan
from input_pipelines.prepare.convert import value_checks
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conformance.table import HEAD_CASES
from tests.conftest import place


def spec_of(head, **more):
    case = HEAD_CASES[head]
    shape = [case.objective.get("num_classes", 3)] if head == "multi_label" else []
    shape = [more["steps"], *shape] if "steps" in more else shape
    return feature_specs.parse(
        {
            "features": {"x": {"dtype": "float32"}, "waited": {"dtype": "float32"}},
            "ignored": [] if "loss" in more else ["waited"],
            "columns": {"x": {"numeric": "x"}},
            "groups": {"deep": ["x"]},
            "labels": {"y": {"dtype": "float32", "shape": shape}},
            "objectives": {"y": {"head": head, **case.objective, **more}},
        }
    )


def specs():
    """The spec of each head of classes that can have a float32 label."""
    found = {}
    for head, entry in HEADS.items():
        variants = {head: {}}
        if "steps" in entry.model_fields:
            variants[f"{head}_steps"] = {"steps": 2}
        if head == "binary":
            variants["delayed"] = {"loss": {"delayed_feedback": {"elapsed": "waited"}}}
        for name, more in variants.items():
            try:
                spec = spec_of(head, **more)
            except SpecError:
                continue
            if spec.label_classes("y") is not None:
                found[name] = spec
    return found


SPECS = specs()


def rows_of(spec, value):
    """Four rows, of which the second has the value."""
    (count,) = spec.labels["y"].shape or (1,)
    values = [[float((i + j) % 2) for j in range(count)] for i in range(4)]
    values[1][-1] = value
    return [{"x": 1.0, "waited": 1.0, "y": y} for y in values]


def test_these_heads_have_such_labels():
    assert set(SPECS) == {"binary", "binary_steps", "delayed", "multi_label"}


@pytest.mark.parametrize("value", [0.5, 0.25, -0.0, 1.0])
@pytest.mark.parametrize("name", SPECS)
def test_all_checks_agree(tmp_path, name, value):
    spec, good = SPECS[name], value in (0, 1)
    rows = rows_of(spec, value)
    path = str(tmp_path / "a.tfrecord")
    writing.write_examples(path, rows)
    head = spec.objectives["y"].head
    expected = f"expected 0 or 1 for the {head} head of objective 'y'"
    remedy = "use the head logistic_regression for numbers between 0 and 1"
    end = f"; {remedy}" if head == "binary" else ""

    # Training and evaluation, and the message that names the record.
    records = tf.constant([writing.example(row).SerializeToString() for row in rows])
    if good:
        labels = Transform(spec).features_and_labels(records)[1]
        assert set(np.unique(labels["y"])) <= {0, 1}
    else:
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be an integer in"):
            Transform(spec).features_and_labels(records)
    reason = None if good else f"{path}: {place(path, 1)}: label 'y' is {value}, {expected}{end}"
    assert diagnosis.find_bad_record(spec, [path]) == reason

    # The conversion of a table.
    column = pa.array([y for row in rows for y in row["y"]], pa.float32())
    for accepted in accepted_values.of_label(spec, "y"):
        wrong = value_checks.outside(column, accepted)
        assert wrong.sum() == (0 if good else 1)

    # Drift, which cannot compare a share with a mean.
    statistics = scan([path]).statistics(1)
    usual = str(tmp_path / "usual.tfrecord")
    writing.write_examples(usual, rows_of(spec, 0.0))
    report = drift.compare(spec, scan([usual]).statistics(1), statistics)
    if good:
        assert report.errors == ()
        assert [f.measure for f in report.findings if f.name == "y"] == ["l_infinity", "missing"]
    else:
        (error,) = report.errors
        mean = np.mean([row["y"] for row in rows])
        remedy = remedy if end else "correct the records"
        assert error == (
            "drift of label 'y': it has values other than 0 and 1 in the records (mean "
            f"{mean:.6g}), {expected}, so it cannot be compared; {remedy}"
        )


def test_a_share_stays_a_label_of_logistic_regression():
    spec = spec_of("logistic_regression")
    records = [writing.example({"x": 1.0, "y": 0.01}).SerializeToString()]
    labels = Transform(spec).features_and_labels(tf.constant(records))[1]
    np.testing.assert_allclose(labels["y"], [0.01])
