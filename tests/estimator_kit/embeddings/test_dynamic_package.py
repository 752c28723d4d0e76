"""What is said where dynamic embeddings cannot be had; runs without their package."""

from __future__ import annotations

import sys

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.embeddings import dynamic_package, dynamic_problems
from estimator_kit.errors import ConfigError

PACKAGE = "tensorflow_recommenders_addons"
SPEC = ek.parse_spec(
    {
        "features": {"user": {"dtype": "string", "default": ""}},
        "columns": {"user_emb": {"dynamic_embedding": "user", "dimension": 4}},
        "groups": {"deep": ["user_emb"]},
        "labels": {"y": {"dtype": "int64"}},
        "objectives": {"y": {"head": "binary"}},
    }
)


class Model(ek.ModelFn):
    def logits(self, features, mode):
        return self.dense_input(features, "deep")[:, :1]


@pytest.fixture
def absent(monkeypatch):
    monkeypatch.setattr(tf, "__version__", "2.15.1")
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    monkeypatch.setitem(sys.modules, f"{PACKAGE}.dynamic_embedding", None)


def export_with(folder, ops: bytes) -> str:
    (folder / "saved_model.pb").write_bytes(b"\x08\x01" + ops)
    return str(folder)


def test_a_model_says_what_to_install(absent):
    with pytest.raises(ConfigError) as error:
        Model(SPEC)
    assert str(error.value) == (
        "the dynamic_embedding 'user_emb' needs the package 'tensorflow-recommenders-addons'. "
        "Install it with: pip install 'estimator-kit[dynamic]'"
    )


def test_a_model_says_which_tensorflow_it_needs(monkeypatch):
    monkeypatch.setattr(tf, "__version__", "2.16.2")
    with pytest.raises(ConfigError) as error:
        Model(SPEC)
    assert str(error.value) == (
        "the dynamic_embedding 'user_emb' needs tensorflow-recommenders-addons 0.7.2, which needs "
        "TensorFlow 2.15.1 or older, got 2.16.2. Run it in an environment with TensorFlow 2.15.1 "
        "(pip install 'estimator-kit[dynamic]')."
    )


def test_a_package_that_cannot_be_imported_is_told_apart(absent, monkeypatch):
    def broken(name):
        raise ImportError("libtensorflow_framework.so.2: not found")

    monkeypatch.setattr(dynamic_package.importlib, "import_module", broken)
    with pytest.raises(ConfigError, match=r"cannot be imported \(libtensorflow_framework"):
        dynamic_package.library("it")


def test_an_export_says_what_loading_it_needs(absent, tmp_path):
    path = export_with(tmp_path, b"TFRA>CuckooHashTableFind")
    with pytest.raises(ConfigError) as error:
        dynamic_package.load_ops_of(path)
    assert str(error.value) == (
        f"{path}, a SavedModel with dynamic embeddings, needs the package "
        "'tensorflow-recommenders-addons'. Install it with: "
        "pip install 'estimator-kit[dynamic]'"
    )


def test_other_exports_need_nothing(absent, tmp_path):
    assert dynamic_package.op_libraries(export_with(tmp_path, b"Gather")) == []
    dynamic_package.load_ops_of(str(tmp_path))
    dynamic_package.load_ops_of(str(tmp_path / "none"))


def test_the_reference_reading_refuses_one():
    with pytest.raises(ValueError) as error:
        ek.feature_columns(SPEC, "deep")
    assert str(error.value) == (
        "<dict>: column 'user_emb' is a dynamic_embedding, and tf.feature_column has no such "
        "column. Train it with a ModelFn, or use an embedding of a hash_bucket column."
    )


@pytest.mark.parametrize("strategy", ["mirrored", "multi_worker_mirrored", "sync_replicas"])
def test_strategies_that_step_together_are_refused(strategy):
    with pytest.raises(ConfigError) as error:
        dynamic_problems.check_strategy(SPEC, strategy)
    assert str(error.value) == (
        f"--strategy={strategy} cannot be combined with the dynamic_embedding 'user_emb'. Train "
        "with one process, or with --strategy=parameter_server."
    )
    dynamic_problems.check_strategy(SPEC, "parameter_server")
    dynamic_problems.check_strategy(SPEC, None)


@pytest.mark.parametrize("kind", ["freeze", "optimize"])
def test_an_export_of_constants_alone_is_refused(tmp_path, kind):
    path = export_with(tmp_path, b"TFRA>CuckooHashTableFind")
    with pytest.raises(ConfigError) as error:
        dynamic_problems.check_transform(path, kind)
    assert str(error.value) == (
        f"--transform={kind} cannot be combined with {path}, which has dynamic embeddings: their "
        "tables cannot become constants of a graph. Use text or binary."
    )
    dynamic_problems.check_transform(path, "text")
