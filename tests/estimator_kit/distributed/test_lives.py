"""Marks and watches, placement of variables, and who may connect; without real processes."""

from __future__ import annotations

import dataclasses
import ipaddress
import signal
import socket
import sys
import types
from collections import Counter
from unittest import mock

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.config.areas.cluster import local_jobs
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.modes import command_of, counted
from estimator_kit.distributed import all_reduce, evaluation, launcher, servers, sessions
from estimator_kit.distributed import chief as chief_module
from estimator_kit.distributed.lost_tasks import Watch
from estimator_kit.distributed.parameter_server import ParameterServerChief
from estimator_kit.distributed.waiting import Marks, goal_of, reachable, wait_for, wait_until
from estimator_kit.result import RunResult
from estimator_kit.training.hooks.stop import StopRequest
from feature_specs.spec import FeatureSpec


@pytest.fixture
def server():
    """A socket that listens on every interface, as TensorFlow's servers do."""
    with socket.socket() as listening_socket:
        listening_socket.bind(("", 0))
        listening_socket.listen()
        yield listening_socket.getsockname()[1]


def free_address() -> str:
    return f"127.0.0.1:{launcher.free_ports(1)[0]}"


@pytest.mark.skipif(sys.platform != "linux", reason="filters of the Linux kernel")
def test_a_server_takes_connections_at_its_address_alone(server):
    assert reachable(f"127.0.0.1:{server}") and reachable(f"127.0.0.2:{server}")
    servers.keep_to(servers.own_addresses(f"127.0.0.1:{server}"), server)
    assert reachable(f"127.0.0.1:{server}")
    assert not reachable(f"127.0.0.2:{server}", 0.3)


@pytest.mark.skipif(sys.platform != "linux", reason="filters of the Linux kernel")
def test_a_server_may_be_kept_to_any_own_address(server):
    servers.keep_to([ipaddress.ip_address("127.0.0.3")], server)
    assert reachable(f"127.0.0.3:{server}") and reachable(f"127.0.0.1:{server}")
    assert not reachable(f"127.0.0.2:{server}", 0.3)


def test_addresses_that_are_not_of_this_machine():
    with pytest.raises(ek.ConfigError) as error:
        servers.own_addresses("203.0.113.7:2222")
    assert str(error.value) == (
        "203.0.113.7:2222: expected an address of this machine for this task in TF_CONFIG, so that "
        "its server can be restricted to it. Use an address of this machine (in Kubernetes the "
        "pod's address, from a headless service), or set --listen_on_all_interfaces."
    )
    with pytest.raises(ek.ConfigError, match="the host of this task's address in TF_CONFIG is unk"):
        servers.own_addresses("nowhere.invalid:2222")


def test_waiting_names_those_that_are_not_there(server, caplog):
    away, now = free_address(), iter(range(0, 100, 4))
    tasks = [("ps:0", f"127.0.0.1:{server}"), ("ps:1", away)]
    caplog.set_level("INFO", "estimator_kit")
    with pytest.raises(tf.errors.UnavailableError) as error:
        wait_for(tasks, this="chief:0", seconds=6, clock=lambda: float(next(now)))
    assert error.value.message == (
        f"chief:0 waited 6 seconds for the server of ps:1 at {away}. Check that it runs and that "
        "this machine can reach it, or raise --cluster_timeout_secs."
    )
    assert f"chief:0 waits for the server of ps:1 at {away}, up to 2 seconds" in caplog.text
    assert wait_for(tasks[:1], this="chief:0", seconds=6)
    assert not wait_until(lambda: ["x"], what="", this="", seconds=9, over=lambda: True)


def view(server: int) -> ClusterView:
    return ClusterView(f"127.0.0.1:{server}", (), (free_address(),), (), "ps", 0)


def chief_at(server: int) -> ClusterView:
    return dataclasses.replace(view(server), task_type="chief")


GOAL = {"max_steps": 100, "train_files": ["a"]}


