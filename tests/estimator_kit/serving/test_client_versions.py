"""Clients while a server replaces versions whose inputs and outputs differ.

Each value tells its version and its output (`small_models.value_of`), so a value under another name
or version shows.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable

import numpy as np
import pytest

from estimator_kit.client import GrpcClient, RestClient, Rows, ServingError
from estimator_kit.client.record_spec import FeatureForm, RecordSpec
from tests.estimator_kit.serving.small_models import serving, value_of, write_form, write_version

NUMBERS = ["float32", "float64", "int32", "int64"]
# Changes that a client once missed: the type of an output, its name, its number, the type of an
# input, and all at once.
FORMS = [
    ({"x": "int64"}, {"y": "int64"}),
    ({"x": "int64"}, {"y": "float32"}),
    ({"x": "int64"}, {"z": "float32"}),
    ({"x": "int64"}, {"z": "float32", "y": "int32"}),
    ({"x": "float32"}, {"z": "int32", "y": "float32"}),
    ({"x": "int32", "w": "float64"}, {"y": "string"}),
]
X = [0, 1, 2, 3, 4]


def form_of(rng):
    """Inputs and outputs of a version. The name of the only input often stays."""
    inputs = {"x": rng.choice(NUMBERS)}
    if rng.random() < 0.2:
        inputs = {name: rng.choice(NUMBERS) for name in rng.sample("uvw", rng.randint(1, 2))}
    names = rng.sample("abc", rng.randint(1, 3))
    return inputs, {name: rng.choice([*NUMBERS, "string"]) for name in names}


class Folder:
    """The folder of a model, whose versions a test adds and removes.

    Attributes:
      forms: `{version: (inputs, outputs)}` of the versions in the folder.
    """

    def __init__(self, path, models):
        self.path, self.models, self.forms, self.last = path, models, {}, 0
        # Called with the number of a request before it gets its version.
        self.before: Callable[[int], None] = lambda number: None
        self._asked, self._lease = 0, models.lease
        models.lease = self._leased

    def _leased(self, *args):
        self._asked += 1
        self.before(self._asked)
        return self._lease(*args)

    def swap_at(self, number, form):
        """Adds a version before that request of the next call."""

        def before(asked):
            if asked == number:
                self.add(form)

        self._asked, self.before = 0, before

    def add(self, form):
        self.last += 1
        write_form(self.path, self.last, *form)
        self.forms[self.last] = form
        self._poll()

    def remove(self):
        newest = max(self.forms)
        shutil.rmtree(self.path / str(newest))
        del self.forms[newest]
        self._poll()

    def _poll(self):
        self.models.poll()
        self.models.poll()
        assert max(self.models.live()["ads"]) == max(self.forms)


def inputs_of(form):
    """The rows of X, as Python's integers: their sum is x."""
    first, *others = form[0]
    return {first: X, **{name: [0] * len(X) for name in others}}


def answers_of(version, form, answer):
    """Whether an answer is the one of a version: its names, types and values."""
    outputs = form[1]
    return set(answer) == set(outputs) and all(
        answer[name].dtype == (np.object_ if dtype == "string" else dtype)
        and answer[name].tolist() == [value_of(version, name, dtype, x) for x in X]
        for name, dtype in outputs.items()
    )


def clients_follow(tmp_path, seed, steps, batch_rows, **policy):
    rng = random.Random(seed)
    tmp_path.mkdir(exist_ok=True)
    options = {"batch_rows": batch_rows, "timeout_secs": 60}
    with (
        serving(tmp_path, **policy) as (address, url, models),
        GrpcClient(address, "ads", **options) as first,
        RestClient(url, "ads", **options) as second,
    ):
        folder, clients = Folder(tmp_path, models), [first, second]
        folder.add(FORMS[0])
        for step in range(steps):
            if step and len(folder.forms) > 1 and rng.random() < 0.3:
                folder.remove()
            elif step:
                folder.add(FORMS[step] if step < len(FORMS) else form_of(rng))
            newest = max(folder.forms)
            form = folder.forms[newest]
            for client in clients:
                answer = client.predict_tensors(inputs_of(form))
                assert answers_of(newest, form, answer), (step, newest, form, answer)
            # The version changes during a call.
            form = folder.forms[max(folder.forms)]
            client, other = rng.choice(clients), form_of(rng)
            folder.swap_at(rng.randint(1, 4), other)
            try:
                answer = client.predict_tensors(inputs_of(form))
            except ServingError as error:
                assert error.code == "INVALID_ARGUMENT", (step, error)
                assert set(form[0]) != set(other[0]), (step, form, other, error)
            else:
                fits = [v for v, made in folder.forms.items() if answers_of(v, made, answer)]
                assert len(fits) == 1 and fits[0] >= newest, (step, fits, answer)
            folder.before = lambda number: None


