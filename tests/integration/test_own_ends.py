"""What ends a training, an evaluation or a prediction: the input, and no other code of a model."""

from __future__ import annotations

import os
import pathlib
import re

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.result import read_result
from tests.conftest import small_run
from tests.integration import own_ends

pytestmark = pytest.mark.ci

HERE = own_ends.__file__
STOPS = ("request_stop", "coordinator", "StopAtStepHook")
ERRORS = {  # The sentence of each error, after its place.
    "next": r"Early\.hooks: Ends\.before_run raised StopIteration, which TensorFlow would take",
    "own out of range": r"Early\.hooks: Ends\.after_run raised OutOfRangeError: no more, which",
    "data set": r"Early: the operation IteratorGetNext_\d \(a IteratorGetNext\) ended before the",
    "numpy_function": r"Early: the operation PyFunc \(a PyFunc\) ended before the input did",
}
# The same if the second of two devices is the first to meet it.
OF_SECOND_DEVICE = {
    "data set": r"Early: the operation replica_1/IteratorGetNext \(a IteratorGetNext\) ended bef",
    "numpy_function": r"Early: the operation replica_1/PyFunc \(a PyFunc\) ended before the input",
}


def lines(how):
    """The numbers of the lines of the model that may be the place of an error."""
    text = pathlib.Path(HERE).read_text("utf-8").splitlines()
    marked = {i for i, line in enumerate(text, 1) if line.endswith("# ends")}
    return {i for i, line in enumerate(text, 1) if "no more" in line} if "own" in how else marked


@pytest.fixture
def run(ads, tmp_path):
    def make(how, *modes, **changes):
        made = small_run(
            ads,
            tmp_path / "model",
            mode="train_and_evaluate",
            model="tests.integration.own_ends:Early",
            model_params={"how": how, "modes": modes},
            exporters=("final",),
            eval_batch_size=50,
        )
        return made(**changes)

    return make


def check_error(text, how, devices=1):
    others = OF_SECOND_DEVICE if devices > 1 else {}
    sentences = [ERRORS[how], others.get(how, ERRORS[how])]
    found = re.match(rf"{re.escape(HERE)}:(\d+): (?:{'|'.join(sentences)})", text)
    assert found and int(found[1]) in lines(how), text


@pytest.mark.parametrize(
    ("how", "length"),
    [
        ("request_stop", {"epochs": 1}),
        *(pytest.param(how, {"max_steps": 20}, marks=pytest.mark.nightly) for how in STOPS),
    ],
)
def test_a_stop_of_a_hook_has_its_own_reason_and_no_final_export(run, how, length):
    config = run(how, "train", **length)
    with pytest.raises(ek.Stopped) as error:
        ek.run(config)
    last = length.get("max_steps", 8)
    assert str(error.value).startswith(
        f"Early.hooks: a hook asked to stop the training at step 3 of {last}. The checkpoint is "
    )
    found = read_result(config.model_dir)
    assert (found.status, found.stop_reason) == ("stopped", "stopped_by_hook")
    assert found.global_step == 3 and found.exports == {}
    assert not os.path.exists(f"{config.model_dir}/export")


def in_ci(*hows):
    """Each way to end, of which those that are not named run only at night."""
    marks = [() if how in hows else pytest.mark.nightly for how in (*STOPS[:2], *ERRORS)]
    return [pytest.param(how, marks=mark) for how, mark in zip((*STOPS[:2], *ERRORS), marks)]


@pytest.mark.parametrize("how", in_ci("data set")[2:])
@pytest.mark.parametrize(
    "length",
    [
        {"epochs": 1},
        pytest.param({"max_steps": 20}, marks=pytest.mark.nightly),
        pytest.param(
            {"max_steps": 20, "strategy": "mirrored", "mirrored_devices": 2},
            marks=pytest.mark.nightly,
        ),
    ],
    ids=["epochs", "steps", "mirrored"],
)
@pytest.mark.filterwarnings("ignore:To make it possible to preserve tf.data options")
def test_what_else_ends_a_training_is_an_error(run, how, length):
    config = run(how, "train", **length)
    with pytest.raises(ek.ConfigError) as error:
        ek.run(config)
    check_error(str(error.value), how, config.mirrored_devices or 1)
    found = read_result(config.model_dir)
    assert found.status == "failed" and found.exports == {}


@pytest.mark.parametrize("how", in_ci("numpy_function"))
def test_what_else_ends_an_evaluation_is_an_error(run, how):
    config = run(how, "eval", max_steps=2)
    with pytest.raises(ek.ConfigError) as error:
        ek.run(config)
    if how in ERRORS:
        check_error(str(error.value), how)
    else:
        assert str(error.value) == (
            "Early.hooks: Ends.after_run asked to stop the evaluation before the end of its files. "
            "Metrics of a part of the rows would choose another best model. To evaluate only the "
            "first batches, use --eval_steps."
        )
    found = read_result(config.model_dir)
    assert found.status == "failed" and found.metrics == {}


@pytest.mark.parametrize("mode", ["train", pytest.param("eval", marks=pytest.mark.nightly)])
def test_a_hook_that_aborts_is_named(run, mode):
    with pytest.raises(tf.errors.UnavailableError) as error:
        ek.run(run("aborted", mode, max_steps=20))
    assert re.fullmatch(
        rf"{re.escape(HERE)}:\d+: Early\.hooks: Ends\.after_run raised AbortedError: the lock is "
        r"taken\. Start again to go on from the last checkpoint\.",
        error.value.message,
    )


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["data set", "numpy_function"])
def test_what_else_ends_a_prediction_is_an_error(run, how, tmp_path):
    ek.run(run(how, mode="train", max_steps=1))
    config = run(
        how,
        "infer",
        mode="predict",
        predict_files=run(how, max_steps=1).eval_files,
        predict_output=f"{tmp_path}/answers.jsonl",
        batch_size=20,
    )
    with pytest.raises(ek.ConfigError) as error:
        ek.run(config)
    check_error(str(error.value), how)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:To make it possible to preserve tf.data options")
def test_the_end_of_the_input_of_two_devices_is_no_error(run):
    found = ek.run(run("no", epochs=1, strategy="mirrored", mirrored_devices=2, exporters=()))
    assert (found.status, found.stop_reason, found.rows_trained) == ("done", "input_exhausted", 400)
    assert found.rows_evaluated == 200
