"""Cycles of retraining, in sequence and interrupted."""

from __future__ import annotations

import errno
import json
import pathlib
import threading

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.commands import inspect
from estimator_kit.config.modes import command_of
from estimator_kit.distributed import tasks
from estimator_kit.errors import Refused, TimedOut
from estimator_kit.retraining import cycle, cycle_files, gate_stage, modes, notices
from estimator_kit.retraining.cycle_report import Report
from estimator_kit.retraining.gate_stage import Judged
from estimator_kit.retraining.lineage import Lineage
from estimator_kit.retraining.promotion import Serving
from estimator_kit.retraining.training_stage import Trained
from estimator_kit.retraining.window import CycleWindow
from input_pipelines.prepare.analyze.scan import scan
from tests.estimator_kit.retraining.reports import FORMS
from tests.integration.retraining_data import config, write_day, write_spec


def of_cycle(folder, name):
    return cycle_files.find(str(folder / "model"), name)


def served(folder):
    return [version.number for version in Serving(str(folder / "model/serving"), "").versions()]


@pytest.mark.ci
def test_the_first_cycle_is_promoted_and_says_from_what(promoted):
    folder = promoted
    kept = json.loads((folder / "first.json").read_text())
    assert kept["report"].startswith("# cycle 0001 (2026-01-03) was promoted: version 1 is live\n")
    assert kept["exports"] == {"final": "model/serving/1"}
    assert tf.saved_model.load("model/serving/1").signatures["serving_default"]
    found = of_cycle(folder, "1")
    window, lineage = found.output(CycleWindow), found.output(Lineage)
    assert [day.name for day in window.train] == ["2026-01-01", "2026-01-02"]
    assert [day.name for day in window.evaluate] == ["2026-01-03"]
    assert [(pathlib.Path(file.path).name, file.rows) for file in lineage.data.evaluate] == [
        ("part-0.tfrecord", 60), ("part-1.tfrecord", 60),
    ]  # fmt: skip
    assert (lineage.parent.kind, lineage.version) == ("scratch", 1)
    assert lineage.by.pid == kept["pid"]
    # oslo is an old word; rome and lima are new, in either order.
    assert found.output(Report).vocabularies["words/city.txt"].new == 2
    words = (folder / "model/cycles/0001/spec/words/city.txt").read_text().split()
    assert words[0] == "oslo" and sorted(words[1:]) == ["lima", "rome"]
    assert (folder / "words/city.txt").read_text() == "oslo\n"


@pytest.mark.ci
def test_the_gate_has_the_metrics_of_the_evaluation(first_cycle):
    found = of_cycle(first_cycle, "1")
    both, metrics = found.output(Judged).metrics, found.output(Trained).metrics
    assert both["log_loss/click"].candidate == pytest.approx(metrics["loss/click"], rel=1e-4)
    assert both["calibration/click"].candidate == pytest.approx(
        metrics["prediction_mean/click"] / metrics["label_mean/click"], rel=1e-4
    )
    assert both["auc/buy"].candidate == pytest.approx(metrics["auc/buy"], abs=2e-3)


@pytest.mark.ci
def test_the_same_command_again_changes_nothing(promoted):
    def there():
        # `facts` is a cache.
        return sorted(p for p in promoted.rglob("*") if "facts" not in p.parts)

    before = there()
    # Neither the date nor how a cycle reports changes what it would train.
    for same in (
        {"as_of": "2026-01-03"},
        {"as_of": "2026-01-09", "report": "on", "summary_steps": 7},
    ):
        with pytest.raises(ek.NothingToDo) as error:
            cycle.run(command_of(config(**same)))
        assert str(error.value) == (
            "cycle 0001 with the same periods, spec, code and flags was promoted. Use --force to "
            "run another cycle."
        )
    assert there() == before


@pytest.mark.ci
def test_a_live_model_that_cannot_read_the_new_rows(tmp_path, monkeypatch):
    """Its table has 2 ids, and the rows of the new day have the id 5."""
    monkeypatch.chdir(tmp_path)
    path = pathlib.Path(write_spec(tmp_path, warm_start="none"))
    document = json.loads(path.read_text())
    document["features"]["shop"] = {"dtype": "int64"}
    document["groups"]["wide"].append("shop")

    def write(size, **gate):
        document["columns"]["shop"] = {"identity": "shop", "size": size}
        document["retraining"]["gate"].update(gate)
        path.write_text(json.dumps(document))

    write(2)
    for day in (1, 2, 3):
        write_day(tmp_path, day, shop=1)
    cycle.run(command_of(config()))
    write(10)
    write_day(tmp_path, 4, shop=5)
    with pytest.raises(Refused) as error:
        cycle.run(command_of(config(as_of="2026-01-04")))
    said = str(error.value)
    assert said.startswith(
        "cycle 0002 (2026-01-04) was refused by the gate: version 1 stays live\n"
    )
    assert "- not judged: auc/click max_loss 0.5" in said
    assert (
        "- REFUSED: a comparison with the live model; the live model, version 1, cannot read"
        in said
    )
    assert "shop" in said.partition("cannot read the evaluation rows: ")[2].splitlines()[0]
    write(10, promote_unjudged=True)
    _, text = cycle.run(command_of(config(as_of="2026-01-04")))
    assert text.startswith("# cycle 0002 (2026-01-04) was promoted: version 2 is live\n")