def watching(marks: Marks, a_view: ClusterView, seconds: float = 60.0) -> Watch:
    times = iter(range(0, 10_000, 5))
    return Watch(a_view, marks, seconds=seconds, goal=GOAL, clock=lambda: float(next(times)))


def test_an_end_counts_when_it_is_new(tmp_path, server):
    marks = Marks(str(tmp_path))
    watch = watching(marks, view(server))
    assert not watch._look()
    marks.write("end", status="stopped")
    assert watch._look() and watch.end.status == "stopped"


def test_an_old_end_counts_when_the_chief_is_gone(tmp_path, server):
    marks = Marks(str(tmp_path))
    marks.write("end", status="done", goal=GOAL)
    there = watching(marks, view(server))
    assert not any(there._look() for _ in range(10))
    gone = watching(marks, view(launcher.free_ports(1)[0]))
    looks = [gone._look() for _ in range(4)]
    assert looks == [False, False, True, True] and gone.end.status == "done"


def test_an_old_end_of_another_goal_is_no_end_of_this_training(tmp_path):
    marks = Marks(str(tmp_path))
    marks.write("end", status="done", goal={**GOAL, "max_steps": 50})
    watch = watching(marks, view(launcher.free_ports(1)[0]), seconds=30.0)
    assert [watch._look() for _ in range(6)] == [False] * 5 + [True]
    assert watch.gone == "chief:0" and watch.end is None


def a_spec(content="a"):
    spec = mock.create_autospec(FeatureSpec)
    spec.fingerprint = lambda aspects, sections: content
    return spec


def goal(mode="train_and_evaluate", content="a", **changes):
    given = {"train_files": ("t",), "eval_files": ("e",), "max_steps": 5} | changes
    given = {name: value for name, value in given.items() if value is not None}
    config = ek.ExperimentConfig(mode=mode, spec="s", model_dir="m", **given)
    return goal_of(config, a_spec(content))


@pytest.mark.parametrize(
    "changes",
    [
        {"mode": "train"}, {"content": "b"}, {"max_steps": 6}, {"max_steps": None, "epochs": 1},
        {"batch_size": 7}, {"seed": 2}, {"shuffle": False}, {"keep_negatives": "click:0.1"},
        {"train_files": ("u",)}, {"train_files": ("dt=*/t",), "train_days": "2026-01-01"},
        {"train_files": None, "train_mix": ("t=1", "u=2")}, {"eval_files": ("f",)},
        {"eval_steps": 3}, {"model": "dnn"}, {"model_params": {"learning_rate": 0.5}},
        {"corrupt_data_policy": "skip_record"}, {"warm_start_from": "w"},
        {"early_stopping_metric": "loss"}, {"best_metric": "auc"},
    ],
    ids=lambda changes: "-".join(changes),
)  # fmt: skip
def test_what_changes_a_training_is_another_goal(changes):
    assert goal(**changes) != goal()


@pytest.mark.parametrize("mode", ["train", "train_and_evaluate"])
def test_every_setting_that_changes_a_result_is_in_the_goal(mode):
    aspects = ("rows", "values", "weights", "outputs", "training", "scores")
    assert (
        counted(mode, aspects) < goal(mode, eval_files=None if mode == "train" else ("e",)).keys()
    )


def test_patience_is_another_goal():
    stops = {"early_stopping_metric": "loss"}
    assert goal(**stops, early_stopping_patience=2) != goal(**stops, early_stopping_patience=3)


@pytest.mark.parametrize(
    "changes",
    [{"report": "off"}, {"profile": "5..10"}, {"cluster_timeout_secs": 5}, {"log_every_secs": 5}],
    ids=lambda changes: "-".join(changes),
)
def test_what_changes_no_result_is_the_same_goal(changes):
    assert goal(**changes) == goal()


