"""Shared by all tests: a quiet TensorFlow, small training data, and things that are made only once.

pytest skips modules that have no test of this run, because each test process would import them all.
Without TensorFlow, these are the modules without the mark `no_tensorflow`.
"""

from __future__ import annotations

import copy
import fcntl
import gc
import importlib.util
import json
import os
import pathlib
import random
import re
import shutil

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

TENSORFLOW = importlib.util.find_spec("tensorflow") is not None
if TENSORFLOW:
    import estimator_kit.compat  # noqa: F401  # tf.estimator, on every TensorFlow

ROOT = pathlib.Path(__file__).parent.parent


def pytest_collection_finish():
    """Collects garbage rarely, and not in what was imported, which saves a seventh of the time."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def needs_tensorflow(path: pathlib.Path) -> bool:
    """Whether a test module lacks the mark `no_tensorflow`."""
    return "\npytestmark = pytest.mark.no_tensorflow\n" not in path.read_text(encoding="utf-8")


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config):
    """Skips modules without a test of this run. `-m` and the text of the module tell which."""
    if not collection_path.name.startswith("test_") or collection_path.is_dir():
        return None
    marks = config.getoption("markexpr")
    wanted = set() if re.search(r"\bor\b|\(", marks) else {*marks.split(" and ")}
    if needs_tensorflow(collection_path):
        left_out = not TENSORFLOW
    else:
        left_out = TENSORFLOW and "not no_tensorflow" in wanted
    if "ci" in wanted:
        left_out |= "mark.ci" not in collection_path.read_text(encoding="utf-8")
    return left_out or None


def pytest_collection_modifyitems(items: list[pytest.Item]):
    """Checks that a module with a test for `ci` has the mark in its text; see above."""
    for path in {item.path for item in items if item.get_closest_marker("ci")}:
        if "mark.ci" not in path.read_text(encoding="utf-8"):
            raise pytest.UsageError(f"{path}: a test has the mark `ci` from elsewhere. Write "
                                    "`pytest.mark.ci` in this file.")  # fmt: skip


@pytest.fixture(autouse=True, scope="session")
def cached_rows_of_tests(tmp_path_factory):
    """Trainings of tests keep their transformed rows in a folder of this session."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture(autouse=True)
def determinism_ends():
    """Turns op determinism off after each test. TensorFlow keeps it on until the process ends."""
    yield
    if TENSORFLOW:
        importlib.import_module("tensorflow.python.framework.config").disable_op_determinism()


@pytest.fixture(autouse=True)
def same_random_numbers(monkeypatch):
    """Variables of a graph that a test makes start with the same values in each run.

    An Estimator sets the seed itself. A bare graph has none, so a test could fail at random.
    """
    if not TENSORFLOW:
        return
    import tensorflow as tf

    make = tf.Graph.__init__

    def make_seeded(graph, *arguments, **named):
        make(graph, *arguments, **named)
        graph.seed = 1

    monkeypatch.setattr(tf.Graph, "__init__", make_seeded)
    tf.random.set_seed(1)


@pytest.fixture(autouse=True)
def no_report_page(request, monkeypatch):
    """Trainings of tests write no report page, unless a test asks for the fixture `report_page`.

    A page takes a second and 5 MB, and hundreds of tests train.
    """
    if "report_page" in request.fixturenames or not TENSORFLOW:
        return
    from estimator_kit.observing.page import page

    monkeypatch.setattr(page, "attempt", lambda write: "no report page: left out in tests")


@pytest.fixture
def report_page():
    """Asks for the report page at the end of trainings; see `no_report_page`."""


