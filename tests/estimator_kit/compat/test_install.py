"""Installation in fresh processes: what it adds, what it refuses, and what it does not change."""

import json

import pytest

from estimator_kit.compat import versions
from tests.estimator_kit.compat.support import run_code

HERE = versions.read()
OWN = HERE.has_own_estimator
MINOR = "{}.{}".format(*versions.minor_of(HERE.tensorflow))

later = pytest.mark.skipif(OWN, reason="TensorFlow 2.15 brings tf.estimator itself")
only_2_15 = pytest.mark.skipif(not OWN, reason="about TensorFlow 2.15")


def rare(*values):
    """Marks a case that is similar to another case, because each process takes seconds."""
    return pytest.param(*values, marks=pytest.mark.nightly)


# Prints the error of importing the package, then what a failed installation must not have changed.
FAIL = """
import os, sys
before = dict(os.environ)
try:
    import estimator_kit.compat as compat
except RuntimeError as error:
    print(type(error).__name__, error, sep="|")
assert dict(os.environ) == before
tf = sys.modules.get("tensorflow")
assert not hasattr(tf, "estimator")
assert not [n for n in sys.modules if n.startswith("tensorflow_estimator")]
assert "tensorflow.python.distribute.estimator_training" not in sys.modules
of_tpus = {"async_checkpoint", "session_support", "tpu_embedding", "tpu_estimator", "tpu_config"}
assert not of_tpus & {n.rpartition(".")[2] for n in sys.modules if ".tpu." in n and n[0] == "t"}
if tf is not None:
    from tensorflow.python.util import tf_export
    assert set(tf_export.API_ATTRS) == set(tf_export.API_ATTRS_V1) == {"tensorflow", "keras"}
    assert not any("tf_keras/api" in str(path) for path in tf.__path__)
    assert not [n for n in dir(tf.compat.v1.tpu.experimental) if n.endswith("Parameters")]
"""

# Pretends that packages have other versions: VERSIONS maps a package to a version or None.
PRETEND = """
import importlib.metadata
real = importlib.metadata.version
def version(name):
    if name in VERSIONS:
        if not VERSIONS[name]:
            raise importlib.metadata.PackageNotFoundError(name)
        return VERSIONS[name]
    return real(name)
importlib.metadata.version = version
"""


def error(*problems: str, tensorflow: str = HERE.tensorflow) -> str:
    """The whole text of the error."""
    return (
        f"UnsupportedTensorFlowError|tf.estimator cannot work on TensorFlow {tensorflow}:\n"
        + "".join(f"  - {problem}\n" for problem in problems)
        + "Supported: TensorFlow 2.15 to 2.21. Nothing was changed."
    )


@pytest.mark.ci
@pytest.mark.parametrize(
    "imports",
    [
        "import estimator_kit.compat; import tensorflow as tf",
        rare("import tensorflow as tf; import estimator_kit.compat"),
        rare("import tensorflow.compat.v1; import tensorflow as tf; import estimator_kit.compat"),
    ],
)
def test_estimator_is_in_every_namespace(imports):
    out = run_code(
        f"""
        {imports}
        import tensorflow.compat.v1 as v1
        import tensorflow.compat.v2 as v2
        from tensorflow import estimator
        import tensorflow.estimator
        from tensorflow.estimator.export import ServingInputReceiver
        from tensorflow.compat.v1.estimator.inputs import numpy_input_fn
        import tensorflow_estimator.python.estimator.api._v1.estimator as api_v1
        import tensorflow_estimator.python.estimator.api._v2.estimator as api_v2
        holders = {{
            api_v1: [v1, tf.compat.v1, tf.compat.v1.compat.v1, tf.compat.v2.compat.v1],
            api_v2: [tf, v2, tf.compat.v2, tf.compat.v1.compat.v2, tf.compat.v2.compat.v2],
        }}
        for api, modules in holders.items():
            for module in modules:
                assert module.estimator.DNNClassifier is api.DNNClassifier, module
        assert estimator.DNNClassifier is tf.estimator.DNNClassifier
        assert ServingInputReceiver is tf.estimator.export.ServingInputReceiver
        assert numpy_input_fn is tf.compat.v1.estimator.inputs.numpy_input_fn
        print(v1.estimator.DNNClassifier.__name__, tf.estimator.DNNClassifier.__name__)
        """
    )
    assert out == "DNNClassifier DNNClassifierV2"


