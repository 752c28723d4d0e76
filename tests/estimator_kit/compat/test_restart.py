"""Training goes on from its checkpoint after kill -9."""

import time

import pytest

from tests.estimator_kit.compat.support import LIMIT_S, steps_of, tasks


@pytest.mark.nightly  # Every restart of the kit goes on so.
def test_restart_after_kill(tmp_path):
    model_dir = tmp_path / "model"
    with tasks(tmp_path) as start:
        first = start("first", "slow_training", model_dir, 100_000, 0.02)
        deadline = time.monotonic() + LIMIT_S
        while steps_of(model_dir) < 20:
            assert first.process.poll() is None, first.log.read_text()[-4000:]
            assert time.monotonic() < deadline, first.log.read_text()[-4000:]
            time.sleep(0.05)
        first.kill()
        reached = steps_of(model_dir)
        second = start("second", "slow_training", model_dir, reached + 15, 0)
        second.wait(time.monotonic() + LIMIT_S)
    assert first.process.returncode == -9
    assert "done" not in first.log.read_text()
    lines = second.log.read_text().splitlines()
    assert f"from {reached}" in lines
    assert lines[-1] == f"done {reached + 15}"
