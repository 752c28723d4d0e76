"""Which model a cycle's training starts from."""

from __future__ import annotations

import dataclasses
import os

import pytest

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.errors import ConfigError
from estimator_kit.retraining import cycle_files, training_stage
from estimator_kit.retraining.cycle_files import Done
from estimator_kit.retraining.promotion import Version
from estimator_kit.retraining.training_stage import Start
from feature_specs.parser import parser
from feature_specs.sections.retraining import Retraining

LIVE = Version(number=3, path="/serving/3", cycle="0002")


@pytest.fixture
def cycles(tmp_path):
    """Four cycles. Cycle 1 is from scratch, 2 and 3 have a checkpoint, and 4 is running."""
    for number in range(1, 5):
        folder = cycle_files.new(str(tmp_path))
        os.makedirs(folder.train_dir)
        if number < 4:
            folder.save(Start(kind="live" if number > 1 else "scratch"))
            folder.save(Done(outcome="refused" if number == 3 else "promoted"))
        if number in (2, 3):
            for name in ("checkpoint", "model.ckpt-5.index", "model.ckpt-5.data-00000-of-00001"):
                with open(os.path.join(folder.train_dir, name), "w") as file:
                    file.write('model_checkpoint_path: "model.ckpt-5"\n')
    return cycle_files.cycles(str(tmp_path))


@pytest.mark.parametrize(
    ("section", "live", "kind", "of", "reason"),
    [
        ({}, LIVE, "live", "0002", ""),
        ({"warm_start": "last"}, LIVE, "last", "0003", ""),
        ({"warm_start": "none"}, LIVE, "scratch", None, ""),
        ({"full_every": 3}, LIVE, "scratch", None, "a full retrain, which comes every 3 cycles"),
        ({"full_every": 4}, LIVE, "live", "0002", ""),
        ({}, None, "scratch", None, "no model is live yet"),
    ],
)
def test_start(cycles, document, section, live, kind, of, reason):
    spec = dataclasses.replace(parser.parse(document), retraining=Retraining(**section))
    found = training_stage.choose_start(
        spec, live=live, owner=cycles[1] if live else None, last=cycles[2], cycles=cycles
    )
    assert (found.kind, found.cycle, found.reason) == (kind, of, reason)
    if of is not None:
        (folder,) = [cycle for cycle in cycles if cycle.name == of]
        assert found.source == os.path.join(folder.train_dir, "model.ckpt-5")


def test_a_full_retrain_that_died_is_not_lost(cycles, document):
    spec = dataclasses.replace(parser.parse(document), retraining=Retraining(full_every=3))

    def kind(there):
        return training_stage.choose_start(
            spec, live=LIVE, owner=cycles[1], last=cycles[2], cycles=there
        ).kind

    assert [kind(cycles[:n]) for n in (1, 2, 3)] == ["live", "live", "scratch"]
    cycles[3].save(Start(kind="scratch"))
    cycles[3].save(Done(outcome="abandoned"))
    model = os.path.dirname(os.path.dirname(cycles[3].path))

    def next_one():
        folder = cycle_files.new(model)
        os.makedirs(folder.path)
        return folder

    fifth = next_one()
    assert kind([*cycles, fifth]) == "scratch"
    fifth.save(Start(kind="scratch"))
    fifth.save(Done(outcome="promoted"))
    assert kind([*cycles, fifth, next_one()]) == "live"
    # If no cycle is known to be a full retrain, the next one is.
    assert kind(cycles[1:3]) == "scratch"


def test_a_last_cycle_that_cannot_be_started_from_is_told(cycles, document):
    spec = dataclasses.replace(parser.parse(document), retraining=Retraining(warm_start="last"))
    for last, reason in (
        (cycles[0], "not from the last cycle: the training of cycle 0001 was removed"),
        (None, "not from the last cycle: no cycle has ended yet"),
    ):
        found = training_stage.choose_start(
            spec, live=LIVE, owner=cycles[1], last=last, cycles=cycles
        )
        assert (found.kind, found.cycle, found.reason) == ("live", "0002", reason)


def test_a_live_model_whose_training_is_gone_is_started_from_as_it_is_served(cycles, document):
    for cycle, owner, whose in (
        ("0001", cycles[0], "cycle 0001"),
        ("0002", None, "version 3"),  # Of another model directory.
        (None, None, "version 3"),
    ):
        live = LIVE.model_copy(update={"cycle": cycle})
        found = training_stage.choose_start(
            parser.parse(document), live=live, owner=owner, last=None, cycles=cycles
        )
        reason = f"the training of {whose} is missing, so from its export, without optimizer slots"
        name = owner.name if owner is not None else None
        assert found == Start(kind="live", source="/serving/3", cycle=name, reason=reason)


def test_cycles_are_found_by_their_numbers(cycles, tmp_path):
    for name in ("2", "0002", "000002"):
        assert cycle_files.find(str(tmp_path), name).name == "0002"
    for name, wanted in (("9", "0009"), ("²", "²"), ("1" * 5000, "1" * 5000)):
        with pytest.raises(ConfigError) as error:
            cycle_files.find(str(tmp_path), name)
        assert str(error.value) == (
            f"--cycle={name}: {tmp_path} has no cycle {wanted}. Use one from 0001 to 0004."
        )


@pytest.mark.parametrize(
    ("start", "warm_start_epochs", "epochs"),
    [
        (Start(kind="live", source="/m/model.ckpt-5"), 1, 1),
        (Start(kind="live", source="/m/model.ckpt-5"), None, 3),
        (Start(kind="scratch"), 1, 3),
    ],
)
def test_warm_start_epochs_take_the_place_of_epochs_where_a_model_is_started_from(
    start, warm_start_epochs, epochs
):
    config = ExperimentConfig(
        mode="retrain", spec="s.yaml", train_files=("data/dt=*/*.tfrecord",), model_dir="m",
        window="5d", epochs=3,
    )  # fmt: skip
    found = training_stage.training_config(
        config, spec="t.yaml", model_dir="m/train", train_files=["a"], eval_files=["b"],
        start=start, warm_start_epochs=warm_start_epochs,
    )  # fmt: skip
    assert (found.epochs, found.warm_start_from) == (epochs, start.source)


def test_a_file_that_was_damaged_after_the_window_was_chosen_stops_the_training():
    """The window has read all records, so the training does not look for damage again."""
    config = ExperimentConfig(
        mode="retrain", spec="s.yaml", train_files=("data/dt=*/*.tfrecord",), model_dir="m",
        window="5d", epochs=3, corrupt_data_policy="quarantine",
    )  # fmt: skip
    found = training_stage.training_config(
        config, spec="s.yaml", model_dir="m/cycles/0001/train", train_files=["a"], eval_files=["b"],
        start=Start(kind="scratch"), warm_start_epochs=None,
    )  # fmt: skip
    assert found.corrupt_data_policy == "fail"