@pytest.mark.ci
@later
@pytest.mark.parametrize(
    "imports",
    [
        rare("import estimator_kit.compat; import tensorflow as tf"),
        "import tensorflow as tf; import estimator_kit.compat",
    ],
)
def test_keras_is_tf_keras_everywhere(imports):
    out = run_code(
        f"""
        {imports}
        import tf_keras
        import tensorflow.compat.v1 as v1
        from tensorflow.keras import layers
        from tensorflow.keras.metrics import AUC
        from tensorflow.compat.v1.keras import initializers
        assert layers.Dense is tf.keras.layers.Dense is tf_keras.layers.Dense
        assert tf.compat.v2.keras.layers.Dense is tf_keras.layers.Dense
        assert v1.keras.layers.Dense is tf.compat.v1.keras.layers.Dense
        assert initializers.constant is v1.keras.initializers.constant
        assert AUC is tf_keras.metrics.AUC is tf.metrics.AUC
        assert v1.layers.dense.__module__.startswith("tf_keras."), v1.layers.dense.__module__
        assert v1.nn.rnn_cell.GRUCell.__module__.startswith("tf_keras.")
        """
    )
    assert out == ""


@pytest.mark.nightly
@later
def test_no_lazy_keras_loader_is_left_unresolved():
    out = run_code(
        """
        import estimator_kit.compat as compat
        from estimator_kit.compat import legacy_keras
        loaders = list(legacy_keras._loaders())
        print(len(loaders), {vars(loader)["_tfll_keras_version"] for _, loader in loaders})
        """
    )
    count, kinds = out.split(" ", 1)
    assert int(count) > 10
    assert kinds == "{'tf_keras'}"


@pytest.mark.ci
def test_installing_again_and_from_many_threads_changes_nothing():
    out = run_code(
        """
        import threading
        from concurrent.futures import ThreadPoolExecutor
        gate = threading.Barrier(8)
        def use(_):
            gate.wait()
            import estimator_kit.compat as compat
            compat.install()
            import tensorflow as tf
            return tf.estimator.Estimator
        with ThreadPoolExecutor(8) as pool:
            classes = set(pool.map(use, range(8)))
        import sys, estimator_kit.compat as compat, tensorflow as tf
        estimator, modules = tf.estimator, set(sys.modules)
        compat.install()
        compat.install()
        assert tf.estimator is estimator and set(sys.modules) == modules
        print(len(classes))
        """
    )
    assert out == "1"


# Prints what importing the package could have changed on TensorFlow 2.15.
STATE = """
import json, os, sys
import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.python.distribute import estimator_training
from tensorflow.python.util import tf_export
print(json.dumps({
    "environment": dict(os.environ),
    "modules": sorted(n for n in sys.modules if n.startswith(("tensorflow", "keras"))),
    "tf": sorted(vars(tf)),
    "v1": sorted(vars(v1)),
    "path": list(tf.__path__),
    "exports": sorted(tf_export.API_ATTRS),
    "training": estimator_training.__file__,
    "lazy": [type(vars(tf)[name]).__name__ for name in ("estimator", "keras")],
}))
"""


@only_2_15
def test_no_effect_on_2_15():
    install = """
import os, sys
before = dict(os.environ)
import estimator_kit.compat
assert dict(os.environ) == before
assert not [n for n in sys.modules if n.startswith(("tensorflow", "keras"))]
"""
    after, without = json.loads(run_code(install + STATE)), json.loads(run_code(STATE))
    assert after == without
    assert after["lazy"] == ["LazyLoader", "KerasLazyLoader"]
    assert after["training"].endswith("tensorflow/python/distribute/estimator_training.py")


