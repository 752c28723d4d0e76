"""Reference models of made-up tables, of which it is known who wins."""

from __future__ import annotations

import builtins

import numpy as np
import pytest

import feature_specs
from estimator_kit.scoring import measured
from estimator_kit.scoring.references import models, references
from feature_specs.heads import HEADS
from input_pipelines.record_files import writing

ALL = ("constant", "linear", "boosted_trees")
ROWS, EVALUATED = 2000, 600


def spec_of(head="binary", dtype="int64", **options):
    return feature_specs.parse({
        "features": {"a": {"dtype": "float32"}, "b": {"dtype": "float32"},
                     "q": {"dtype": "string"}, "city": {"dtype": "string"}},
        "columns": {"a": {"numeric": "a"}, "b": {"numeric": "b"},
                    "city": {"hash_bucket": "city", "size": 10}},
        "groups": {"deep": ["a", "b"], "wide": ["city"]},
        "labels": {"y": {"dtype": dtype}},
        "objectives": {"y": {"head": head, **options}},
        "ignored": [] if "group_by" in options else ["q"],
    })  # fmt: skip


@pytest.fixture
def compared(tmp_path, monkeypatch):
    """Compares a model, a function of a, b and random numbers, with reference models."""

    def compare(spec, label, model, names=ALL, **options):
        random = np.random.default_rng(3)
        a, b, noise = random.normal(size=(3, ROWS + EVALUATED))
        labels = label(a, b, random)
        rows = [
            {"a": float(a[i]), "b": float(b[i]), "y": labels[i].item(), "q": str(i // 10),
             "city": "xyz"[i % 3]}
            for i in range(len(a))
        ]  # fmt: skip
        train, evaluated = f"{tmp_path}/train.tfrecord", f"{tmp_path}/eval.tfrecord"
        writing.write_examples(train, rows[:ROWS])
        writing.write_examples(evaluated, rows[ROWS:])
        answers = np.asarray(model(a, b, noise), np.float64)[ROWS:]

        def asker(spec, export, objectives, outputs):
            assert export == "export"
            return lambda records: {name: answers[: len(records)] for name in objectives}

        monkeypatch.setattr(measured, "asker", asker)
        return references.compare(spec, "export", [train], [evaluated], names, **options)

    return compare


def xor(a, b, random):
    """1 if one of the numbers is above its threshold. Each number alone says nothing."""
    return ((a > 0.2) != (b > -0.1)).astype(np.int64)


def of_sum(a, b, random):
    return (random.random(len(a)) < 1 / (1 + np.exp(-2 * a - b))).astype(np.int64)


def test_the_heads_exist():
    assert set(HEADS) >= models.CLASSES | models.NUMBERS
    assert all(HEADS[name].main for name in models.CLASSES | models.NUMBERS)


def verdicts(found):
    return {name: each.verdict for name, each in found.objectives["y"].references.items()}


def test_trees_win_where_thresholds_matter(compared):
    found = compared(spec_of(), xor, lambda a, b, noise: 0.1 * a + noise)
    assert verdicts(found) == {"constant": "none", "linear": "none", "boosted_trees": "reference"}
    objective = found.objectives["y"]
    trees = objective.references["boosted_trees"]
    assert objective.metric == "auc" and trees.metrics["auc"] > 0.99
    assert trees.difference == pytest.approx(trees.metrics["auc"] - objective.model["auc"])
    assert trees.low < trees.difference < trees.high
    assert (found.train_rows, found.train_rows_of) == (ROWS, ROWS)
    assert (found.eval_rows, found.eval_rows_of) == (EVALUATED, EVALUATED)


def test_a_linear_model_ties_with_the_truth(compared):
    found = compared(spec_of(), of_sum, lambda a, b, noise: 2 * a + b, ALL[:2])
    assert verdicts(found) == {"constant": "model", "linear": "none"}
    # The constant has the AUC of equal scores, and the log loss of the training's rate.
    rate = np.mean(of_sum(*labels_of(3))[:ROWS])
    shown = found.objectives["y"].references["constant"].metrics
    labels = of_sum(*labels_of(3))[ROWS:]
    loss = -np.mean(labels * np.log(rate) + (1 - labels) * np.log(1 - rate))
    assert shown == pytest.approx({"auc": 0.5, "log_loss": loss})


def labels_of(seed):
    """The numbers from which `compared` makes its labels."""
    random = np.random.default_rng(seed)
    a, b, _ = random.normal(size=(3, ROWS + EVALUATED))
    return a, b, random


@pytest.mark.parametrize(
    ("spec", "label", "model", "expected"),
    [
        (  # The model lacks the product of the numbers.
            spec_of("regression", "float32"),
            lambda a, b, random: a * np.sign(b),
            lambda a, b, noise: 0 * a,
            {"constant": "none", "linear": "none", "boosted_trees": "reference"},
        ),
        (  # The model knows the expected count.
            spec_of("poisson", "float32"),
            lambda a, b, random: random.poisson(np.exp(a)).astype(np.float64),
            lambda a, b, noise: np.exp(a),
            {"constant": "model", "linear": "model"},
        ),
        (
            spec_of("multi_class", num_classes=3),
            lambda a, b, random: (a > 0).astype(np.int64) + 2 * ((b > 1) & (a <= 0)),
            lambda a, b, noise: np.tile([0.3, 0.5, 0.2], (len(a), 1)),
            {"constant": "none", "linear": "reference", "boosted_trees": "reference"},
        ),
        (
            spec_of("ranking", group_by="q"),
            lambda a, b, random: np.digitize(a + b, [0.5, 1.5]).astype(np.int64),
            lambda a, b, noise: noise,
            {"constant": "none", "linear": "reference", "boosted_trees": "reference"},
        ),
    ],
    ids=["regression", "poisson", "classes", "ranking"],
)
def test_other_heads(compared, spec, label, model, expected):
    assert verdicts(compared(spec, label, model, list(expected))) == expected


def test_samples(compared, monkeypatch):
    monkeypatch.setattr(references, "MOST_ROWS", 500)
    found = compared(spec_of(), xor, lambda a, b, noise: a, ["constant"], eval_rows=400)
    assert (found.train_rows, found.train_rows_of) == (500, ROWS)
    assert (found.eval_rows, found.eval_rows_of) == (400, 400)


def test_many_columns_take_fewer_rows(monkeypatch):
    """Three columns, of which words are one: 30,000 numbers are 10,000 rows, or a tenth of them."""
    monkeypatch.setattr(references, "MOST_CELLS", 30_000)
    assert references._most_rows(spec_of(), ["y"]) == 10_000
    monkeypatch.setattr(references, "MOST_CELLS", 300_000)
    assert references._most_rows(spec_of("multi_class", num_classes=10), ["y"]) == 10_000


def test_what_fails_has_its_reason_and_the_others_are_there(compared):
    def one_class(a, b, random):
        return np.concatenate([np.ones(ROWS), np.arange(EVALUATED) % 2]).astype(np.int64)

    found = compared(spec_of(), one_class, lambda a, b, noise: noise)
    shown = found.objectives["y"].references
    assert shown["linear"].error == "ValueError: all labels of the training rows are equal"
    assert shown["constant"].error is None and shown["constant"].verdict == "none"


def test_without_scikit_learn_only_the_constant_is_there(compared, monkeypatch):
    imported = builtins.__import__

    def without(name, *arguments, **named):
        if name.partition(".")[0] == "sklearn":
            raise ImportError("No module named 'sklearn'")
        return imported(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    found = compared(spec_of(), xor, lambda a, b, noise: a).objectives["y"].references
    assert found["constant"].error is None
    assert found["boosted_trees"].error == (
        "ConfigError: --reference_models needs the package scikit-learn, got: No module named "
        "'sklearn'. Install it with `pip install 'estimator-kit[reference]'`."
    )


def test_a_head_without_reference_models(compared):
    spec = feature_specs.parse({
        **spec_of().to_dict(),
        "labels": {"y": {"dtype": "int64", "shape": "variable"}},
        "objectives": {"y": {"head": "multi_label", "num_classes": 4}},
    })  # fmt: skip
    found = compared(spec, xor, lambda a, b, noise: a)
    assert found.objectives["y"].error == (
        "The head multi_label has no reference models. These have: binary, logistic_regression, "
        "multi_class, ordinal, poisson, ranking, regression, ziln."
    )
    assert found.export is None and found.train_rows == 0
