"""The flags of serving: models, versions, labels, and what is wrong with them."""

from __future__ import annotations

import pytest

import estimator_kit as ek
from estimator_kit.config.areas.serving import ServedModel, served_models

pytestmark = pytest.mark.no_tensorflow


def config(**values):
    return ek.ExperimentConfig(**{"mode": "serve", "serving_models": ("ads=x/y",), **values})


def test_models_policies_and_labels():
    made = config(
        serving_models=("ads=x/y", "b.c-d=gs://z/w=1", "e=f"),
        serving_versions=("ads=7+5", "b.c-d=all", "e=latest:3"),
        serving_labels=("ads:stable=5", "ads:canary=7"),
    )
    assert served_models(made) == [
        ServedModel("ads", "x/y", "specific", 1, (7, 5), {"stable": 5, "canary": 7}),
        ServedModel("b.c-d", "gs://z/w=1", "all"),
        ServedModel("e", "f", "latest", 3),
    ]


def test_which_versions_are_candidates():
    found = [1, 5, 7]
    assert ServedModel("a", "p").candidates(found) == [7, 5, 1]
    assert ServedModel("a", "p", latest=2).most(found) == 2
    specific = ServedModel("a", "p", "specific", specific=(5, 9))
    assert specific.candidates(found) == [5]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"serving_models": ()}, "--serving_models is missing. --mode=serve needs names and "
                                 "folders of versions, such as ads=runs/ads/export/best."),
        ({"serving_models": ("ads",)}, "--serving_models: expected name=folder, such as "
                                       "ads=runs/ads/export/best, got 'ads'."),
        ({"serving_models": ("a/b=c",)}, "--serving_models: expected name=folder, such as "
                                         "ads=runs/ads/export/best, got 'a/b=c'."),
        ({"serving_models": ("..=c",)}, "--serving_models: expected name=folder, such as "
                                        "ads=runs/ads/export/best, got '..=c'."),
        ({"serving_models": ("a=b", "a=c")}, "--serving_models: 'a' is listed twice. "
                                              "Remove one of them."),
        ({"serving_versions": ("ads=new",)}, "--serving_versions: expected model=latest:2, "
                                             "model=all or model=5+7, got 'ads=new'."),
        ({"serving_versions": ("ads=5+5",)}, "--serving_versions: expected model=latest:2, "
                                             "model=all or model=5+7, got 'ads=5+5'."),
        ({"serving_versions": ("adz=5",)}, "--serving_versions: --serving_models has no model "
                                           "'adz'. Add it there."),
        ({"serving_labels": ("ads=5",)}, "--serving_labels: expected model:label=version, "
                                         "such as ads:stable=5, got 'ads=5'."),
        ({"serving_labels": ("ads:stable=05",)}, "--serving_labels: expected model:label=version, "
                                                 "such as ads:stable=5, got 'ads:stable=05'."),
        ({"serving_labels": ("ads:a=5", "ads:a=6")}, "--serving_labels: ads:a is listed "
                                                    "twice. Remove one of them."),
        ({"serving_labels": ("ads:a=5",), "serving_versions": ("ads=6",)},
         "--serving_labels: ads:a is version 5, which --serving_versions leaves out. Add it "
         "there."),
        ({"serving_labels": ("ads:a=5", "ads:b=6", "ads:c=6")},
         "--serving_labels: ads has labels for 2 versions, but only its latest 1 would be served. "
         "Name the versions: --serving_versions=ads=5+6"),
        ({"serving_grpc_port": 1, "serving_rest_port": 1},
         "--serving_grpc_port and --serving_rest_port: expected different ports, got 1 twice."),
        ({"serving_grpc_port": 70000},
         "--serving_grpc_port: expected at most 65535, got 70000."),
    ],
)  # fmt: skip
def test_what_is_wrong(values, problem):
    with pytest.raises(ek.ConfigError) as error:
        config(**values)
    assert str(error.value) == problem
