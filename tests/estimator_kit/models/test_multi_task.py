"""Models with several objectives, compared with NumPy: experts and weights of each objective."""

from __future__ import annotations

import numpy as np
import pytest

import feature_specs
from estimator_kit.models import MODELS
from tests.estimator_kit.models.graphs import evaluate, mlp, softmax

X = np.random.default_rng(5).normal(size=(6, 4)).astype(np.float32)


def shared(document, name, **params):
    model = MODELS[name](feature_specs.parse(document), {"hidden_units": [5, 3], **params})
    return evaluate(lambda x: model.shared(x, "eval"), X)


def mixed(v, gate, inputs, experts):
    weights = softmax(inputs @ v[f"{gate}/kernel"])
    return sum(weights[:, i : i + 1] * expert for i, expert in enumerate(experts))


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_one_bottom_for_all(document):
    found, v = shared(document, "shared_bottom")
    for name in ("click", "buy"):
        close(found[name], mlp(X, v, "bottom/", 2))


def test_every_objective_has_its_gate(document):
    found, v = shared(document, "mmoe", experts=3)
    experts = [mlp(X, v, f"expert_{i}/", 2) for i in range(3)]
    for name in ("click", "buy"):
        close(found[name], mixed(v, f"gate_{name}", X, experts))


@pytest.mark.parametrize("levels", [1, 2])
def test_objectives_mix_their_own_experts_with_the_shared_ones(document, levels):
    name, params = ("ple", {"levels": 2}) if levels == 2 else ("cgc", {})
    found, v = shared(document, name, own_experts=1, shared_experts=2, **params)
    parts = {"_of_click": X, "_of_buy": X, "_shared": X}
    for i in range(levels):
        level = f"level_{i}/"
        experts = {
            part: [
                mlp(inputs, v, f"{level}expert{part}_{e}/", 2)
                for e in range(2 if part == "_shared" else 1)
            ]
            for part, inputs in parts.items()
        }
        after = {
            part: mixed(v, f"{level}gate{part}", parts[part], experts[part] + experts["_shared"])
            for part in ("_of_click", "_of_buy")
        }
        if i < levels - 1:
            every = experts["_of_click"] + experts["_of_buy"] + experts["_shared"]
            after["_shared"] = mixed(v, f"{level}gate_shared", parts["_shared"], every)
        parts = after
    close(found["click"], parts["_of_click"])
    close(found["buy"], parts["_of_buy"])
    assert f"level_{levels - 1}/gate_shared/kernel" not in v