def test_an_end_of_an_earlier_version_is_no_end_of_this_training(tmp_path):
    """It stored fewer settings. All tasks wait for the chief, which writes a new mark."""
    marks = Marks(str(tmp_path))
    earlier = {"mode": "train", "max_steps": 5, "epochs": None, "batch_size": 512, "seed": 1,
               "train_files": ["t"], "train_days": None, "early_stopping_metric": None}  # fmt: skip
    marks.write("end", status="done", goal=earlier)
    now = goal(mode="train", eval_files=None)
    assert {name: now.get(name) for name in earlier} == {**earlier, "early_stopping_metric": None}
    a_view = view(launcher.free_ports(1)[0])
    times = iter(range(0, 10_000, 5))
    watch = Watch(a_view, marks, seconds=30.0, goal=now, clock=lambda: float(next(times)))
    assert [watch._look() for _ in range(6)] == [False] * 5 + [True]
    assert watch.gone == "chief:0" and watch.end is None


def test_a_training_that_was_stopped_is_not_done(tmp_path, server):
    marks = Marks(str(tmp_path))
    watch = watching(marks, view(server))
    marks.write("end", status="stopped", goal=GOAL)
    assert watch._look()
    with pytest.raises(tf.errors.UnavailableError) as error:
        watch.check()
    assert error.value.message == (
        "ps:0: chief:0 was stopped, so the training ends. Start all tasks again to go on from the "
        "last checkpoint."
    )


def test_until_the_chief_is_seen_a_goal_that_was_reached_may_be_this_one(tmp_path, server):
    marks = Marks(str(tmp_path))
    marks.write("end", status="done", goal=GOAL)
    watch = watching(marks, view(server))
    assert watch.may_be_over()
    assert not watch._look() and not watch.may_be_over()  # The chief is there.
    marks.clear()
    assert not watching(marks, view(server)).may_be_over()


def test_who_scores_after_a_chief_that_has_nothing_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(servers, "start", lambda *arguments: None)
    config = ek.ExperimentConfig(
        mode="train_and_evaluate", spec="s", model_dir=str(tmp_path), train_files=("t",),
        eval_files=("e",), max_steps=5,
    )  # fmt: skip
    for metrics, expected in (({}, "evaluator"), ({"loss": 0.5}, "chief")):
        result = RunResult(mode="train_and_evaluate", status="done", metrics=metrics)
        result.save(str(tmp_path / "result.json"))
        chief = ParameterServerChief(command_of(config), chief_at(1), StopRequest(), GOAL)
        with pytest.raises(ek.NothingToDo), chief.announcing_the_end():
            raise ek.NothingToDo("trained to the end")
        assert Marks(str(tmp_path)).read("end").scored_by == expected


@pytest.mark.parametrize("status", [None, "stopped"])
def test_a_chief_that_is_gone_without_a_word_is_given_up(tmp_path, status):
    marks = Marks(str(tmp_path))
    if status is not None:  # From an earlier start, which this start continues.
        marks.write("end", status=status)
    a_view = view(launcher.free_ports(1)[0])
    watch = watching(marks, a_view, seconds=30.0)
    assert [watch._look() for _ in range(6)] == [False] * 5 + [True]
    with pytest.raises(tf.errors.UnavailableError) as error:
        watch.check()
    assert error.value.message == (
        f"ps:0 could not reach chief:0 at {a_view.chief} for 30 seconds, and the training is not "
        "over. Start chief:0 again, or raise --cluster_timeout_secs."
    )


def test_marks_are_cleared_by_a_start(tmp_path):
    marks = Marks(str(tmp_path))
    marks.clear()
    marks.write("ended-worker:0")
    first = marks.read("ended-worker:0")
    marks.write("ended-worker:0")
    assert first != marks.read("ended-worker:0")
    marks.clear()
    assert marks.read("ended-worker:0") is None


def test_variables_go_to_the_server_with_the_fewest_bytes():
    a_view = ClusterView("a:1", (), ("b:1", "c:1"), (), "chief", 0)
    with tf.Graph().as_default() as graph, graph.device(sessions.device_fn(a_view)):
        variables = [
            tf.compat.v1.get_variable(name, shape, use_resource=True)
            for name, shape in [("large", [100, 4]), ("a", [50, 4]), ("b", [40, 4]), ("c", [20])]
        ]
        total = tf.add_n([tf.reduce_sum(v) for v in variables])
        slots = tf.compat.v1.train.AdagradOptimizer(0.1)
        slots.minimize(total)
        for variable in variables:
            assert slots.get_slot(variable, "accumulator").device == variable.device
    assert [v.device for v in variables] == [f"/job:ps/task:{i}" for i in (0, 1, 1, 1)]
    assert total.device == "/job:chief/task:0"


