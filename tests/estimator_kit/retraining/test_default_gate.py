"""The conditions of a gate whose spec names none: for each head that the gate has metrics for."""

from __future__ import annotations

import pytest

from estimator_kit.retraining.default_gate import gate_of
from feature_specs.heads import HEADS as ALL_HEADS
from feature_specs.parser import parser

pytestmark = pytest.mark.no_tensorflow

HEADS = {
    "binary": {},
    "logistic_regression": {},
    "poisson": {},
    "regression": {},
    "ziln": {},
    "multi_class": {"num_classes": 3},
    "ordinal": {"num_classes": 3},
    "survival": {"boundaries": [1, 2], "event": "event"},
}


def spec_of(head, **retraining):
    document = {
        "features": {
            "city": {"dtype": "string"}, "shop": {"dtype": "int64"}, "tags": {
                "dtype": "string", "shape": "variable"}, "price": {"dtype": "float32"},
        },
        "columns": {
            "city": {"vocabulary": "city", "list": ["rome", "oslo"]},
            "again": {"vocabulary": "city", "list": ["rome"]},
            "shop": {"identity": "shop", "size": 51},
            "tags": {"vocabulary": "tags", "list": ["new"]},
            "price": {"bucketized": "price", "boundaries": [1.0, 2.0]},
        },
        "groups": {"deep": ["city", "shop", "tags", "price"], "wide": ["again"]},
        "labels": {
            "y": {"dtype": "int64" if head in ("multi_class", "ordinal") else "float32"},
        },
        "objectives": {"y": {"head": head, **HEADS[head]}},
        "retraining": retraining,
    }  # fmt: skip
    if head == "survival":
        document["features"]["event"] = {"dtype": "int64"}
    return parser.parse(document)


def texts(gate):
    keys = ("min", "max", "max_loss", "by", "slice", "min_rows")
    return [
        (c.metric, *(f"{k}={getattr(c, k)}" for k in keys if k in c.model_fields_set))
        for c in gate.conditions
    ]


def test_the_heads_are_those_of_the_gate():
    assert set(HEADS) == {name for name, head in ALL_HEADS.items() if head.judged_by}


def test_a_binary_head():
    assert texts(gate_of(spec_of("binary"))) == [
        ("auc/y", "min=0.5"),
        ("auc/y", "max_loss=0.02"),
        ("log_loss/y", "max_loss=5%"),
        ("calibration/y", "min=0.5", "max=2.0"),
        ("calibration/y", "max_loss=0.2", "by=estimate"),
        ("auc/y", "max_loss=0.1", "by=estimate", "slice=city", "min_rows=1000"),
    ]


@pytest.mark.parametrize("head", HEADS)
def test_each_head_is_compared_with_the_live_model_over_all_rows_and_in_slices(head):
    conditions = gate_of(spec_of(head)).conditions
    compared = [c for c in conditions if c.max_loss is not None]
    assert any(c.slice is None for c in compared)
    assert [c.slice for c in compared if c.slice] == ["city"]
    # They are valid in a spec, too.
    document = [c.model_dump(exclude_unset=True) for c in conditions]
    assert gate_of(spec_of(head, gate={"conditions": document})).conditions == conditions


def test_conditions_of_the_spec_replace_them():
    own = [{"metric": "log_loss/y", "max": 0.5}]
    assert texts(gate_of(spec_of("binary", gate={"conditions": own}))) == [
        ("log_loss/y", "max=0.5")
    ]
    assert gate_of(spec_of("binary", gate={"conditions": []})).conditions == ()


@pytest.mark.parametrize("off", ["off", False])
def test_a_gate_that_is_off(off):
    gate = gate_of(spec_of("binary", gate=off))
    assert gate.conditions == () and gate.promote_unjudged


def test_the_rest_of_the_gate_stays():
    gate = gate_of(spec_of("binary", gate={"bootstrap": {"samples": 50}}))
    assert gate.bootstrap.samples == 50 and len(gate.conditions) == 6


@pytest.mark.parametrize(
    ("fields", "calibrated"),
    [
        ({}, True),
        ({"loss": "log_loss"}, True),
        ({"loss": {"focal": {"gamma": 0}}}, True),
        ({"loss": "focal"}, False),
        ({"loss": "hinge"}, False),
        ({"loss": "exponential"}, False),
        ({"loss": "absolute"}, False),
        ({"loss": {"sigmoid_cross_entropy": {"label_smoothing": 0.1}}}, False),
        ({"positive_penalty": 5}, False),
    ],
)
def test_probabilities_are_judged_only_where_the_loss_learns_them(monkeypatch, fields, calibrated):
    monkeypatch.setitem(HEADS, "binary", fields)
    spec = spec_of("binary")
    assert spec.objectives["y"].calibrated is calibrated
    everything = ["auc/y", "log_loss/y", "calibration/y"]
    by_spec = [c.metric for c in gate_of(spec).conditions]
    by_model = [c.metric for c in gate_of(spec, calibrated=False).conditions]
    assert list(dict.fromkeys(by_spec)) == (everything if calibrated else everything[:1])
    assert list(dict.fromkeys(by_model)) == everything[:1]


def test_a_head_without_another_metric_is_judged_by_probabilities(monkeypatch):
    monkeypatch.setitem(HEADS, "logistic_regression", {"loss": "absolute"})
    metrics = {c.metric for c in gate_of(spec_of("logistic_regression")).conditions}
    assert metrics == {"log_loss/y"}