@pytest.mark.ci
def test_clients_follow_the_version_that_answers(tmp_path):
    clients_follow(tmp_path, 1, len(FORMS), 2)


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(2, 5))
def test_a_random_sequence_of_versions(tmp_path, seed):
    clients_follow(tmp_path / "newest", seed, 12, 2)
    clients_follow(tmp_path / "all", seed, 12, 1, serving_versions=("ads=all",))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10, 20))
def test_a_long_random_sequence_of_versions(tmp_path, seed):
    clients_follow(tmp_path / "newest", seed, 40, random.Random(seed).randint(1, 5))


@pytest.mark.parametrize("kind", [GrpcClient, RestClient])
def test_a_version_that_is_replaced_all_the_time(tmp_path, kind):
    """A call of three batches, and a new version before each request."""
    with serving(tmp_path) as (address, url, models):
        folder = Folder(tmp_path, models)
        folder.add(FORMS[0])
        where = address if kind is GrpcClient else url
        # Each version is loaded before it answers, which takes long on a busy machine.
        with kind(where, "ads", batch_rows=2, timeout_secs=120) as client:
            folder.before = lambda number: folder.add(FORMS[0])
            with pytest.raises(ServingError) as error:
                client.predict_tensors({"x": np.array(X)})
    assert error.value.code == "ABORTED"
    assert error.value.message.startswith("the server replaced the version that answered 5 times")
    assert error.value.message.endswith("Call again, or ask for one version with version=.")


@pytest.mark.ci
@pytest.mark.parametrize("kind", [GrpcClient, RestClient])
def test_classes_and_values_are_of_one_version(tmp_path, kind):
    made = tmp_path / "made"
    live = tmp_path / "live"
    for version in (2, 3):
        write_version(made, version)
    shutil.copytree(made / "2", live / "2")
    feature = FeatureForm("float32", (), feature_list=False, row_lengths="", is_required=True)
    spec = RecordSpec({"v": feature}, frozenset(), {}, frozenset(), frozenset(["v"]))
    with serving(live) as (address, url, models):
        models.poll()
        models.poll()
        lease, asked = models.lease, []

        def leased(*args):
            asked.append(args)
            # Before the second batch.
            if len(asked) == 3 and not (live / "3").exists():
                shutil.copytree(made / "3", live / "3")
                models.poll()
                models.poll()
            return lease(*args)

        models.lease = leased
        place = address if kind is GrpcClient else url
        with kind(place, "ads", rows=Rows(spec), batch_rows=1) as client:
            found = client.regress([{"v": 1.0}] * 4, signature="regress")
            assert found.tolist() == [3.0] * 4 and len(asked) > 4
            shutil.rmtree(live / "3")
            models.poll()
            models.poll()
            asked.clear()
            found = client.classify([{"v": 1.0}] * 4, signature="classify")
            assert found.scores.tolist() == [[-1.0, 1.0]] * 4 and len(asked) > 4


def test_a_client_of_one_version_stays_with_it(tmp_path):
    for version in (2, 3):
        write_form(tmp_path, version, *FORMS[version - 1])
    with serving(tmp_path, serving_versions=("ads=all",)) as (address, url, models):
        models.poll()
        models.poll()
        for kind, place in ((GrpcClient, address), (RestClient, url)):
            with kind(place, "ads", version=2, batch_rows=2) as client:
                assert answers_of(2, FORMS[1], client.predict_tensors({"x": X}))
                shutil.move(tmp_path / "2", tmp_path.parent / "away")
                models.poll()
                with pytest.raises(ServingError) as error:
                    client.predict_tensors({"x": X})
                assert error.value.code == "NOT_FOUND"
                shutil.move(tmp_path.parent / "away", tmp_path / "2")
                models.poll()
                models.poll()


def test_values_of_another_type_than_the_metadata_says(tmp_path):
    """Files that are replaced under the same version number."""
    write_form(tmp_path, 1, {"x": "int64"}, {"y": "int64"})
    with serving(tmp_path) as (_, url, models), RestClient(url, "ads") as client:
        models.poll()
        models.poll()
        assert client.predict_tensors({"x": [1]})["y"].dtype == np.int64
        shutil.rmtree(tmp_path / "1")
        write_form(tmp_path, 1, {"x": "int64"}, {"y": "float32"})
        models.poll()
        models.poll()
        with pytest.raises(ServingError) as error:
            client.predict_tensors({"x": [1]})
    value = value_of(1, "y", "float32", 1)
    assert error.value.code == "ABORTED"
    assert error.value.message == (
        "the outputs of serving_default differ from the metadata of version 1: expected int64, got "
        f"{value}. Do not replace the files of a version that is served, and make a new client."
    )


def test_what_the_small_models_answer():
    assert value_of(3, "b", "float32", 2) == 3982.75
    assert value_of(3, "b", "int64", 2) == 3982
    assert value_of(3, "b", "string", 2) == b"3 b 2.0"
