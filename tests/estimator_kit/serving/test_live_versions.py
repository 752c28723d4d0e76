"""The versions that become live, those that never do, and how one replaces another."""

from __future__ import annotations

import logging
import os
import shutil
import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from estimator_kit.config.areas.serving import ServedModel
from estimator_kit.serving.errors import RequestError
from estimator_kit.serving.live_versions import Models, Versions
from estimator_kit.serving.loaded_model import LoadedModel
from feature_specs.files import versions as version_folders
from tests.estimator_kit.serving.small_models import example, write_version


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Versions 1 to 4, to copy from."""
    folder = tmp_path_factory.mktemp("made")
    for version in range(1, 5):
        write_version(folder, version)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    shutil.copytree(made / "1", tmp_path / "1")
    return tmp_path


@pytest.fixture
def versions(folder):
    def make(load=LoadedModel, **options):
        found = Versions(ServedModel("ads", str(folder), **options), load)
        opened.append(found)
        polled(found)
        return found

    opened: list[Versions] = []
    yield make
    for found in opened:
        found.close()


def polled(found):
    found.poll()
    found.poll()  # The second poll sees that the files no longer change.
    return found.live


def answer(found, **which):
    with found.lease(**which) as model:
        x = np.float32([[1, 2]])
        inputs = {"x": x, "name": np.array([b""], object)}
        return model.run("serving_default", inputs, ["y"])["y"][0, 0]


@pytest.fixture
def said(monkeypatch):
    """The warnings, in order."""
    lines = []
    logger = logging.getLogger("estimator_kit")
    monkeypatch.setattr(logger, "warning", lambda text, *values: lines.append(text % values))
    return lambda: lines


def test_a_new_version_takes_the_place_of_the_old(versions, made, folder):
    found = versions()
    assert (found.live, answer(found)) == ([1], 1.0)
    shutil.copytree(made / "2", folder / "2")
    found.poll()
    assert found.live == [1]  # Its files may still be changing.
    found.poll()
    assert (found.live, answer(found)) == ([2], 2.0)
    assert {v: s.name for v, s in found.states().items()} == {1: "END", 2: "AVAILABLE"}


def test_going_back_is_removing_the_newer_version(versions, made, folder):
    shutil.copytree(made / "2", folder / "2")
    found = versions()
    assert found.live == [2]
    shutil.rmtree(folder / "2")
    polled(found)
    assert (found.live, answer(found)) == ([1], 1.0)


def test_the_last_version_stays_though_its_folder_is_gone(versions, folder, said):
    found = versions()
    shutil.rmtree(folder / "1")
    polled(found)
    assert (found.live, answer(found)) == ([1], 1.0)
    assert said() == [f"model ads: no version is left in {folder}. Version 1 stays live."]


def test_a_request_under_way_keeps_its_version(versions, made, folder):
    found = versions()
    with found.lease() as model:
        shutil.copytree(made / "2", folder / "2")
        polled(found)
        assert found.live == [2] and found.states()[1].name == "UNLOADING"
        again = np.array([b""], object)
        outputs = model.run("serving_default", {"x": np.ones([1, 2], "f"), "name": again}, ["y"])
        assert outputs["y"].tolist() == [[1.0, 1.0]]
    assert found.states()[1].name == "END"


def half_copied(path):
    """The version has a graph, but no variables."""
    shutil.rmtree(path / "variables")


def without_graph(path):
    (path / "saved_model.pb").unlink()


def with_half_a_graph(path):
    file = path / "saved_model.pb"
    file.write_bytes(file.read_bytes()[:-400])


def with_half_the_variables(path):
    (data,) = (path / "variables").glob("*.data-*")
    data.write_bytes(data.read_bytes()[:-1000])


def with_a_flipped_bit(path):
    (data,) = (path / "variables").glob("*.data-*")
    content = bytearray(data.read_bytes())
    content[1] ^= 16
    data.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (half_copied, "version 2 is not served: it cannot be loaded: "),
        (without_graph, "version 2 is not served: it has no saved_model.pb. Is it still being "
                        "copied? Version 1 stays live."),
        (with_half_a_graph, "version 2 is not served: it cannot be loaded: "),
        (with_half_the_variables, "version 2 is not served: it cannot be loaded: "),
        (with_a_flipped_bit, "version 2 is not served: it cannot be loaded: "),
    ],
)  # fmt: skip
def test_a_damaged_version_is_never_served(versions, made, folder, said, damage, reason):
    found = versions()
    shutil.copytree(made / "2", folder / "2")
    damage(folder / "2")
    for _ in range(3):
        polled(found)
        assert (found.live, answer(found)) == ([1], 1.0)
    (line,) = said()  # Once, and not at every poll.
    assert line.startswith(f"model ads: {reason}") and line.endswith(" Version 1 stays live.")
    assert found.states()[2].name == "END" and found.states()[2].error
    # The rest of its files arrive.
    shutil.copytree(made / "2", folder / "2", dirs_exist_ok=True)
    polled(found)
    assert (found.live, answer(found)) == ([2], 2.0)


def warm_up_log(signature="regress"):
    log = prediction_log_pb2.PredictionLog()
    request = log.regress_log.request
    request.model_spec.signature_name = signature
    request.input.example_list.examples.add().CopyFrom(example(v=1.0))
    return log


def test_warm_up_requests_are_asked_before_a_version_goes_live(versions, folder, caplog):
    found = versions()
    predict = prediction_log_pb2.PredictionLog()
    predict.predict_log.request.model_spec.signature_name = "by_examples"
    records = [example(v=1.0).SerializeToString()]
    predict.predict_log.request.inputs["examples"].CopyFrom(tf.make_tensor_proto(records))
    classify = prediction_log_pb2.PredictionLog()
    classify.classify_log.request.model_spec.signature_name = "classify"
    classify.classify_log.request.input.example_list.examples.add().CopyFrom(example(v=1.0))
    write_version(folder, 2, warm_up=[warm_up_log(), predict, classify])
    with caplog.at_level(logging.INFO, "estimator_kit"):
        assert polled(found) == [2]
    assert "model ads: version 2 is live (3 warm-up requests)" in caplog.messages


def test_a_version_that_fails_its_warm_up_is_never_served(versions, folder, said):
    found = versions()
    path = write_version(folder, 2, warm_up=[warm_up_log(), warm_up_log("nothing")])
    for _ in range(2):
        assert polled(found) == [1]
    file = path / "assets.extra" / "tf_serving_warmup_requests"
    assert said() == [
        f"model ads: version 2 is not served: it does not answer: ValueError: warm-up request 1 of "
        f"{file}: unknown signature 'nothing'. Use one of: by_examples, classify, constant, "
        "counts, half_plus_two, odd, raw, regress, serving_default. Version 1 stays live."
    ]


def test_a_version_whose_variables_were_not_initialized_is_never_served(versions, folder, said):
    found = versions()

    def broken(path, version):
        model = LoadedModel(path, version)
        if version == 2:
            with model._session.graph.as_default():
                v1 = tf.compat.v1
                lost = v1.get_variable("lost", [2], tf.float32)
                signature = model.signatures["raw"]
                with tf.control_dependencies([tf.debugging.assert_all_finite(lost, "")]):
                    outputs = tf.identity(
                        model._session.graph.get_tensor_by_name(signature.inputs["name"].name)
                    )
                signature.outputs["name"].name = outputs.name
        return model

    found._load = broken
    write_version(folder, 2)
    assert polled(found) == [1]
    (line,) = said()
    assert "version 2 is not served: it does not answer: FailedPreconditionError" in line


def test_a_broken_newest_version_at_the_start_leaves_the_one_before(made, folder, versions):
    shutil.copytree(made / "2", folder / "2")
    half_copied(folder / "2")
    found = versions()
    assert found.live == [1]


def test_policies_and_labels(made, folder, versions):
    for version in (2, 3, 4):
        shutil.copytree(made / str(version), folder / str(version))
    for name in ("temp-6", "007", str(2**63)):
        shutil.copytree(made / "4", folder / name)
    assert versions(policy="all").live == [1, 2, 3, 4]
    assert versions(latest=2).live == [3, 4]
    labels = {"stable": 1, "canary": 3}
    found = versions(policy="specific", specific=(1, 3), labels=labels)
    assert found.live == [1, 3]
    assert [answer(found, label=label) for label in ("stable", "canary")] == [1.0, 3.0]
    assert answer(found, version=1) == 1.0 and answer(found) == 3.0
    for which, code, message in (
        ({"version": 4}, "NOT_FOUND", "model 'ads' has no version 4 that is live"),
        (
            {"label": "new"},
            "INVALID_ARGUMENT",
            "model 'ads' has no label 'new'. Use one of: stable, canary.",
        ),
    ):
        with pytest.raises(RequestError) as error, found.lease(**which):
            pass
        assert (error.value.code, error.value.message) == (code, message)


def test_versions_that_are_not_wanted_have_no_state(made, folder, versions):
    for version in (2, 3):
        shutil.copytree(made / str(version), folder / str(version))
    found = versions()
    assert {v: s.name for v, s in found.states().items()} == {3: "AVAILABLE"}
    shutil.copytree(made / "4", folder / "4")
    found.poll()
    assert {v: s.name for v, s in found.states().items()} == {3: "AVAILABLE", 4: "START"}
    shutil.rmtree(folder / "4")
    polled(found)
    assert {v: s.name for v, s in found.states().items()} == {3: "AVAILABLE"}


def test_swaps_under_requests_mix_no_versions(made, folder, versions):
    """Threads send requests meanwhile. Each answer comes from one of the expected versions."""
    found = versions()
    done, wrong = threading.Event(), []
    counts = [0] * 4

    def ask(number):
        while not done.is_set():
            try:
                with found.lease() as model:
                    x = np.ones([50, 2], np.float32)
                    inputs = {"x": x, "name": np.array([b""] * 50, object)}
                    y = model.run("serving_default", inputs, ["y"])["y"]
                if set(y.ravel().tolist()) != {float(model.version)}:
                    wrong.append(y)
            except Exception as error:
                wrong.append(error)
            counts[number] += 1

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    try:
        for version in (2, 3, 4):
            shutil.copytree(made / str(version), folder / str(version))
            assert polled(found) == [version]
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not wrong and min(counts) > 0
    assert [s.name for s in found.states().values()] == ["END", "END", "END", "AVAILABLE"]


def test_a_model_without_a_version_is_not_found_until_it_has_one(made, tmp_path):
    models = Models([ServedModel("ads", str(tmp_path / "later"))])
    models.poll()
    with pytest.raises(RequestError) as error, models.lease("ads"):
        pass
    assert error.value.message == "model 'ads' has no version that is live"
    shutil.copytree(made / "1", tmp_path / "later" / "1")
    models.poll()
    models.poll()
    assert models.live() == {"ads": [1]}
    models.close()
    assert models.live() == {"ads": []}


def test_a_folder_that_cannot_be_listed_ends_nothing(versions, folder, said, monkeypatch):
    found = versions()

    def numbers(path):
        raise tf.errors.UnavailableError(None, None, "the disk is away")

    monkeypatch.setattr(version_folders, "numbers", numbers)
    assert polled(found) == [1]
    assert said() == [f"model ads: {folder} cannot be listed: UnavailableError: the disk is away"]


def test_a_file_name_that_is_no_utf8_ends_nothing(versions, made, folder, said):
    found = versions()
    shutil.copytree(made / "2", folder / "2")
    with open(os.fsencode(folder / "2") + b"/a\xff", "wb"):
        pass
    for _ in range(2):
        assert polled(found) == [1]
    (line,) = said()
    assert line.startswith(
        "model ads: version 2 is not served: its files cannot be listed: UnicodeDecodeError: "
    )
    assert found.states()[2].name == "END"


def test_a_look_that_fails_ends_neither_the_server_nor_the_looks_at_other_models(
    made, tmp_path, monkeypatch, caplog
):
    shutil.copytree(made / "1", tmp_path / "1")
    models = Models([ServedModel("bad", "nowhere"), ServedModel("ads", str(tmp_path))])

    def poll():
        raise AssertionError("a bug")

    monkeypatch.setattr(models._models["bad"], "poll", poll)
    models.poll()
    models.poll()
    assert models.live() == {"bad": [], "ads": [1]}
    assert caplog.messages.count("model bad: its folder could not be read") == 2
    models.close()


def test_other_files_under_the_number_of_a_live_version_take_its_place(
    versions, made, folder, said
):
    found = versions()
    with found.lease() as model:
        shutil.rmtree(folder / "1")
        polled(found)
        half_copied(shutil.copytree(made / "2", folder / "1"))
        polled(found)
        assert (found.live, answer(found)) == ([1], 1.0)
        assert "version 1 is not served: it cannot be loaded: " in said()[-1]
        assert found.states()[1].name == "AVAILABLE"
        shutil.copytree(made / "2", folder / "1", dirs_exist_ok=True)
        found.poll()
        assert answer(found) == 1.0  # Its files may still be changing.
        found.poll()
        assert (found.live, answer(found)) == ([1], 2.0)
        x = {"x": np.float32([[1, 2]]), "name": np.array([b""], object)}
        assert model.run("serving_default", x, ["y"])["y"][0, 0] == 1.0
    assert {v: s.name for v, s in found.states().items()} == {1: "AVAILABLE"}


def test_a_label_of_a_version_that_is_not_live_is_warned_of(versions, made, folder, said):
    found = versions(labels={"stable": 1, "canary": 2})
    found.poll()
    assert said() == ["model ads: the label canary means version 2, which is not served. Live: 1"]
    shutil.copytree(made / "2", folder / "2")
    polled(found)
    assert said()[1:] == [
        "model ads: the label stable means version 1, which is not served. Live: 2"
    ]


def test_states_of_versions_that_ended_do_not_pile_up(versions, made, folder):
    found = versions()
    for version in range(100, 140):
        (folder / str(version)).mkdir()
        polled(found)
        (folder / str(version)).rmdir()
    assert len(found.states()) <= 21
    assert found.live == [1]
