"""The replacement of the code between RunConfig and the distribute coordinator.

Expected values are written by hand; on TensorFlow 2.15 they are also compared with the original.
"""

import json
from types import SimpleNamespace
from typing import ClassVar

import pytest
import tensorflow as tf
from tensorflow.python.distribute import distribute_coordinator_context
from tensorflow_estimator.python.estimator import run_config as run_config_lib

from estimator_kit.compat import estimator_training as ours
from estimator_kit.compat import versions

IMPLEMENTATIONS = [ours]
if versions.read().has_own_estimator:
    from tensorflow.python.distribute import estimator_training as original

    IMPLEMENTATIONS.append(original)

CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1", "e:1"]}


@pytest.fixture(params=IMPLEMENTATIONS, ids=lambda module: module.__name__.split(".")[0])
def glue(request, monkeypatch):
    """The replacement and, on 2.15, the original. Both must pass the tests."""
    monkeypatch.setattr(run_config_lib, "distribute_coordinator_training", request.param)
    return request.param


@pytest.fixture
def strategy():
    return tf.distribute.OneDeviceStrategy("/cpu:0")


def config_with(monkeypatch, tf_config, **kwargs):
    monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
    return tf.estimator.RunConfig(model_dir="/nowhere", **kwargs)


def place_of(config):
    return (
        config._distribute_coordinator_mode,
        config.task_type,
        config.task_id,
        config.is_chief,
        config.master,
        config.global_id_in_cluster,
        config.num_worker_replicas,
        config.num_ps_replicas,
        sorted(config.cluster_spec.jobs),
    )


def task(task_type, index=0, cluster=CLUSTER):
    return {"cluster": cluster, "task": {"type": task_type, "index": index}}


LOCAL = ("worker", 0, True, "", 0, 1, 0)
JOBS = ["chief", "ps", "worker"]


@pytest.mark.parametrize(
    ("tf_config", "expected"),
    [
        ({}, (None, *LOCAL, [])),
        # With a coordinator: the cluster is known, but the task is not known yet.
        (task("worker", 1), ("independent_worker", *LOCAL, JOBS)),
        (task("evaluator"), ("independent_worker", *LOCAL, JOBS)),
        # With a master the mode is classic.
        (
            task("worker", 1, {"master": ["a:1"], "worker": ["b:1", "c:1"]}),
            (None, "worker", 1, False, "grpc://c:1", 2, 3, 0, ["master", "worker"]),
        ),
    ],
    ids=["local", "worker", "evaluator", "master"],
)
def test_init_run_config_with_a_train_strategy(glue, strategy, monkeypatch, tf_config, expected):
    config = config_with(monkeypatch, tf_config, train_distribute=strategy)
    assert place_of(config) == expected
    assert config.train_distribute is strategy


@pytest.mark.parametrize(
    ("tf_config", "expected"),
    [
        (task("chief"), (None, "chief", 0, True, "grpc://a:1", 0, 3, 2, JOBS)),
        (task("worker", 1), (None, "worker", 1, False, "grpc://c:1", 2, 3, 2, JOBS)),
        (task("ps", 1), (None, "ps", 1, False, "grpc://e:1", 4, 3, 2, JOBS)),
        (task("evaluator"), (None, "evaluator", 0, False, "", None, 0, 0, [])),
    ],
    ids=["chief", "worker", "ps", "evaluator"],
)
def test_without_a_train_strategy_it_is_classic(glue, strategy, monkeypatch, tf_config, expected):
    config = config_with(monkeypatch, tf_config, eval_distribute=strategy)
    assert place_of(config) == expected
    filters = {
        "chief": ["/job:ps", "/job:chief"],
        "worker": ["/job:ps", "/job:worker/task:1"],
        "ps": ["/job:ps", "/job:worker", "/job:chief", "/job:master"],
    }
    if config.task_type in filters:
        assert list(config.session_config.device_filters) == filters[config.task_type]
    else:
        assert config.session_config is None


def experimental(**kwargs):
    fields = {"train_distribute": None, "eval_distribute": None, "remote_cluster": None}
    return SimpleNamespace(**{**fields, **kwargs})


def test_experimental_distribute_fills_in(glue, strategy, monkeypatch):
    remote = tf.train.ClusterSpec({"worker": ["b:1", "c:1"]})
    config = config_with(
        monkeypatch,
        {},
        experimental_distribute=experimental(
            train_distribute=strategy, eval_distribute=strategy, remote_cluster=remote
        ),
    )
    assert config.train_distribute is config.eval_distribute is strategy
    assert config._distribute_coordinator_mode == "standalone_client"
    assert config.cluster_spec is remote
    assert glue.should_run_distribute_coordinator(config)