def test_hash_tables_of_a_model_have_a_place_too():
    a_view = ClusterView("a:1", (), ("b:1", "c:1"), (), "chief", 0)
    with tf.Graph().as_default() as graph, graph.device(sessions.device_fn(a_view)):
        tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
        tf.compat.v1.get_variable("next", [4], use_resource=True)
        placed = {op.type: op.device for op in graph.get_operations() if "/job:ps" in op.device}
    assert placed["MutableHashTableV2"] == "/job:ps/task:0"
    assert placed["VarHandleOp"] == "/job:ps/task:1"


def test_errors_of_servers_that_are_gone():
    errors = tf.errors
    assert sessions.is_lost(errors.UnavailableError(None, None, "x"))
    assert sessions.is_lost(errors.FailedPreconditionError(None, None, "uninitialized value"))
    assert not sessions.is_lost(errors.NotFoundError(None, None, "no file"))
    assert not sessions.is_lost(ValueError("x"))


def test_a_local_cluster_and_its_exit_status():
    jobs = {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}
    views = launcher.views_of(jobs, [1, 2, 3])
    assert [v.name for v in views] == ["ps:0", "worker:0", "chief:0", "evaluator:0"]
    hosts = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"], "ps": ["127.0.0.1:3"]}
    assert all(v.cluster_dict() == hosts for v in views)
    assert launcher.exit_status({"chief:0": 0, "ps:0": 0}) == 0
    assert launcher.exit_status({"chief:0": 99, "ps:0": 1}) == 99
    assert launcher.exit_status({"chief:0": 0, "ps:0": 0, "worker:0": -9}) == 137
    assert launcher.exit_status({"chief:0": -9, "ps:0": -9, "worker:0": 65}) == 65


def test_a_chief_that_is_started_again_leaves_the_exports_to_the_evaluator_that_is_there(
    tmp_path, server, monkeypatch
):
    marks = Marks(str(tmp_path))
    config = ek.ExperimentConfig(mode="validate", spec="s", model_dir=str(tmp_path))
    chief = ParameterServerChief(command_of(config), chief_at(server), StopRequest(), GOAL)
    assert not chief.leaves_evaluation()
    with Watch(view(server), marks, seconds=60.0, goal=GOAL, presence="evaluator"):
        assert wait_until(
            lambda: [] if marks.read("evaluator") else ["x"], what="", this="", seconds=60
        )
        chief.begin()
        assert chief.leaves_evaluation()
    chief.begin()
    monkeypatch.setattr(chief_module, "_EVALUATOR_SAYS", 0.1)
    assert not chief.leaves_evaluation()  # The evaluator has left.


class StandIns:
    """Stands for processes: tasks that end at given times. Records the signals sent to them."""

    def __init__(self, **ends: tuple[float, int]):
        self._ends = {name.replace("_", ":"): end for name, end in ends.items()}
        self._now, self.codes, self.sent = 0.0, {}, []

    def running(self):
        return [name for name in self._ends if name not in self.codes]

    def wait(self, seconds):
        self._now += seconds
        self.codes.update({n: code for n, (at, code) in self._ends.items() if at <= self._now})

    def send(self, name, number):
        self.sent.append((name, number))
        if number == signal.SIGKILL:
            self.codes[name] = 137


