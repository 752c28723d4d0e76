"""The flags of serving: models, versions, labels, and what is wrong with them."""

from __future__ import annotations

import pytest

import estimator_kit as ek
from estimator_kit.config.rules.serving import ServedModel, served_models

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
        ({"serving_models": ()}, "--serving_models is missing; --mode=serve needs names and "
                                 "folders of versions, as ads=runs/ads/export/best"),
        ({"serving_models": ("ads",)}, "--serving_models: got 'ads', expected name=folder, as "
                                       "ads=runs/ads/export/best"),
        ({"serving_models": ("a/b=c",)}, "--serving_models: got 'a/b=c', expected name=folder, as "
                                         "ads=runs/ads/export/best"),
        ({"serving_models": ("..=c",)}, "--serving_models: got '..=c', expected name=folder, as "
                                        "ads=runs/ads/export/best"),
        ({"serving_models": ("a=b", "a=c")}, "--serving_models: 'a' is there twice"),
        ({"serving_versions": ("ads=new",)}, "--serving_versions: got 'ads=new', expected "
                                             "model=latest:2, model=all or model=5+7"),
        ({"serving_versions": ("ads=5+5",)}, "--serving_versions: got 'ads=5+5', expected "
                                             "model=latest:2, model=all or model=5+7"),
        ({"serving_versions": ("adz=5",)}, "--serving_versions: no model 'adz' in "
                                           "--serving_models"),
        ({"serving_labels": ("ads=5",)}, "--serving_labels: got 'ads=5', expected "
                                         "model:label=version, as ads:stable=5"),
        ({"serving_labels": ("ads:stable=05",)}, "--serving_labels: got 'ads:stable=05', expected "
                                                 "model:label=version, as ads:stable=5"),
        ({"serving_labels": ("ads:a=5", "ads:a=6")}, "--serving_labels: ads:a is there twice"),
        ({"serving_labels": ("ads:a=5",), "serving_versions": ("ads=6",)},
         "--serving_labels: ads:a is version 5, which --serving_versions leaves out"),
        ({"serving_labels": ("ads:a=5", "ads:b=6", "ads:c=6")},
         "--serving_labels: ads has labels of 2 versions, and only its latest 1 would be served; "
         "name them: --serving_versions=ads=5+6"),
        ({"serving_grpc_port": 1, "serving_rest_port": 1},
         "--serving_grpc_port and --serving_rest_port are both 1"),
        ({"serving_grpc_port": 70000},
         "--serving_grpc_port: got 70000, expected less than or equal to 65535"),
        ({"mode": "serving_config"},
         "--serving_config_dir is missing; --mode=serving_config writes its files there"),
        ({"mode": "serving_config", "serving_config_dir": "d", "serving_rest_port": 0},
         "--serving_grpc_port and --serving_rest_port: 0 is for --mode=serve alone"),
        ({"serving_allowed_hosts": ("http://a.b:8501",)},
         "--serving_allowed_hosts: got 'http://a.b:8501', expected a name without a port, as "
         "models.example.com, or *"),
        ({"serving_image": "tensorflow/serving"}, "--serving_image: got 'tensorflow/serving', "
         "expected an image with its tag, as tensorflow/serving:2.15.1"),
        ({"serving_image": "tensorflow/serving:latest"},
         "--serving_image: the tag latest is another image tomorrow; name a release"),
    ],
)  # fmt: skip
def test_what_is_wrong(values, problem):
    with pytest.raises(ek.ConfigError) as error:
        config(**values)
    assert str(error.value) == problem