@only_2_15
def test_2_15_refuses_legacy_keras_without_tf_keras():
    out = run_code(
        "VERSIONS = {'tf_keras': None}" + PRETEND + "import estimator_kit.compat",
        TF_USE_LEGACY_KERAS=None,
    )
    assert out == ""
    out = run_code(
        "VERSIONS = {'tf_keras': None}"
        + PRETEND
        + "try:\n    import estimator_kit.compat\nexcept RuntimeError as error:\n    print(error)",
        TF_USE_LEGACY_KERAS="1",
    )
    problem = "TF_USE_LEGACY_KERAS=1 breaks tf.keras without the package tf_keras. Unset it."
    assert "UnsupportedTensorFlowError|" + out == error(problem)


@pytest.mark.ci
@later
@pytest.mark.parametrize(
    ("before", "user"),
    [
        ("import tensorflow as tf; tf.keras.layers", "tensorflow.keras"),
        rare("from tensorflow.keras import layers", "import tensorflow.keras"),
        rare("import tensorflow as tf; tf.optimizers.Adam", "tensorflow.optimizers"),
    ],
)
def test_keras_3_in_use_is_one_error(before, user):
    assert run_code(before + "\n" + FAIL) == error(
        f"Keras 3 is already in use ({user}). Import estimator_kit.compat before tensorflow, or "
        "set TF_USE_LEGACY_KERAS=1."
    )


@later
def test_a_no_in_the_variable_is_one_error():
    assert run_code(FAIL, TF_USE_LEGACY_KERAS="0") == error(
        "TF_USE_LEGACY_KERAS: expected '1', got '0'. Set it to 1, or unset it."
    )


@later
def test_all_version_problems_are_in_one_error_and_tensorflow_is_not_imported():
    code = "VERSIONS = {'tf_keras': None, 'tensorflow-estimator': '2.14.0'}" + PRETEND + FAIL
    assert run_code(code + "assert not tf") == error(
        "expected tensorflow-estimator 2.15.0, got 2.14.0. Install it with "
        "`pip install tensorflow-estimator==2.15.0`.",
        f"expected tf_keras {MINOR} (Keras 2), got none. Install it with "
        f'`pip install "tf_keras=={MINOR}.*"`.',
    )


@later
def test_tf_keras_of_another_minor_version_is_an_error():
    assert run_code("VERSIONS = {'tf_keras': '2.99.0'}" + PRETEND + FAIL) == error(
        f"expected tf_keras {MINOR} (Keras 2), got 2.99.0. Install it with "
        f'`pip install "tf_keras=={MINOR}.*"`.'
    )


def test_tensorflow_before_2_15_is_an_error():
    names = ["tensorflow", "tensorflow-cpu"]
    pretend = f"VERSIONS = dict.fromkeys({names}, '2.14.1'); VERSIONS['tf_keras'] = '2.14.0'"
    code = "try:\n    import estimator_kit.compat\nexcept RuntimeError as error:\n    print(error)"
    out = run_code(pretend + PRETEND + code)
    assert "UnsupportedTensorFlowError|" + out == error(
        'this TensorFlow is older than 2.15. Upgrade it with `pip install "tensorflow>=2.15"`.',
        tensorflow="2.14.1",
    )


@pytest.mark.ci
@later
@pytest.mark.parametrize("before", [rare(""), "import tensorflow as tf\n"])
def test_missing_private_names_are_one_error_that_can_be_repaired(before):
    out = run_code(
        before
        + """
import os
from tensorflow.python.distribute import distribute_coordinator as coordinator
from tensorflow.python.framework import ops
taken = coordinator.run_distribute_coordinator, ops.uid
del coordinator.run_distribute_coordinator, ops.uid
"""
        + FAIL
        + """
coordinator.run_distribute_coordinator, ops.uid = taken
import estimator_kit.compat
assert tf.estimator.Estimator and os.environ["TF_USE_LEGACY_KERAS"] == "1"
"""
    )
    assert out == error(
        "tensorflow.python.distribute.distribute_coordinator.run_distribute_coordinator is "
        "missing: distribution strategies over several tasks",
        "tensorflow.python.framework.ops.uid is missing: graphs of heads and canned models",
    )