def test_the_launcher_waits_for_the_last_exports_and_for_nobody_else():
    tasks = StandIns(chief_0=(5, 0), evaluator_0=(300, 0), ps_0=(900, 0))
    launcher._supervise(tasks, [], spare=1)
    assert tasks.codes == {"chief:0": 0, "evaluator:0": 0, "ps:0": 137}
    assert set(tasks.sent) == {("ps:0", signal.SIGKILL)}
    # An earlier launch was killed during the exports.
    again = StandIns(chief_0=(5, 99), evaluator_0=(300, 0))
    launcher._supervise(again, [], spare=1)
    assert again.codes == {"chief:0": 99, "evaluator:0": 0}
    failed = StandIns(chief_0=(5, 70), evaluator_0=(300, 0))
    launcher._supervise(failed, [], spare=1)
    assert failed.codes == {"chief:0": 70, "evaluator:0": 137}


@pytest.mark.parametrize(
    ("jobs", "strategy", "expected"),
    [("chief:1,worker:3,ps:1", None, 3), ("chief:1,worker:3,ps:1", "sync_replicas", 1),
     ("chief:1,worker:3", "multi_worker_mirrored", 0)],
)  # fmt: skip
def test_how_many_workers_a_local_cluster_goes_on_without(jobs, strategy, expected):
    config = ek.ExperimentConfig(
        spec="s", model_dir="m", train_files=("t",), eval_files=("e",), max_steps=1,
        strategy=strategy, launch_local=jobs,
        backup_workers=1 if strategy == "sync_replicas" else 0,
    )  # fmt: skip
    assert launcher._spare_workers(config, local_jobs(jobs)) == expected
    lost = StandIns(chief_0=(1e9, 0), **{f"worker_{i}": (1, 70) for i in range(expected + 1)})
    launcher._supervise(lost, [], spare=expected)
    assert lost.sent[0] == ("chief:0", signal.SIGTERM)


def test_a_storage_that_does_not_answer_once_ends_no_watch(tmp_path, server, monkeypatch, caplog):
    marks = Marks(str(tmp_path))
    marks.write("end", status="done")
    read, failed = Marks.read, []

    def unsure(self, name):
        if len(failed) < 2:
            failed.append(name)
            raise tf.errors.UnknownError(None, None, "stale file handle\nand more")
        return read(self, name)

    with (
        caplog.at_level("WARNING", logger="estimator_kit"),
        Watch(view(server), Marks(str(tmp_path / "other")), seconds=60.0, goal=GOAL) as watch,
    ):
        monkeypatch.setattr(Marks, "read", unsure)
        watch._marks = marks
        assert wait_until(lambda: [] if watch.over() else ["x"], what="", this="", seconds=60)
    assert watch.end.status == "done" and len(failed) == 2
    assert [r.message for r in caplog.records] == [
        "ps:0 cannot read the marks in the model directory, and tries again: stale file handle"
    ]


@pytest.mark.parametrize("ended", [False, True])
def test_who_leaves_at_the_end_is_not_lost(monkeypatch, ended):
    messages, asked = [], []

    def has_ended():
        asked.append(ended)
        return ended

    monkeypatch.setattr(all_reduce, "leave", lambda message, code: messages.append(message))
    monkeypatch.setattr(all_reduce, "_LOOK", 0.01)
    monkeypatch.setattr(all_reduce, "_LOST", 0.02)
    worker = ClusterView("a:1", ("b:1",), (), (), "worker", 0)
    with all_reduce._noticing_losses(worker, [("chief:0", free_address())], has_ended):
        assert wait_until(lambda: [] if len(asked) > 2 else ["x"], what="", this="", seconds=60)
    lost = "worker:0: chief:0 is lost, but every step needs all tasks"
    assert [message.partition(".")[0] for message in messages[:1]] == ([] if ended else [lost])


def test_a_name_may_become_known_after_the_start(monkeypatch, caplog):
    """The name of a pod may; an IP address of another machine is refused at once."""
    known, asked = [(socket.AF_INET, 1, 6, "", ("127.0.0.1", 0))], []

    def resolve(host, *arguments, **named):
        asked.append(host)
        if len(asked) == 1:
            raise socket.gaierror("not yet")
        return known

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    named = ClusterView("chief:2222", (), ("localhost:1",), (), "chief", 0)
    with caplog.at_level("WARNING", logger="estimator_kit"):
        assert servers._own_addresses(named, 60) == [ipaddress.ip_address("127.0.0.1")]
    assert "TF_CONFIG is unknown: not yet; trying again for 60 seconds" in caplog.text
    monkeypatch.undo()
    numbered = ClusterView("203.0.113.7:2222", (), ("localhost:1",), (), "chief", 0)
    with pytest.raises(ek.ConfigError, match="expected an address of this machine"):
        servers._own_addresses(numbered, 60)