# A spec with every shape of feature that the kit reads; it trains in a second.
DOCUMENT = {
    "features": {
        "price": {"dtype": "float32", "default": 0.0},
        "user": {"dtype": "string", "default": ""},
        "city": {"dtype": "string"},
        "tags": {"dtype": "string", "shape": "variable"},
    },
    "columns": {
        "price": {"numeric": "price", "normalizer": "log1p"},
        "user": {"hash_bucket": "user", "size": 20},
        "city": {"vocabulary": "city", "list": ["rome", "oslo"], "oov_buckets": 1},
        "tag": {"hash_bucket": "tags", "size": 10},
        "city_x_tag": {"crossed": ["city", "tags"], "size": 30},
        "user_emb": {"embedding": "user", "dimension": 4},
        "city_hot": {"indicator": "city"},
        "tag_emb": {"embedding": "tag", "dimension": 3},
    },
    "groups": {
        "wide": ["price", "user", "city", "tag", "city_x_tag"],
        "deep": ["price", "user_emb", "city_hot", "tag_emb"],
    },
    "labels": {"click": {"dtype": "int64"}, "buy": {"dtype": "int64", "weight": "click"}},
    "objectives": {"click": {"head": "binary"}, "buy": {"head": "binary", "loss_weight": 0.5}},
}


@pytest.fixture
def document() -> dict:
    """A copy of the spec above, which a test may change."""
    return copy.deepcopy(DOCUMENT)


def make_rows(count: int, seed: int = 0) -> list[dict]:
    """Rows for DOCUMENT; click depends on price and city together, and `row` numbers the rows."""
    rng = random.Random(seed)
    rows = []
    for i in range(count):
        price = round(rng.uniform(0, 10), 3)
        city = rng.choice(["rome", "oslo", "lima"])
        click = int((price > 5) == (city == "rome") and rng.random() < 0.9)
        rows.append(
            {
                "row": i,
                "price": price,
                "user": rng.choice([None, "ann", "bob", "cy"]),
                "city": city,
                "tags": rng.sample(["a", "b", "c", "d"], rng.randint(0, 3)),
                "click": click,
                "buy": int(click and city == "rome"),
            }
        )
    return rows


def small_run(data, model_dir, **values):
    """A function that makes the config of a small run on the files of `ads`, with changes."""
    import estimator_kit as ek

    given = {
        "spec": f"{data}/spec.yaml",
        "model_dir": str(model_dir),
        "train_files": (f"{data}/train-*",),
        "eval_files": (f"{data}/eval.tfrecord",),
        "batch_size": 50,
        "exporters": (),
        **values,
    }
    return lambda **changes: ek.ExperimentConfig(**{**given, **changes})


def variables(path):
    """The variables of a checkpoint, or of the latest one in a model directory, by name."""
    import tensorflow as tf

    checkpoint = tf.train.latest_checkpoint(str(path)) or str(path)
    names = [name for name, _ in tf.train.list_variables(checkpoint)]
    return {name: tf.train.load_variable(checkpoint, name) for name in names}


@pytest.fixture(scope="session")
def once(tmp_path_factory, worker_id):
    """A function (name, make) -> folder; `make(folder)` fills it once for all test processes.

    The first test that asks for a name makes the folder, and tests in other processes wait. A test
    that changes the content works on a copy.
    """
    base = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        base = base.parent  # The folder of all processes of pytest-xdist.
    root = base / "once"
    root.mkdir(exist_ok=True)

    def get(name, make):
        folder, done = root / name, root / f"{name}.done"
        with (root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                done.touch()
        return folder

    return get


@pytest.fixture(scope="session")
def ads(once):
    """A folder with spec.yaml (in JSON, which is YAML), four files to train on and one to evaluate.

    The last training file is GZIP.
    """

    def write(folder):
        from input_pipelines.record_files import writing

        (folder / "spec.yaml").write_text(json.dumps(DOCUMENT))
        for i, size in enumerate((150, 130, 90, 30)):
            suffix = ".gz" if i == 3 else ""
            path = f"{folder}/train-{i}.tfrecord{suffix}"
            writing.write_examples(path, make_rows(size, seed=i))
        writing.write_examples(f"{folder}/eval.tfrecord", make_rows(200, seed=9))

    return once("ads", write)


def place(path: str, number: int) -> str:
    """The name of a record in messages, in an undamaged TFRecord file: `record 3 at byte 210`."""
    data = pathlib.Path(path).read_bytes()
    offset = 0
    for _ in range(number):
        offset += 16 + int.from_bytes(data[offset : offset + 8], "little")
    return f"record {number} at byte {offset}"
