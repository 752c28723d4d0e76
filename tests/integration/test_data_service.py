"""A training whose input a tf.data service computes. The servers are separate processes."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit import exit_codes
from estimator_kit.commands import data_service as commands
from estimator_kit.distributed.launcher import free_ports
from estimator_kit.result import read_result
from estimator_kit.training import data_service
from tests.conftest import DOCUMENT, ROOT, make_rows, place

LIMIT = 180  # Seconds after which a process that hangs fails its test.
FILES, ROWS = 40, 250


class Processes:
    """Starts programs, records their lines, and kills them at the end."""

    def __init__(self, folder: pathlib.Path):
        self._folder = folder
        self.started: list[tuple[subprocess.Popen, pathlib.Path]] = []

    def start(self, *arguments: str) -> subprocess.Popen:
        log = self._folder / f"{len(self.started)}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, str(ROOT / "run.py"), *arguments],
                stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=ROOT,
            )  # fmt: skip
        self.started.append((process, log))
        return process

    def log(self, process: subprocess.Popen) -> str:
        return next(path for started, path in self.started if started is process).read_text()

    def wait_for(self, process: subprocess.Popen, pattern: str) -> str:
        """Waits for a pattern in a log, and returns its first group. Fails if the process ends."""
        log = next(path for started, path in self.started if started is process)
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            ended = process.poll() is not None
            found = re.search(pattern, log.read_text())
            if found:
                return found[1]
            assert not ended, f"ended with {process.returncode} before {pattern!r}"
            threading.Event().wait(0.02)
        raise AssertionError(f"no {pattern!r} in {LIMIT} seconds")

    def dispatcher(self, *arguments: str) -> tuple[subprocess.Popen, str]:
        arguments = ("--mode=data_service", "--data_service_host=localhost", *arguments)
        process = self.start(*arguments)
        return process, self.wait_for(process, r"dispatcher: (grpc://localhost:\d+)\n")

    def workers(self, address: str, count: int) -> list[subprocess.Popen]:
        arguments = ("--mode=data_service", f"--data_service={address}")
        made = [self.start(*arguments) for _ in range(count)]
        for process in made:
            self.wait_for(process, rf"worker: (grpc://localhost:\d+) of {address}\n")
        return made

    def end(self, process: subprocess.Popen, number: int = signal.SIGTERM) -> int:
        process.send_signal(number)
        return process.wait(LIMIT)


@pytest.fixture
def processes(tmp_path) -> Iterator[Processes]:
    folder = tmp_path / "logs"
    folder.mkdir()
    running = Processes(folder)
    try:
        yield running
    finally:
        for process, _ in running.started:
            process.kill()
            process.wait(LIMIT)
        for _, log in running.started:  # pytest shows this where a test fails.
            print(f"--- {log.name}\n{log.read_text()[-4000:]}", file=sys.stderr)


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> pathlib.Path:
    """A folder with a spec and 40 files of 250 rows, some of them GZIP."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "spec.yaml").write_text(json.dumps(DOCUMENT))
    for i in range(FILES):
        suffix = ".gz" if i % 10 == 0 else ""
        ek.write_examples(f"{folder}/train-{i:02}.tfrecord{suffix}", make_rows(ROWS, seed=i))
    return folder


def training(folder: pathlib.Path, model_dir: pathlib.Path, **changes) -> ek.ExperimentConfig:
    values = {
        "mode": "train", "spec": f"{folder}/spec.yaml", "model": "linear", "batch_size": 64,
        "model_dir": str(model_dir), "train_files": (f"{folder}/train-*",), "exporters": (),
        "cluster_timeout_secs": 60,
    }  # fmt: skip
    return ek.ExperimentConfig(**{**values, **changes})