def test_a_name_that_is_loopback_here_is_no_address_for_others(monkeypatch):
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *a, **k: [(socket.AF_INET, 1, 6, "", ("127.0.0.1", 0))]
    )
    assert servers.own_addresses("host0:2222", ["host0:2222", "host0:2223"])
    with pytest.raises(ek.ConfigError) as error:
        servers.own_addresses("host0:2222", ["host0:2222", "host1:2222"])
    assert str(error.value) == (
        "host0:2222: on this machine the address of this task in TF_CONFIG is 127.0.0.1, a "
        "loopback address that host1 cannot reach. Use the machine's address in the network, or "
        "correct its line in /etc/hosts."
    )


def test_a_chief_whose_server_does_not_start_ends_nobody(tmp_path, server):
    """It may be a second chief, started by mistake; the first one still works."""
    config = ek.ExperimentConfig(
        mode="validate", spec="s", model_dir=str(tmp_path), cluster_timeout_secs=0.1
    )
    lone = ClusterView("nowhere.invalid:2222", (), (f"127.0.0.1:{server}",), (), "chief", 0)
    chief = ParameterServerChief(command_of(config), lone, StopRequest(), GOAL)
    with (
        pytest.raises(ek.ConfigError, match="TF_CONFIG is unknown"),
        chief.announcing_the_end(),
    ):
        raise AssertionError("it has no server")
    assert Marks(str(tmp_path)).read("end") is None


def test_a_checkpoint_that_was_not_scored_to_the_end_comes_first(tmp_path, monkeypatch):
    for step in (5, 9):
        (tmp_path / f"model.ckpt-{step}.index").touch()
    latest = str(tmp_path / "model.ckpt-9")
    monkeypatch.setattr(tf.train, "latest_checkpoint", lambda model_dir: latest)
    own = evaluation._Evaluator.__new__(evaluation._Evaluator)
    own.model_dir, own.scored, own._begun = str(tmp_path), None, str(tmp_path / "model.ckpt-5")
    assert own.newest() == own._begun
    (tmp_path / "model.ckpt-5.index").unlink()  # The chief keeps only the latest ones.
    assert own.newest() == latest


def test_a_checkpoint_that_is_written_again_is_scored_later(tmp_path, monkeypatch):
    """A chief that is started again saves the checkpoint that it has read, under the same name."""
    checkpoint = str(tmp_path / "model.ckpt-5")
    (tmp_path / "model.ckpt-5.index").touch()
    failures = [2]

    def evaluate(*arguments, **named):
        failures[0] -= 1
        if failures[0] >= 0:
            text = "file is too short to be an sstable [[{{node save/RestoreV2}}]]"
            raise tf.errors.DataLossError(None, None, text)
        return {}

    own = evaluation._Evaluator.__new__(evaluation._Evaluator)
    own.model_dir = str(tmp_path)
    own.trained = None
    own.after = types.SimpleNamespace(evaluate=evaluate)
    own.request, own.scored, own._damaged = StopRequest(), None, Counter()
    own._eval_input, own._input = types.SimpleNamespace(files=[], all_files=[], damaged={}), None
    own._spec = own._model = None
    monkeypatch.setattr(evaluation, "_LOOK", 0)
    for scored in (None, None, checkpoint):
        own.score(checkpoint)
        assert own.scored == scored
    failures[0], own.scored = 1000, None
    own._damaged.clear()
    for _ in range(evaluation._TRIES - 1):
        own.score(checkpoint)
    with pytest.raises(tf.errors.DataLossError):  # It is damaged.
        own.score(checkpoint)
