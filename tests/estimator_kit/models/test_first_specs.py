"""Models that read special groups start with any first spec of `--mode=analyze`."""

from __future__ import annotations

import csv
import random

import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.models import find_model
from estimator_kit.tf_estimator import ModeKeys
from input_pipelines import input_fns
from input_pipelines.prepare.analyze import first_spec
from input_pipelines.prepare.convert import conversion

ROWS = 600


def categories(rng, i):
    return {"color": rng.choice("abc"), "city": f"c{rng.randrange(40)}", "tag": f"t{i % 25}"}


def numbers(rng, i):
    return {"age": rng.randrange(18, 90), "price": round(rng.lognormvariate(2, 1), 2)}


def people_and_items(rng, i):
    return {"user_id": rng.randrange(50), "item_id": f"i{rng.randrange(30)}", **numbers(rng, i)}


@pytest.fixture(scope="module", params=[categories, numbers, people_and_items])
def first(request, tmp_path_factory):
    """A first spec of a small table, and a batch of its rows."""
    place, rng = tmp_path_factory.mktemp("first"), random.Random(0)
    rows = [{**request.param(rng, i), "click": i % 2} for i in range(ROWS)]
    with open(place / "a.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    first = first_spec.write(
        [f"{place}/a.csv"], labels=["click"], directory=f"{place}/first", min_count=2
    )
    spec = feature_specs.load(first.path)
    conversion.convert([f"{place}/a.csv"], directory=f"{place}/data", spec=spec)
    return request.param, spec, sorted(map(str, place.glob("data/data-*")))


def loss_of(name, spec, paths, **params):
    """The loss of the model on a batch, with its first values."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        model = find_model(name)(spec, params)
        dataset = input_fns.eval_input_fn(spec, paths, batch_size=64)()
        rows = tf.compat.v1.data.make_initializable_iterator(dataset)
        features, labels = rows.get_next()
        result = model(features, labels, ModeKeys.TRAIN)
        session.run([tf.compat.v1.tables_initializer(), tf.compat.v1.global_variables_initializer(),
                     tf.compat.v1.local_variables_initializer()])  # fmt: skip
        session.run(rows.initializer)
        return session.run(result.loss)


@pytest.mark.parametrize("name", ["fm", "deepfm", "xdeepfm", "autoint", "dcn"])
def test_models_of_fields_start(first, name):
    _, spec, paths = first
    assert 0.3 < loss_of(name, spec, paths) < 3.0


def test_two_tower_starts_with_people_and_items(first):
    kind, spec, paths = first
    if kind is people_and_items:
        assert 0 < loss_of("two_tower", spec, paths, item_id="item_id") < 100
    else:
        assert not {"user", "item"} & set(spec.groups)