@pytest.mark.ci
def test_new_data_warm_starts_and_a_refusal_leaves_the_live_model(promoted):
    """Then it tests rollback, history and reproduction on the result."""
    folder = promoted
    write_day(folder, 4, city="bern")
    never = {"conditions": [{"metric": "log_loss/click", "max": 0}]}
    write_spec(folder, gate=never)
    with pytest.raises(Refused):
        cycle.run(command_of(config(as_of="2026-01-04", keep_cycles=1)))
    assert served(folder) == [1]
    result = folder / "model/cycles/0002/train/result.json"
    trained = result.stat().st_mtime_ns
    write_spec(folder)  # A looser gate judges the same model again, without a training.
    _, text = cycle.run(command_of(config(as_of="2026-01-04", keep_cycles=1)))
    assert result.stat().st_mtime_ns == trained
    judged = of_cycle(folder, "2").output(Judged)
    assert "started from live (0001)" in text
    assert served(folder) == [1, 2]
    assert judged.live_version == 1 and judged.metrics["auc/click"].live is not None
    # The parent of the live model is kept, whatever --keep_cycles says.
    assert (folder / "model/cycles/0001/train/checkpoint").exists()

    write_spec(folder, gate=never)
    changed = config(as_of="2026-01-04")
    with pytest.raises(ek.NothingToDo, match=r"cycle 0002 .* was promoted"):
        cycle.run(command_of(changed))
    with pytest.raises(Refused) as error:
        cycle.run(command_of(config(as_of="2026-01-04", force=True)))
    refused = "cycle 0003 (2026-01-04) was refused by the gate: version 2 stays live\n"
    assert str(error.value).startswith(refused)
    assert served(folder) == [1, 2]
    assert (folder / "model/cycles/0003/train/export/final").is_dir()
    with pytest.raises(ek.NothingToDo, match=r"cycle 0003 .* was refused by the gate\. Use --f"):
        cycle.run(command_of(changed))

    assert modes.roll_back(*[config(mode="rollback", to=1)] * 2) == (
        "version 3 is live. It is a copy of version 1 of cycle 0001, and replaces version 2."
    )
    with pytest.raises(ek.ConfigError, match="--to=3: version 3 is already live"):
        modes.roll_back(*[config(mode="rollback", to=3)] * 2)
    lines = inspect.inspect(command_of(config(mode="inspect"))).splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["0001", "0002", "0003"]
    assert "version 3: cycle 0001, copy of version 1, live" in lines
    with open(notices.write_pages(f"{folder}/model"), encoding="utf-8") as file:
        page = file.read()
    assert "3 cycles of retraining; version 3 is live (rollback to version 1, cycle 0001" in page
    assert "<td>log_loss/click max 0</td>" in page
    assert "<h2>Gate</h2>" in (folder / "model/cycles/0003/report.html").read_text()

    text = modes.reproduce(*[config(cycle="2")] * 2)
    assert text.startswith("cycle 0002, trained again:\n")
    assert float(text.split()[-1]) < 1e-3
    (folder / "data/dt=2026-01-02/part-1.tfrecord").write_bytes(b"")
    with pytest.raises(ek.ConfigError, match=r"cannot be reproduced: \S*part-1.tfrecord has chan"):
        modes.reproduce(*[config(cycle="2")] * 2)


@pytest.mark.nightly
def test_a_warm_start_fits_with_boundaries_from_statistics(fresh):
    path = fresh / "spec.yaml"
    document = json.loads(path.read_text())
    columns = document["columns"]
    del columns["price"]["normalizer"]
    columns["prices"] = {"bucketized": "price", "quantiles": 4, "statistics": "statistics.json"}
    document["groups"]["wide"].append("prices")
    path.write_text(json.dumps(document))
    first = scan([str(fresh / "data/dt=2026-01-01/part-0.tfrecord")]).statistics(1)
    (fresh / "statistics.json").write_text(first.as_text())
    cycle.run(command_of(config(fresh)))
    write_day(fresh, 4, price=9.5)
    _, text = cycle.run(command_of(config(fresh, as_of="2026-01-04")))
    assert "- started from live (0001); weights: " in text
    assert "- statistics.json: statistics of the model that training starts from\n" in text


