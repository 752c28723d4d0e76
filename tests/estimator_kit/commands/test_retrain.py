"""The command around a cycle: its page and its exit status."""

from __future__ import annotations

import pytest

from estimator_kit.commands import retrain
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import command_of
from estimator_kit.errors import Refused
from estimator_kit.retraining import cycle, notices


def test_a_cycle_ends_as_it_ends_also_if_nobody_reads_its_output(tmp_path, monkeypatch):
    """As with `| logger` after the logger has died."""

    def refused(config):
        raise Refused("auc/click is lower")

    def nobody_reads(text):
        told.append(text)
        raise BrokenPipeError(32, "Broken pipe")

    told = []
    monkeypatch.setattr(cycle, "run", refused)
    monkeypatch.setattr(notices, "write_pages", lambda *arguments: "page")
    config = ExperimentConfig(
        mode="retrain", spec="s.yaml", train_files=("data/dt=*/*",), window="1d", epochs=1,
        model_dir=str(tmp_path),
    )  # fmt: skip
    with pytest.raises(Refused):
        retrain.run(command_of(config), nobody_reads)
    assert len(told) == 1