@pytest.mark.nightly
@later
def test_a_private_module_that_breaks_at_its_import_is_named():
    out = run_code(
        """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "tensorflow.python.training.evaluation":
            raise TypeError("broken by a new Python")
sys.meta_path.insert(0, Finder())
"""
        + FAIL
    )
    module, why = "tensorflow.python.training.evaluation", "Estimator.evaluate"
    assert out == error(
        *(
            f"{module}.{name} cannot be imported (TypeError: broken by a new Python): {why}"
            for name in ("_MultiStepStopAfterNEvalsHook", "_StopAfterNEvalsHook", "_evaluate_once",
                         "_get_or_create_eval_step")
        )
    )  # fmt: skip


@pytest.mark.nightly
@later
def test_a_missing_public_name_is_the_same_error_and_can_be_repaired():
    out = run_code(
        """
import tensorflow as tf
import tensorflow.compat.v1
taken = tf.compat.v1.train.SessionRunHook
del tf.compat.v1.train.SessionRunHook
"""
        + FAIL
        + """
tf.compat.v1.train.SessionRunHook = taken
import estimator_kit.compat
assert tf.estimator.SessionRunHook is taken
"""
    )
    assert out == error(
        "AttributeError: module 'tensorflow._api.v2.compat.v1.train' has no attribute "
        "'SessionRunHook'"
    )


@pytest.mark.nightly
@later
def test_a_tensorflow_estimator_that_was_imported_in_vain_is_no_obstacle():
    out = run_code(
        """
        try:
            import tensorflow_estimator
        except Exception as error:
            print(type(error).__name__)
        import estimator_kit.compat
        import tensorflow as tf
        assert tf.estimator.DNNClassifier
        """
    )
    assert out == "ImportError"


@pytest.mark.parametrize("name", [rare("write_examples"), "ModelFn", rare("feature_columns")])
def test_the_kits_own_names_install_before_they_need_tensorflow(name):
    out = run_code(
        f"""
        import sys
        import estimator_kit as ek
        ek.FeatureSpec, ek.ExperimentConfig, ek.DataError
        assert not [m for m in sys.modules if m.startswith(("tensorflow", "estimator_kit.compat"))]
        ek.{name}
        import tensorflow as tf
        tf.keras.metrics.Mean()
        ek.ModelFn
        print(tf.estimator.ModeKeys.TRAIN)
        """
    )
    assert out == "train"


# Changes a module of the package when it is imported: MODULE, CHANGE(module).
CHANGING = """
import sys
from importlib.machinery import PathFinder
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name != MODULE:
            return None
        spec = PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        def and_change(module):
            execute(module)
            CHANGE(module)
        spec.loader.exec_module = and_change
        return spec
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.nightly
@later
def test_after_a_failure_keras_is_what_it_is_without_the_package():
    out = run_code(
        """
MODULE = "estimator_kit.compat.private_names"
def CHANGE(module):
    module.OURS += module.names(("tensorflow.nowhere", "name", "a test"))
"""
        + CHANGING
        + FAIL
        + """
assert tf is not None
from tensorflow.keras import layers
assert layers.Dense is tf.keras.layers.Dense
assert tf.keras.__version__.startswith("3.")
"""
    )
    assert out == error("tensorflow.nowhere.name is missing: a test")


@pytest.mark.nightly
@later
def test_the_keras_that_tensorflow_takes_in_the_end_is_looked_at():
    out = run_code(
        """
import tensorflow as tf
tf.keras.layers
MODULE = "estimator_kit.compat.legacy_keras"
def CHANGE(module):
    module._user_of_keras_3 = lambda: None
"""
        + CHANGING
        + FAIL
    )
    start = "TensorFlow did not load tf_keras: tf.keras.Model comes from "
    assert out == error(start + "keras.src.models.model")


@pytest.mark.nightly
@later
def test_a_newer_tensorflow_with_every_name_is_a_warning():
    out = run_code(
        """
        import warnings
        VERSIONS = {"tf_keras": "2.99.0"}
        """
        + PRETEND.replace("\n", "\n        ")
        + """
        import tensorflow as tf
        tf.__version__ = "2.99.0"
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            import estimator_kit.compat as compat
        print([str(w.message) for w in seen if "newer" in str(w.message)])
        assert tf.estimator.Estimator
        """
    )
    assert out == (
        "['TensorFlow 2.99.0 is newer than the supported versions 2.15 to 2.21. All private names "
        "exist, but no test ran with it.']"
    )