@pytest.fixture
def fresh(tmp_path):
    write_spec(tmp_path)
    for day in (1, 2, 3):
        write_day(tmp_path, day)
    return tmp_path


@pytest.mark.ci
def test_a_cycle_that_died_goes_on_where_it_stopped(fresh, monkeypatch, caplog):
    """A full disk at the gate and at the promotion. Finished stages are not run again."""

    def full(*arguments, **named):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(gate_stage, "run", full)
        with pytest.raises(OSError, match="No space left"):
            cycle.run(command_of(config(fresh)))
    report = json.loads((fresh / "model/cycles/0001/report.json").read_text())
    assert report["outcome"] == "failed" and "No space left" in report["problem"]
    assert served(fresh) == []
    record = Serving._record_versions

    def full_after_rename(serving):
        if served(fresh):
            full()
        record(serving)

    with monkeypatch.context() as patched:
        patched.setattr(tasks, "train", full)  # It must not be called again.
        patched.setattr(Serving, "_record_versions", full_after_rename)
        with pytest.raises(OSError, match="No space left"):
            cycle.run(command_of(config(fresh)))
    assert served(fresh) == [1]  # It is live, but no stage has recorded that yet.
    with monkeypatch.context() as patched:
        patched.setattr(tasks, "train", full)
        cycle.run(command_of(config(fresh)))
    assert served(fresh) == [1]
    assert [c.outcome for c in cycle_files.cycles(str(fresh / "model"))] == ["promoted"]


@pytest.mark.nightly
# On a busy machine the limit may be exceeded while the stage still opens its files.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_a_stage_over_its_time_ends_with_its_state_saved(fresh, monkeypatch):
    def slow(*arguments, **named):
        while True:  # An endless wait would miss a signal that comes just before it.
            threading.Event().wait(0.05)

    with monkeypatch.context() as patched:
        patched.setattr(gate_stage, "run", slow)
        with pytest.raises(TimedOut) as error:
            cycle.run(command_of(config(fresh, stage_limits=("gate=0.01",))))
    assert str(error.value) == (
        "the stage gate took longer than its limit of 0.01 s (--stage_limits). Run the same "
        "command again to go on with it."
    )
    # New data come before the next start, so it abandons the cycle and begins a new one.
    write_day(fresh, 4)
    cycle.run(command_of(config(fresh, as_of="2026-01-04")))
    outcomes = [cycle.outcome for cycle in cycle_files.cycles(str(fresh / "model"))]
    assert outcomes == ["abandoned", "promoted"]


def test_a_check_that_stops_trains_nothing(fresh):
    write_spec(fresh, label_rate={"click": {"max": 0.01, "otherwise": "stop"}})
    with pytest.raises(ek.DataError) as error:
        cycle.run(command_of(config(fresh)))
    lines = str(error.value).splitlines()
    assert lines[0] == "the checks before training stopped this cycle:"
    assert lines[1].startswith("2026-01-01: the mean of label 'click' is 0.")
    assert lines[1].endswith(", above max: 0.01")
    assert not (fresh / "model/cycles/0001/train").exists()


@pytest.mark.nightly
def test_a_warm_start_that_does_not_fit_becomes_one_from_scratch(promoted):
    write_day(promoted, 4)
    text = (promoted / "spec.yaml").read_text()
    # With another hash size the shapes do not allow a warm start.
    (promoted / "spec.yaml").write_text(text.replace('"size": 20', '"size": 25'))
    cycle.run(command_of(config(as_of="2026-01-04")))
    start = of_cycle(promoted, "2").output(Trained).start
    assert (start.kind, start.source) == ("scratch", None)
    assert start.reason.startswith("a warm start does not fit: cannot warm start from ")
    assert "[20, " in start.reason and "[25, " in start.reason  # The whole error.
    assert served(promoted) == [1, 2]


def test_too_few_days_are_told_though_there_is_no_cycle_yet(fresh):
    told = config(fresh, as_of="2026-01-01", prometheus_file=str(fresh / "ads.prom"))
    with pytest.raises(ek.DataError, match="expected at least 1 complete periods for evaluation"):
        cycle.run(command_of(told))
    text = (fresh / "ads.prom").read_text()
    assert f'failed{{model="model",model_dir="{fresh}/model"}} 1.0\n' in text
    assert not (fresh / "model" / "cycles").exists()


@pytest.mark.ci
def test_every_file_of_a_cycle_has_a_form(first_cycle):
    folder = first_cycle / "model/cycles/0001"
    assert {path.name for path in folder.glob("*.json")} == set(FORMS)
    for name, form in FORMS.items():
        found = of_cycle(first_cycle, "1").output(form)
        assert not found.model_extra
        assert json.dumps(found.as_json(), indent=2) + "\n" == (folder / name).read_text()