@pytest.mark.parametrize("field", ["train_distribute", "eval_distribute"])
def test_a_strategy_given_twice_is_an_error(glue, strategy, monkeypatch, field):
    with pytest.raises(ValueError, match=field):
        config_with(
            monkeypatch,
            {},
            experimental_distribute=experimental(**{field: strategy}),
            **{field: strategy},
        )


def test_the_words_of_a_strategy_given_twice(strategy, monkeypatch):
    with pytest.raises(ValueError) as error:
        ours.init_run_config(
            SimpleNamespace(
                _experimental_distribute=experimental(train_distribute=strategy),
                _train_distribute=strategy,
            ),
            {},
        )
    assert str(error.value) == (
        "train_distribute: expected it once, got it both in RunConfig and in its "
        "experimental_distribute. Remove one of them."
    )


def test_a_cluster_given_twice_is_an_error(glue, strategy, monkeypatch):
    with pytest.raises(ValueError, match=r"experimental_distribute\.remote_cluster"):
        config_with(
            monkeypatch,
            task("chief"),
            experimental_distribute=experimental(
                train_distribute=strategy, remote_cluster=tf.train.ClusterSpec({"worker": ["b:1"]})
            ),
        )


@pytest.mark.parametrize(
    ("mode", "cluster", "expected"),
    [
        (None, {"worker": ["b:1"]}, False),
        ("independent_worker", {"worker": ["b:1"]}, True),
        ("standalone_client", {"worker": ["b:1"]}, True),
        ("independent_worker", {}, False),
        ("something else", {"worker": ["b:1"]}, False),
    ],
)
def test_should_run_distribute_coordinator(glue, mode, cluster, expected):
    config = SimpleNamespace(
        _distribute_coordinator_mode=mode, cluster_spec=tf.train.ClusterSpec(cluster)
    )
    assert glue.should_run_distribute_coordinator(config) is expected


def test_should_run_distribute_coordinator_without_a_mode(glue):
    assert glue.should_run_distribute_coordinator(SimpleNamespace()) is False


@pytest.mark.parametrize(
    ("cluster", "task_type", "task_id", "expected"),
    [
        # global id, workers, parameter servers, jobs
        ({}, None, None, (0, 1, 0, [])),
        (CLUSTER, "chief", 0, (0, 3, 2, JOBS)),
        (CLUSTER, "worker", 1, (2, 3, 2, JOBS)),
        (CLUSTER, "ps", 1, (4, 3, 2, JOBS)),
        (CLUSTER, None, None, (0, 3, 2, JOBS)),
        ({"worker": ["b:1", "c:1"]}, "worker", 1, (1, 2, 0, ["worker"])),
        ({"evaluator": ["f:1"]}, "evaluator", 0, (None, 0, 0, [])),
    ],
)
def test_place_in_the_cluster(glue, cluster, task_type, task_id, expected):
    take_place = getattr(glue, "_take_place", None) or glue._init_run_config_from_worker_context
    config = SimpleNamespace()
    context = SimpleNamespace(
        cluster_spec=tf.train.ClusterSpec(cluster),
        task_type=task_type,
        task_id=task_id,
        master_target="grpc://x:1",
        is_chief=task_type == "chief",
    )
    take_place(config, context)
    assert (
        config._global_id_in_cluster,
        config._num_worker_replicas,
        config._num_ps_replicas,
        sorted(config._cluster_spec.jobs),
    ) == expected
    assert (config._task_type, config._task_id) == (task_type, task_id)
    assert config._master == config._evaluation_master == "grpc://x:1"
    assert config._is_chief is (task_type == "chief")
    assert config._service is None


class FakeEstimator:
    """Records what is trained. It has the fields that the module reads."""

    trained: ClassVar[list] = []

    def __init__(self, mode, strategy, cluster):
        self._config = SimpleNamespace(
            _distribute_coordinator_mode=mode,
            _train_distribute=strategy,
            _eval_distribute=strategy,
            train_distribute=strategy,
            eval_distribute=strategy,
            cluster_spec=tf.train.ClusterSpec(cluster),
            session_config=None,
        )

    @property
    def config(self):
        return self._config

    def __deepcopy__(self, memo):
        config = self._config
        return FakeEstimator(
            config._distribute_coordinator_mode, None, config.cluster_spec.as_dict()
        )

    def train(self, input_fn, max_steps, hooks):
        self.trained.append((self._train_distribution, self._config._train_distribute, hooks))
        assert self._config._distribute_coordinator_mode is None


