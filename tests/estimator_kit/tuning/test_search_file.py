"""search_file: a search in YAML, and its mistakes with their lines."""

from __future__ import annotations

import pytest

from estimator_kit.errors import ConfigError
from estimator_kit.tuning import search_file, space

pytestmark = pytest.mark.no_tensorflow

SMALL = {
    "metric": "auc/click",
    "direction": "max",
    "trials": 3,
    "parameters": {"learning_rate": {"range": [0.01, 0.5], "log": True}},
}


def with_parameters(**parameters):
    return {**SMALL, "parameters": parameters}


def problem(document):
    with pytest.raises(ConfigError) as error:
        search_file.parse(document)
    return str(error.value)


def test_a_small_search_and_its_defaults():
    search = search_file.parse(SMALL)
    assert (search.sampler, search.seed, search.pruner, search.seconds) == (
        "tpe", 1, "median", None,
    )  # fmt: skip
    assert search.maximizes
    parameter = search.parameters["learning_rate"]
    assert (parameter.span, parameter.log, parameter.whole) == ((0.01, 0.5), True, False)


def test_a_loss_needs_no_direction():
    search = search_file.parse({**SMALL, "metric": "loss/click", "direction": None})
    assert not search.maximizes


def test_a_file_is_read_with_the_reader_of_specs(tmp_path):
    path = tmp_path / "search.yaml"
    path.write_text(
        "metric: auc/click\ndirection: max\nseconds: 60\n"
        "parameters:\n  rate: {range: [1e-3, 1e-1], log: true}\n  optimizer: {choice: [adam, no]}\n"
    )
    search = search_file.load(str(path))
    assert search.parameters["rate"].span == (0.001, 0.1)
    assert search.parameters["optimizer"].choice == ("adam", "no")  # YAML 1.2: not False.
    assert (search.trials, search.seconds) == (None, 60)


def test_every_mistake_has_its_line(tmp_path):
    path = tmp_path / "search.yaml"
    path.write_text(
        "metric: auc/click\n"
        "direction: up\n"
        "trials: 0\n"
        "pruner: medan\n"
        "parameters:\n"
        "  a: {range: [3, 1]}\n"
        "  b: {choice: [1]}\n"
        "  c: {range: [0, 1], log: true}\n"
        "  d: {rnge: [1, 2]}\n"
        "  e: 7\n"
        "more: 1\n"
    )
    with pytest.raises(ConfigError) as error:
        search_file.load(str(path))
    assert str(error.value).split("\n") == [
        f"{path}:2: direction: got 'up', expected 'min' or 'max'",
        f"{path}:3: trials: got 0, expected greater than or equal to 1",
        f"{path}:4: pruner: got 'medan', expected 'median', 'hyperband' or 'none'. Did you mean "
        "'median'?",
        f"{path}:6: parameters.a.range: got [3, 1], expected a low end below the high end, as in "
        "[0.01, 0.1]",
        f"{path}:7: parameters.b: got one choice, 1, expected two or more. Add another, or set the "
        "value in the flags.",
        f"{path}:8: parameters.c: `log` needs a range above 0, got [0, 1]. Raise the low end, or "
        "remove `log`.",
        f"{path}:9: parameters.d.rnge: unknown key. Did you mean 'range'?",
        f"{path}:10: parameters.e: got 7, expected a mapping of range, log, int, step, choice, "
        "when",
        f"{path}:11: more: unknown key. Use one of: parameters, metric, direction, trials, "
        "seconds, patience, first, sampler, seed, pruner.",
    ]


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ({}, "expected either `range` or `choice`, as in {range: [0.01, 0.1]}"),
        ({"range": [1, 2], "choice": [1, 2]},
         "expected either `range` or `choice`, as in {range: [0.01, 0.1]}"),
        ({"choice": [1, 2], "int": True}, "`int` is for a `range`, not for a `choice`. Remove it."),
        ({"range": [1, 9], "log": True, "step": 2}, "`log` and `step` do not go together."),
        ({"range": [1, 2.5], "int": True}, "`int` needs whole numbers, got 2.5. Round it."),
        ({"range": [0, 1], "step": 0.3},
         "the step 0.3 does not lead from 0 to 1. Change the step or the range."),
        ({"range": [0, 1], "step": 0}, "step: got 0, expected a number above 0"),
        ({"range": [1, True]}, "range: got [1, True], expected two numbers, as in [0.01, 0.1]"),
        ({"range": [1, float("nan")]}, "range: got [1, nan], expected two numbers"),
        ({"range": 5}, "range: got 5, expected two numbers, as in [0.01, 0.1]"),
        ({"choice": [[64, 32], [64, 32]]},
         "choice: the value [64, 32] is listed twice. Remove one of them."),
    ],
)  # fmt: skip
def test_a_wrong_parameter(parameter, message):
    text = problem(with_parameters(a=parameter))
    assert text.startswith("<dict>: parameters.a")
    assert message in text


def test_one_choice_is_what_a_condition_sets():
    models = {"choice": ["dcn", "deepfm"]}
    group = {"choice": ["single"], "when": {"model": "deepfm"}}
    search = search_file.parse(with_parameters(model=models, wide_group=group))
    drawn = [values for _, values in space.corners(search)]
    assert {"model": "deepfm", "wide_group": "single"} in drawn
    assert {"model": "dcn"} in drawn