@pytest.mark.nightly
def test_an_epoch_completes_without_a_worker_that_is_killed_in_it(processes, rows, tmp_path):
    dispatcher, address = processes.dispatcher()
    workers = processes.workers(address, 2)
    # Two workers read all rows of two epochs. Only the last batch is not full.
    result = ek.run(training(rows, tmp_path / "whole", data_service=address, epochs=2))
    assert (result.rows_trained, result.rows_lost) == (2 * FILES * ROWS, 0)
    assert result.global_step == result.steps_planned == -(-2 * FILES * ROWS // 64)

    # Many epochs. A worker is killed in the first one.
    epochs, model_dir = 8, tmp_path / "killed"
    trainer = processes.start(
        "--mode=train", f"--spec={rows}/spec.yaml", "--model=linear", "--batch_size=64",
        f"--model_dir={model_dir}", f"--train_files={rows}/train-*",
        f"--epochs={epochs}", f"--data_service={address}", "--cluster_timeout_secs=5",
        "--log_every_secs=0.01",
    )  # fmt: skip
    processes.wait_for(trainer, r"step (\d+) of ")
    workers[0].kill()
    assert trainer.wait(LIMIT) == 0
    killed = read_result(model_dir)
    assert (killed.status, killed.stop_reason) == ("done", "input_exhausted")
    assert killed.rows_trained + killed.rows_lost == epochs * FILES * ROWS
    assert 0 < killed.rows_lost < epochs * FILES * ROWS / 2
    assert killed.global_step == -(-killed.rows_trained // 64)
    lost = processes.wait_for(
        trainer, rf"--data_service: ([\d,]+) of {epochs * FILES * ROWS:,} rows were lost with a w"
    )
    assert int(lost.replace(",", "")) == killed.rows_lost

    # This training has ended, and the remaining worker serves the next one.
    again = training(rows, model_dir, data_service=address, epochs=epochs)
    with pytest.raises(ek.NothingToDo, match="is already trained to the end of its epochs"):
        ek.run(again)
    result = ek.run(training(rows, tmp_path / "next", data_service=address, epochs=1))
    assert result.rows_trained == FILES * ROWS
    assert processes.end(workers[1]) == 0
    assert processes.end(dispatcher, signal.SIGINT) == 0


@pytest.mark.nightly
def test_servers_say_what_is_missing_and_come_back(processes, rows, tmp_path, caplog):
    kept = f"--data_service_dir={tmp_path}/dispatcher"
    first, address = processes.dispatcher(kept)
    config = training(rows, tmp_path / "m", data_service=address, max_steps=3,
                      cluster_timeout_secs=0.5)  # fmt: skip
    with pytest.raises(tf.errors.UnavailableError) as error:
        ek.run(config)
    assert error.value.message == (
        f"--data_service={address}: the dispatcher got no worker within 0.5 seconds (it has no "
        "worker; start one with --mode=data_service). Check that it runs and that this "
        "machine can reach it, or raise --cluster_timeout_secs."
    )
    assert not os.path.exists(config.model_dir)  # Nothing was written.

    # Nothing answers while the dispatcher is down. After a restart it continues where it was.
    first.kill()
    first.wait(LIMIT)
    with pytest.raises(tf.errors.UnavailableError) as error:
        data_service.wait_for_service(config, config)
    assert error.value.message.startswith(
        f"--data_service={address}: the dispatcher did not answer within 0.5 seconds ("
    )
    assert processes.dispatcher(kept)[1] == address
    processes.workers(address, 1)
    result = ek.run(config.model_copy(update={"cluster_timeout_secs": 60.0}))
    assert (result.global_step, result.rows_trained) == (3, 3 * 64)

    # A restart ends at the same step, and logs what it reads.
    with caplog.at_level(logging.WARNING, "estimator_kit"):
        result = ek.run(training(rows, tmp_path / "m", data_service=address, max_steps=5))
    assert (result.global_step, result.rows_trained) == (5, 2 * 64)
    assert (
        "--data_service reads rows in no fixed order. This start begins epoch 1 again and ends at "
        "the same step, so it reads some rows again and leaves some rows out."
    ) in caplog.messages

    # The error names a record that a worker cannot use.
    bad = make_rows(ROWS)
    del bad[77]["city"]
    ek.write_examples(f"{tmp_path}/bad.tfrecord", bad)
    with pytest.raises(ek.DataError) as error:
        ek.run(
            training(
                rows, tmp_path / "bad", data_service=address, epochs=1,
                train_files=(f"{rows}/train-0*", f"{tmp_path}/bad.tfrecord"),
            )
        )  # fmt: skip
    assert f"{tmp_path}/bad.tfrecord: {place(f'{tmp_path}/bad.tfrecord', 77)}" in str(error.value)
    assert "city" in str(error.value)


@pytest.mark.nightly
def test_a_dispatcher_that_forgets_ends_the_training_for_now(processes, rows, tmp_path):
    """Restarted without its folder. Then the worker ends at once, although it has none to ask."""
    (port,) = free_ports(1)
    first, address = processes.dispatcher(f"--data_service_port={port}")
    (worker,) = processes.workers(address, 1)
    trainer = processes.start(
        "--mode=train", f"--spec={rows}/spec.yaml", "--model=linear", "--batch_size=64",
        f"--model_dir={tmp_path}/m", f"--train_files={rows}/train-*", "--epochs=1000",
        f"--data_service={address}", "--cluster_timeout_secs=30", "--log_every_secs=0.01",
    )  # fmt: skip
    processes.wait_for(trainer, r"step (\d+) of ")
    first.kill()
    first.wait(LIMIT)
    second, again = processes.dispatcher(f"--data_service_port={port}")
    assert again == address
    assert trainer.wait(LIMIT) == exit_codes.TEMPORARY
    (line,) = re.findall(r"^error: .*", processes.log(trainer), re.M)
    assert line.startswith(f"error: --data_service={address}: the dispatcher does not know this ")
    assert "Traceback" not in processes.log(trainer)
    second.kill()
    second.wait(LIMIT)
    assert processes.end(worker) == 0  # TensorFlow asks the dispatcher for up to an hour.


@pytest.mark.parametrize(
    "text",
    [
        "Failed to get tasks: Unknown iteration client id 3000. The dispatcher is not configured "
        "to be fault tolerant, so this could be caused by a dispatcher restart.",
        "Failed to get element from worker localhost:1: Failed to get element: Failed to get "
        "split: Iteration id 2000 not found",
        "Failed to get dataset: Dataset id 1000 not found.",
    ],
)
def test_a_dispatcher_that_forgot_is_one_line(rows, tmp_path, text):
    config = training(rows, tmp_path / "m", data_service="grpc://localhost:1", epochs=1)
    long = (
        f"Graph execution error:\n\nDetected at ...\nNode: 'IteratorGetNext'\n{text}\n\t [[{{x}}]]"
    )
    with (
        pytest.raises(tf.errors.UnavailableError) as error,
        data_service.naming_the_service(config, config),
    ):
        raise tf.errors.NotFoundError(None, None, long)
    assert error.value.message == (
        "--data_service=grpc://localhost:1: the dispatcher does not know this training any more "
        f"({text.rstrip('.')}.) Was it started again without --data_service_dir? Start this "
        "training again to go on from the last checkpoint."
    )
    assert exit_codes.exit_code(error.value) == exit_codes.TEMPORARY
    without = config.model_copy(update={"data_service": None})
    for given, message in ((without, long), (config, "x/model.ckpt not found")):
        with pytest.raises(tf.errors.NotFoundError), data_service.naming_the_service(given, given):
            raise tf.errors.NotFoundError(None, None, message)


def test_a_worker_ends_while_it_waits_for_its_dispatcher(rows, tmp_path):
    """And it does not stop a server whose dispatcher is away: TensorFlow would block."""
    ended = threading.Event()
    ended.set()
    config = ek.ExperimentConfig(mode="data_service", data_service="grpc://localhost:1")
    assert commands._worker(config, config, ended) == (None, "")
    assert not commands._stops(config)
    assert commands._stops(config.model_copy(update={"data_service": None}))


def test_a_step_without_a_batch_ends_the_run(rows, tmp_path):
    config = training(rows, tmp_path / "m", data_service="grpc://localhost:1", max_steps=3,
                      cluster_timeout_secs=0.05)  # fmt: skip
    with (
        pytest.raises(tf.errors.UnavailableError) as error,
        data_service.naming_the_service(config, config),
        tf.Graph().as_default(),
    ):
        element = tf.queue.FIFOQueue(1, [tf.int64]).dequeue()  # The queue stays empty.
        with tf.compat.v1.train.MonitoredSession(
            hooks=data_service.hooks(config, config)
        ) as session:
            session.run(element)
    assert error.value.message == (
        "--data_service=grpc://localhost:1: a step got no batch within 0.15 seconds, three times "
        "--cluster_timeout_secs. Check that the dispatcher and a worker run, then start again "
        "to go on from the last checkpoint."
    )
