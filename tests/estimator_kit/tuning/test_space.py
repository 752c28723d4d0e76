"""space: what a trial draws, with conditions, and the values that are checked first."""

from __future__ import annotations

import pytest

from estimator_kit.tuning import search_file, space

pytestmark = pytest.mark.no_tensorflow


def search_of(**parameters):
    return search_file.parse({"metric": "loss", "trials": 1, "parameters": parameters})


class Asked:
    """Records what a trial asks for; every draw is the first or lowest value, or a given one."""

    def __init__(self, **given):
        self.given, self.calls = given, []

    def suggest_float(self, name, low, high, *, step=None, log=False):
        self.calls.append((name, "float", low, high, step, log))
        return self.given.get(name, low)

    def suggest_int(self, name, low, high, *, step=1, log=False):
        self.calls.append((name, "int", low, high, step, log))
        return self.given.get(name, low)

    def suggest_categorical(self, name, choices):
        self.calls.append((name, "choice", tuple(choices)))
        return self.given.get(name, choices[0])


def test_each_form_asks_for_its_own_distribution():
    search = search_of(
        rate={"range": [0.01, 1], "log": True},
        share={"range": [0, 1], "step": 0.25},
        layers={"range": [1, 9], "int": True},
        units={"range": [16, 256], "int": True, "log": True},
        width={"range": [8, 64], "int": True, "step": 8},
        optimizer={"choice": ["adam", "ftrl"]},
    )
    trial = Asked(rate=0.3, layers=4, optimizer="ftrl")
    assert space.draw(search, trial) == {
        "rate": 0.3, "share": 0.0, "layers": 4, "units": 16, "width": 8, "optimizer": "ftrl"
    }  # fmt: skip
    assert trial.calls == [
        ("rate", "float", 0.01, 1.0, None, True),
        ("share", "float", 0.0, 1.0, 0.25, False),
        ("layers", "int", 1, 9, 1, False),
        ("units", "int", 16, 256, 1, True),
        ("width", "int", 8, 64, 8, False),
        ("optimizer", "choice", ("adam", "ftrl")),
    ]
    assert [type(call[2]) for call in trial.calls[:3]] == [float, float, int]


@pytest.mark.parametrize(
    ("choices", "stored"),
    [
        ([1, 2], [1, 2]),
        ([True, False], [True, False]),
        ([1, True], ["1", "true"]),  # Equal in Python.
        ([None, "a"], ["null", '"a"']),
        ([[64, 32], {"adam": {"beta1": 0.8}}], ["[64, 32]", '{"adam": {"beta1": 0.8}}']),
    ],
)
def test_choices_of_any_form_come_back(choices, stored):
    search = search_of(a={"choice": choices})
    assert space.categories(search.parameters["a"]) == stored
    for choice, name in zip(choices, stored):
        drawn = space.draw(search, Asked(a=name))["a"]
        assert drawn == choice and type(drawn) is type(choice)


CONDITIONAL = {
    # In the file, a condition may come before the parameter that it names.
    "beta1": {"range": [0.8, 0.99], "when": {"adam_like": True}},
    "adam_like": {"choice": [True, False], "when": {"optimizer": ["adam", "lazy_adam"]}},
    "optimizer": {"choice": ["ftrl", "adam", "lazy_adam"]},
}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"optimizer": "ftrl"}, ["optimizer"]),
        ({"optimizer": "adam", "adam_like": False}, ["adam_like", "optimizer"]),
        ({"optimizer": "lazy_adam", "adam_like": True}, ["beta1", "adam_like", "optimizer"]),
    ],
)
def test_a_parameter_is_drawn_only_if_its_conditions_hold(given, names):
    trial = Asked(**given)
    drawn = space.draw(search_of(**CONDITIONAL), trial)
    assert list(drawn) == names
    assert {call[0] for call in trial.calls} == set(names)


def test_corners_try_every_end_and_every_choice():
    search = search_of(
        rate={"range": [1, 3]},
        layers={"range": [1, 4], "int": True},
        share={"range": [0, 1], "step": 0.5},
        **CONDITIONAL,
    )
    corners = list(space.corners(search))
    tried = {}
    for name, values in corners:
        assert name in values  # Its conditions hold.
        tried.setdefault(name, []).append(values[name])
    assert tried["layers"] == [1, 4]
    assert tried["share"] == [0.0, 0.5, 1.0]
    assert tried["optimizer"] == ["ftrl", "adam", "lazy_adam"]
    assert tried["adam_like"] == [True, False]
    assert (tried["rate"][0], tried["rate"][2]) == (1.0, 3.0)
    assert 1 < tried["rate"][1] < 3 and tried["rate"][1] % 1  # Not a whole number by accident.
    assert [values["optimizer"] for name, values in corners if name == "beta1"] == ["adam"] * 3
