"""Which versions are refused, and the exact messages."""

import dataclasses

import pytest

from estimator_kit.compat import SUPPORTED, versions

GOOD = versions.Installed(
    tensorflow="2.21.0", tensorflow_estimator="2.15.0", tf_keras="2.21.0", protobuf="7.36.2"
)


def test_supported_is_2_15_to_2_21_both_included():
    assert str(SUPPORTED) == "2.15 to 2.21"
    assert (2, 14) not in SUPPORTED
    assert (2, 15) in SUPPORTED
    assert (2, 21) in SUPPORTED
    assert (2, 22) not in SUPPORTED


@pytest.mark.parametrize(
    ("version", "minor"),
    [("2.15.1", (2, 15)), ("2.21.0-rc1", (2, 21)), ("2.22.0.dev20270101", (2, 22))],
)
def test_minor_of(version, minor):
    assert versions.minor_of(version) == minor


def test_minor_of_something_else():
    with pytest.raises(ValueError, match=r"^version: expected one like '2.21.0', got 'unknown'$"):
        versions.minor_of("unknown")


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({}, []),
        ({"tensorflow": "2.22.0"}, []),
        ({"tensorflow": "2.20.0", "protobuf": "6.33.6"}, []),
        (
            {"tensorflow": "2.14.1"},
            [
                "this TensorFlow is older than 2.15. Upgrade it with "
                '`pip install "tensorflow>=2.15"`.'
            ],
        ),
        (
            {"tensorflow_estimator": None},
            [
                "expected tensorflow-estimator 2.15.0, got none. Install it with "
                "`pip install tensorflow-estimator==2.15.0`."
            ],
        ),
        (
            {"tensorflow_estimator": "2.14.0"},
            [
                "expected tensorflow-estimator 2.15.0, got 2.14.0. Install it with "
                "`pip install tensorflow-estimator==2.15.0`."
            ],
        ),
        (
            {"tensorflow": "2.20.0"},
            [
                "protobuf 7.36.2 does not work with this TensorFlow (training cannot write its "
                'graph.pbtxt). Install an older version with `pip install "protobuf<7"`.'
            ],
        ),
    ],
)
def test_problems(changes, problems):
    assert versions.problems(dataclasses.replace(GOOD, **changes)) == problems


def test_only_2_15_and_older_have_their_own_estimator():
    assert dataclasses.replace(GOOD, tensorflow="2.15.1").has_own_estimator
    assert not dataclasses.replace(GOOD, tensorflow="2.16.0").has_own_estimator
    assert not dataclasses.replace(GOOD, tensorflow=None).has_own_estimator