def test_a_step_of_tenths_is_exact():
    search = search_file.parse(with_parameters(a={"range": [0, 0.3], "step": 0.1}))

    class Trial:
        def suggest_float(self, name, low, high, *, step, log):
            return low + 3 * step

    assert 3 * 0.1 != 0.3
    assert space.draw(search, Trial()) == {"a": 0.3}


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"optimzer": "adam"},
         "parameters.a.when.optimzer: got 'optimzer', expected another parameter of the "
         "search. Did you mean 'optimizer'?"),
        ({"optimizer": "sgd"},
         "parameters.a.when.optimizer: got 'sgd', expected one or several of ['adam', 'ftrl']"),
        ({"optimizer": ["adam", "sgd"]},
         "parameters.a.when.optimizer: got ['adam', 'sgd'], expected one or several of"),
        ({"b": 1},
         "parameters.a.when.b: 'b' is a range, and a condition needs a parameter with `choice`"),
    ],
)  # fmt: skip
def test_a_condition_that_cannot_hold(conditions, message):
    optimizer = {"choice": ["adam", "ftrl"]}
    text = problem(
        with_parameters(
            a={"range": [0, 1], "when": conditions}, b={"range": [1, 2]}, optimizer=optimizer
        )
    )
    assert message in text


def test_conditions_in_a_circle():
    text = problem(
        with_parameters(
            a={"choice": [1, 2], "when": {"b": 3}}, b={"choice": [3, 4], "when": {"a": 1}}
        )
    )
    assert text.split("\n") == [
        "<dict>: parameters.a.when: the conditions go round in a circle. Remove one.",
        "<dict>: parameters.b.when: the conditions go round in a circle. Remove one.",
    ]


def test_what_a_search_needs():
    assert problem({**SMALL, "direction": None}) == (
        "<dict>: metric: `direction` is missing. Say whether a better auc/click is lower (min) or "
        "higher (max)."
    )
    assert problem({**SMALL, "trials": None}) == (
        "<dict>: the top level: `trials`, `seconds` and `patience` are missing. Give at least one "
        "of them."
    )
    assert problem({"metric": "loss", "trials": 1}) == "<dict>: parameters: is missing"
    assert "got [], expected a mapping of parameters" in problem([])


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError) as error:
        search_file.load(str(tmp_path / "none.yaml"))
    assert str(error.value) == (
        f"--search={tmp_path}/none.yaml: cannot be read: No such file or directory. Check the path."
    )
    path = tmp_path / "search.yaml"
    path.write_text("# nothing\n")
    with pytest.raises(ConfigError, match=f"^{path}: the file is empty. Write `parameters`,"):
        search_file.load(str(path))
    path.write_text("a: *b\n")
    with pytest.raises(ConfigError) as error:
        search_file.load(str(path))
    assert str(error.value) == (
        f"{path}:1: the top level: an alias (*name) is not supported. Write the value out."
    )


def test_the_first_trials_have_values_of_the_search():
    parameters = {
        "rate": {"range": [0, 1]}, "layers": {"range": [1, 4], "int": True},
        "share": {"range": [0, 0.5], "step": 0.1}, "units": {"choice": [[64], [64, 32]]},
    }  # fmt: skip
    good = {"rate": 1, "layers": 4, "share": 0.3, "units": [64, 32]}
    search = search_file.parse({**SMALL, "parameters": parameters, "first": [good, {"layers": 1}]})
    assert search.first == (good, {"layers": 1})
    bad = [{"rate": 1.5}, {"layers": 2.0}, {"share": 0.25}, {"units": [32]}, {"unit": [64]}]
    text = problem({**SMALL, "parameters": parameters, "first": bad})
    assert text.split("\n") == [
        "<dict>: first[0].rate: got 1.5, expected a number from 0 to 1",
        "<dict>: first[1].layers: got 2.0, expected a whole number from 1 to 4",
        "<dict>: first[2].share: got 0.25, expected 0 or a number of steps of 0.1 above it",
        "<dict>: first[3].units: got [32], expected one of [[64], [64, 32]]",
        "<dict>: first[4].unit: got 'unit', expected a parameter of the search. Did you mean "
        "'units'?",
    ]


def test_a_first_trial_has_no_value_whose_condition_does_not_hold():
    parameters = {
        "optimizer": {"choice": ["adagrad", "lazy_adam"]},
        "clip_norm": {"range": [1, 20], "when": {"optimizer": "lazy_adam"}},
    }
    good = [{"optimizer": "lazy_adam", "clip_norm": 3}, {"clip_norm": 3}]
    search_file.parse({**SMALL, "parameters": parameters, "first": good})
    bad = [{"optimizer": "adagrad", "clip_norm": 3}]
    assert problem({**SMALL, "parameters": parameters, "first": bad}) == (
        "<dict>: first[0].clip_norm: got 3, but the trial has no 'clip_norm', because 'optimizer' "
        "is 'adagrad'. Remove the value, or change 'optimizer'."
    )