@pytest.fixture
def coordinator(monkeypatch):
    """A coordinator that runs the chief, a worker and the evaluator in turn, in this thread."""
    from tensorflow.python.distribute import distribute_coordinator

    calls = []

    def run(worker_fn, strategy, eval_fn=None, eval_strategy=None, **kwargs):
        calls.append(kwargs)
        results = []
        cluster = kwargs["cluster_spec"] or tf.train.ClusterSpec(CLUSTER)
        for task_type, function, given in [
            ("chief", worker_fn, strategy),
            ("worker", worker_fn, strategy),
            ("evaluator", eval_fn, eval_strategy),
        ]:
            if function is None:
                continue
            context = SimpleNamespace(
                cluster_spec=cluster,
                task_type=task_type,
                task_id=0,
                master_target="grpc://x:1",
                is_chief=task_type == "chief",
            )
            monkeypatch.setattr(
                distribute_coordinator_context, "get_current_worker_context", lambda c=context: c
            )
            results.append(function(given))
        return results

    monkeypatch.setattr(distribute_coordinator, "run_distribute_coordinator", run)
    FakeEstimator.trained.clear()
    return calls


@pytest.mark.parametrize(
    ("mode", "hooks_of_worker"), [("independent_worker", ["hook"]), ("standalone_client", [])]
)
def test_train_and_evaluate(glue, coordinator, strategy, mode, hooks_of_worker):
    evaluated = []

    class Executor:
        def __init__(self, estimator, train_spec, eval_spec):
            self._parts = estimator._eval_distribution, train_spec, eval_spec

        def _start_continuous_evaluation(self):
            evaluated.append(self._parts)

    estimator = FakeEstimator(mode, strategy, CLUSTER)
    train_spec = SimpleNamespace(input_fn=None, max_steps=1, hooks=["hook"])
    eval_spec = SimpleNamespace()
    glue.train_and_evaluate(estimator, train_spec, eval_spec, Executor)
    assert estimator.trained == [
        (strategy, strategy, ["hook"]),
        (strategy, strategy, hooks_of_worker),
    ]
    assert evaluated == [(strategy, train_spec, eval_spec)]
    assert coordinator[0]["mode"] == mode
    has_cluster = coordinator[0]["cluster_spec"] is not None
    assert has_cluster is (mode == "standalone_client")


def test_train_and_evaluate_without_a_mode(glue, strategy):
    with pytest.raises(ValueError, match="coordinator mode"):
        glue.train_and_evaluate(FakeEstimator(None, strategy, CLUSTER), None, None, None)


def test_estimator_train_and_evaluate_from_one_client(glue, coordinator, strategy):
    estimator = FakeEstimator("standalone_client", strategy, CLUSTER)
    seen = []

    def run(task, given, hooks):
        assert task is not estimator
        seen.append((task._config._task_type, given, hooks))
        return "metrics"

    trained = glue.estimator_train(estimator, run, ["hook"])
    assert [type(each) for each in trained] == [FakeEstimator, FakeEstimator]
    assert seen == [("chief", strategy, ["hook"]), ("worker", strategy, [])]
    assert glue.estimator_evaluate(estimator, run, ["hook"]) == ["metrics", "metrics"]
    assert [call["mode"] for call in coordinator] == ["standalone_client"] * 2


@pytest.mark.parametrize("function", ["estimator_train", "estimator_evaluate"])
@pytest.mark.parametrize(
    ("mode", "cluster", "words"),
    [
        ("independent_worker", CLUSTER, "train_and_evaluate"),
        ("standalone_client", {**CLUSTER, "evaluator": ["f:1"]}, "evaluator"),
    ],
)
def test_what_one_client_cannot_do(glue, strategy, function, mode, cluster, words):
    estimator = FakeEstimator(mode, strategy, cluster)
    if glue is not ours and mode == "independent_worker":
        words = "STANDALONE_CLIENT"
    with pytest.raises(ValueError, match=words):
        getattr(glue, function)(estimator, None, [])


def test_between_graph_strategies_cannot_be_driven_by_one_client(glue):
    between_graph = SimpleNamespace(extended=SimpleNamespace(experimental_between_graph=True))
    with pytest.raises(ValueError, match="SimpleNamespace"):
        glue.estimator_train(FakeEstimator("standalone_client", between_graph, CLUSTER), None, [])
