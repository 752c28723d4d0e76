"""The report page: what it shows, that it needs no network, and what it tells to look at."""

from __future__ import annotations

import builtins
import dataclasses
import html.parser
import re
import shutil

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit import commands
from estimator_kit.errors import ConfigError
from estimator_kit.observing.curves import Histogram, Labels
from estimator_kit.observing.measured_export import (
    Flops,
    Importance,
    ObjectiveSlices,
    Overall,
    Slice,
    Slices,
    Worth,
)  # fmt: skip
from estimator_kit.observing.page import compare, findings, numbers, page, sections, texts
from estimator_kit.result import BestEvaluation, InputProfile
from tests import programs
from tests.conftest import small_run


@pytest.fixture(scope="module")
def run(ads, tmp_path_factory):
    """A model directory with three evaluations."""
    folder = tmp_path_factory.mktemp("page") / "run"
    config = small_run(ads, folder, max_steps=6, save_checkpoints_steps=2, exporters=("final",))
    ek.run(config())
    return str(folder)


@pytest.fixture(scope="module")
def read(run):
    return numbers.read(run)


@pytest.fixture(scope="module")
def text(run):
    with open(page.write(run), encoding="utf-8") as file:
        return file.read()


class Reader(html.parser.HTMLParser):
    """The headings of a page, and the addresses that it would load."""

    def __init__(self, text):
        super().__init__()
        self.headings, self.loaded, self._open = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self._open = tag
        self.loaded += [v for k, v in attributes if k in ("src", "href") and not v.startswith("#")]

    def handle_data(self, data):
        if self._open == "h2" and data.strip():
            self.headings.append(data)
        self._open = None


def test_the_page_has_a_section_for_all_numbers(text):
    assert Reader(text).headings == [
        "Look at this", "Outcome", "Learning curves", "Objective click", "Objective buy",
        "Training", "Model", "Data, spec and versions", "Query the export",
    ]  # fmt: skip


def test_each_section_of_numbers_has_a_drawn_chart(text):
    body = text[text.index("<main>") :]
    sections = re.split(r'<section id="s\d+">', body)[1:]
    charts = [section.count('class="plotly-graph-div"') for section in sections]
    # Loss, AUC and calibration of two objectives; five curves; learning rate and gradients.
    assert charts == [0, 5, 5, 5, 2, 1, 0, 0]


def test_metrics_of_the_model_without_an_objective_have_a_section(read):
    evaluations = [(step, {**metrics, "missed": 1 / step}) for step, metrics in read.evaluations]
    own = dataclasses.replace(read, evaluations=evaluations)
    (section,) = [s for s in sections.sections(own) if s.title == "Metrics of the model"]
    assert section.table == (["metric", "value"], [["missed", "0.1667"]])
    assert len(section.charts) == 1


def test_the_page_loads_nothing_and_is_small(text):
    assert Reader(text).loaded == ["data:,"]
    assert len(text) < 6e6


def test_the_page_holds_metrics_and_flags_as_text(run, read, text):
    assert f"{read.metrics['auc/click']:.4f}" in text
    assert "--max_steps=6" in text
    assert f"estimator-kit predict --export_dir={run}/export/final/" in text


def test_the_page_says_what_a_step_and_a_row_cost(read):
    flops = Flops(a_row=5120, by_op={"MatMul": 5120}, varying=0)
    result = read.result.model_copy(
        update={"examples_per_second": 25_000.0}
    )  # 50 rows of a batch take 2 ms.
    tables = [numbers.Table("t", (30, 2), 60, False, 240), numbers.Table("b", (20,), 20, False, 80)]
    shown = dataclasses.replace(read, flops=flops, result=result, tables=tables)
    text = page.html(shown)
    assert "80 parameters take 320 bytes." in text
    assert "<td>t</td><td>30 x 2</td><td>60</td><td>240 bytes</td><td>75.0%</td>" in text
    assert "take 5,120 floating-point operations a row" in text
    assert "A training step takes 2.00 ms for 50 rows. Train with --profile to" in text
    profile = InputProfile(steps=100, share_waiting=0.25)
    waited = dataclasses.replace(shown, result=result.model_copy(update={"input_profile": profile}))
    assert "In 100 profiled steps, it waited for its input 25% of the time." in page.html(waited)


def test_the_sums_of_accumulate_are_no_parameters(read, tmp_path):
    """Nor the estimates of item frequencies; both are in the checkpoint with the weights."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name in ("dnn/kernel", "dnn/kernel/Adagrad", "accumulated/dnn/kernel",
                     "accumulated/batches", "last_step", "gap", "linear/gap/weights"):  # fmt: skip
            tf.compat.v1.get_variable(name, [2, 3], tf.float32)
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, f"{tmp_path}/model.ckpt")
    tables = numbers._tables(str(tmp_path))
    assert {t.name for t in tables if not t.is_slot} == {"dnn/kernel", "linear/gap/weights"}
    assert "12 parameters take 48 bytes." in page.html(dataclasses.replace(read, tables=tables))


def test_a_step_has_the_rows_of_all_devices(read):
    result = read.result.model_copy(update={"examples_per_second": 25_000.0})
    assert result.rows_a_step == 50 == read.rows_a_step
    mirrored = dataclasses.replace(read, result=result.model_copy(update={"rows_a_step": 100}))
    assert "A training step takes 4.00 ms for 100 rows." in page.html(mirrored)
    older = dataclasses.replace(read, result=result.model_copy(update={"rows_a_step": None}))
    assert older.rows_a_step == 50


def test_after_going_back_the_page_is_of_the_checkpoint(run, read, tmp_path):
    """Later curves, evaluations, measurements and slices are in their files, not on the page."""
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    (folder / "observed" / "slices.json").write_text('{"objectives": {}}')
    state = (folder / "checkpoint").read_text()
    assert sorted(read.curves) == [2, 4, 6] == [step for step, _ in read.evaluations]
    (folder / "checkpoint").write_text(state.replace("model.ckpt-6", "model.ckpt-4"))
    with (folder / "observed" / "training.jsonl").open("a") as file:
        file.write('{"step": 5, "loss": 0.5}\n')
    back = numbers.read(str(folder))
    assert sorted(back.curves) == [2, 4] == [step for step, _ in back.evaluations]
    assert back.metrics == read.evaluations[1][1] and back.slices is None
    assert [entry.step for entry in back.training] == [1]
    text = page.html(back)
    assert "evaluation at step 4." in text and "evaluation at step 6." not in text
    # A later training that ends without an evaluation does not bring the old curves back.
    history = folder / "eval_history.jsonl"
    history.write_text("".join(history.read_text().splitlines(keepends=True)[:2]))
    (folder / "checkpoint").write_text(state)
    assert sorted(numbers.read(str(folder)).curves) == [2, 4]


def test_the_size_of_a_table_is_its_bytes_in_the_checkpoint(read):
    assert {table.bytes for table in read.tables} == {4 * t.parameters for t in read.tables}


def test_words_of_a_spec_are_no_markup(run, read):
    shown = dataclasses.replace(read, flags=["--spec=<b>.yaml"])
    assert "--spec=&lt;b&gt;.yaml" in page.html(shown)


@pytest.mark.nightly
def test_a_comparison_shows_both_runs_and_what_differs(run, ads, tmp_path):
    other = tmp_path / "other"
    ek.run(small_run(ads, other, max_steps=4, save_checkpoints_steps=2, batch_size=40)())
    with open(page.write_comparison([run, str(other)]), encoding="utf-8") as file:
        text = file.read()
    assert "<td>--batch_size</td><td>50</td><td>40</td>" in text
    assert "<td>--max_steps</td><td>6</td><td>4</td>" in text
    name = texts.shortened(str(other), 36).replace("/", r"\u002f")
    assert text.count(f'"name":"{name}"') == 3  # loss, auc/click and auc/buy.
    assert "<td>--spec</td>" not in text


def test_a_comparison_shows_a_flag_once(read):
    runs = [
        dataclasses.replace(read, flags=flags, model_dir=name)
        for name, flags in (("a", ["--importance"]), ("b", ["--noimportance"]), ("c", []))
    ]
    (section,) = [s for s in compare.sections(runs) if s.title == "Flags that differ"]
    assert section.table == (
        ["flag", "a", "b", "c"], [["--importance", "true", "false", "(default)"]],
    )  # fmt: skip
    assert numbers.flags_by_name(["--noshuffle", "--model=dnn", "--x=1", "--x=2"]) == {
        "shuffle": ["false"], "model": ["dnn"], "x": ["1", "2"],
    }  # fmt: skip


def test_a_folder_without_a_run_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"expected result\.json and feature_spec/spec\.json"):
        page.write(str(tmp_path))


def test_a_missing_package_is_named_with_the_way_out(monkeypatch, tmp_path):
    real = builtins.__import__

    def no_plotly(name, *arguments, **values):
        if name.startswith("plotly"):
            raise ImportError("No module named 'plotly'")
        return real(name, *arguments, **values)

    monkeypatch.setattr(builtins, "__import__", no_plotly)
    with pytest.raises(ConfigError, match=r"pip install 'estimator-kit\[report\]'.*--report=off"):
        page.write(str(tmp_path))


# --- Look at this --------------------------------------------------------------------------------


def changed(read, **changes):
    """The rules' sentences by rule, after changes to the numbers."""
    found = findings.findings(dataclasses.replace(read, **changes))
    return {finding.rule: finding.text for finding in found}


def binary(positives, negatives):
    """Curves of a last evaluation with these numbers of positives and negatives."""
    weight = Labels(positives=positives, negatives=negatives)
    return {9: {"click": Histogram.model_construct(weight=weight)}}


def history(*values, metric="auc/click"):
    return [(i + 1, {metric: value}) for i, value in enumerate(values)]


@pytest.mark.parametrize(("value", "positives", "told"), [
    (1.05, 10_000, None),  # Less than 10 %.
    (1.12, 10_000, "click: predictions are 12% higher"),  # The error of 10,000 rows is 1 %.
    (1.12, 400, None),  # The error of 400 rows is 5 %.
    (0.8, 10_000, "click: predictions are 20% lower"),
    (2.0, 1000, "click: predictions are 100% higher than the labels"),
])  # fmt: skip
def test_calibration_is_named_where_it_cannot_be_chance(read, value, positives, told):
    evaluations = history(value, metric="calibration/click")
    found = changed(read, curves=binary(positives, 90_000), evaluations=evaluations)
    assert found.get("calibration", "None").startswith(str(told))


def test_only_probabilities_are_called_miscalibrated(read):
    spec = read.spec
    click = spec.objectives["click"]
    loss = type(click).model_validate({"head": "binary", "loss": "hinge"}).loss
    hinge = click.model_copy(update={"loss": loss})
    changed_spec = dataclasses.replace(spec, objectives={**spec.objectives, "click": hinge})
    numbers = {
        "curves": binary(10_000, 90_000),
        "evaluations": history(2.0, metric="calibration/click"),
    }
    assert "calibration" in changed(read, **numbers)
    assert "calibration" not in changed(read, **numbers, spec=changed_spec)


@pytest.mark.parametrize(("share", "is_told"), [(0.005, False), (0.333, True)])
def test_items_that_cannot_be_predicted_are_named(read, share, is_told):
    found = changed(read, evaluations=history(share, metric="unknown_item_share/click"))
    assert ("unknown_items" in found) is is_told
    if is_told:
        assert found["unknown_items"].startswith(
            "click: 33.3% of the evaluated items are not in the catalogue"
        )


@pytest.mark.parametrize(("rule", "positives", "values", "told"), [
    ("overfitting", 5000, (0.70, 0.75, 0.74, 0.72),
     "auc/click was best at step 2 (0.7500) and is 0.7200 now"),
    # One evaluation after the best one may be chance.
    ("overfitting", 5000, (0.70, 0.75, 0.72), None),
    ("overfitting", 5000, (0.70, 0.75, 0.7499, 0.7499), None),
    ("overfitting", 5000, (0.70, 0.72, 0.74, 0.75), None),
    ("few_evaluations", 5000, (0.7, 0.71), "The training has only 2 evaluations"),
    ("few_evaluations", 5000, (0.7, 0.71, 0.72), None),
    ("few_positives", 99, (), "only 99 positive rows"),
    ("few_positives", 100, (), None),
])  # fmt: skip
def test_what_evaluations_say_is_named(read, rule, positives, values, told):
    found = changed(read, curves=binary(positives, 95_000), evaluations=history(*values))
    assert (rule in found) == (told is not None)
    assert told is None or told in found[rule]


def losses(*pairs):
    return [(i + 1, {"auc/click": auc, "loss/click": loss}) for i, (auc, loss) in enumerate(pairs)]


def test_overfitting_is_found_by_the_loss_too(read):
    """The AUC of this run hardly changed, and its loss rose from 0.53 to 0.62."""
    found = changed(
        read, curves=binary(5000, 95_000), params={"dropout": 0.1},
        evaluations=losses((0.75, 0.53), (0.751, 0.54), (0.752, 0.57), (0.752, 0.6), (0.752, 0.62)),
    )  # fmt: skip
    assert found["overfitting"] == (
        "click: loss/click was best at step 1 (0.5300) and is 0.6200 now. auc/click did not get "
        "worse in these steps, so the model has overfitted in its probabilities, not in its order "
        "of the rows. --early_stopping_metric=loss/click --early_stopping_patience=3 would have "
        "stopped at step 4. --model_params=dropout=0.3 (it was 0.1) makes a network overfit later. "
        "Write the best export with --exporters=best --best_metric=loss/click, or stop earlier."
    )


def test_overfitting_by_both_is_one_finding(read):
    result = read.result.model_copy(update={"exports": {"best": "x/best/1"}})
    pairs = (0.75, 0.53), (0.76, 0.54), (0.74, 0.57), (0.73, 0.62)
    found = changed(
        read, curves=binary(5000, 95_000), params={}, evaluations=losses(*pairs), result=result
    )
    assert found["overfitting"] == (
        "click: auc/click was best at step 2 (0.7600) and is 0.7300 now, and loss/click was best "
        "at step 1 (0.5300) and is 0.6200 now. The model has overfitted since then. "
        "--early_stopping_metric=auc/click --early_stopping_patience=3 would stop a longer "
        "training. The export of the best evaluation is x/best/1."
    )


@pytest.mark.parametrize("early", [True, False])
def test_the_steps_after_an_early_stop_do_not_count(read, early):
    evaluations = losses((0.75, 0.5), (0.76, 0.52), (0.75, 0.54), (0.74, 0.56), (0.73, 0.58))
    best = BestEvaluation(metric="auc/click", global_step=2, metrics=evaluations[1][1])
    reason = "early_stopped" if early else "input_exhausted"
    result = read.result.model_copy(update={"stop_reason": reason, "best": best})
    found = changed(read, curves=binary(5000, 95_000), evaluations=evaluations, result=result)
    assert ("overfitting" in found) != early


def test_other_sets_have_columns_and_lines(read):
    step, metrics = read.evaluations[-1]
    sets = {"test": [(step, {**metrics, "auc/click": 0.4321})]}
    shown = dataclasses.replace(read, eval_sets=sets)
    outcome = sections.sections(shown)[0]
    assert outcome.table[0] == ["metric", "click", "click (test)", "buy", "buy (test)"]
    (auc,) = [row for row in outcome.table[1] if row[0] == "auc"]
    assert auc[2] == "0.4321" and auc[1] == f"{metrics['auc/click']:.4f}"
    assert outcome.intro.endswith(f". The table is of the last evaluation, at step {step}.")
    assert '"name":"test"' in page.html(shown)


def test_after_an_early_stop_the_page_shows_the_best_evaluation_as_the_console_does(read):
    (step, metrics), *_, (last, _) = read.evaluations
    assert step < last
    shown = {**metrics, "auc/click": 0.8765, "global_step": step}
    sets = {"test": [(step, {**metrics, "auc/click": 0.4321}), (last, metrics)]}
    result = read.result.model_copy(update={"metrics": shown, "stop_reason": "early_stopped"})
    evaluations = [(step, shown), *read.evaluations[1:]]
    changed = dataclasses.replace(read, result=result, evaluations=evaluations, eval_sets=sets)
    outcome = sections.sections(changed)[0]
    (auc,) = [row for row in outcome.table[1] if row[0] == "auc"]
    assert auc[1:3] == ["0.8765", "0.4321"]
    assert outcome.intro.endswith(f". The table is of the best evaluation, at step {step}.")
    (curve,) = [each for each in sections.sections(changed) if each.title == "Objective click"]
    assert curve.intro == f"Head binary, evaluation at step {step}."


def test_the_page_begins_with_the_best_evaluation(text, read):
    best = read.result.best
    assert best.metric == "loss" and best.global_step in (2, 4, 6)
    assert f"<p>Best evaluation: loss {best.metrics['loss']:.4f} at step {best.global_step}" in text


def important(**features):
    metrics = {name: "auc" for worth in features.values() for name in worth}
    return Importance(rows=20_000, repeats=5, metrics=metrics, features=features)


def test_a_dead_feature_is_named_and_a_live_one_is_not(read):
    importance = important(
        price={"click": Worth(mean=0.1, spread=0.01)},
        city={"click": Worth(mean=0.001, spread=0.001)},
    )
    found = changed(read, importance=importance, evaluations=[])
    assert found["no_effect"].startswith("city has no measurable effect")
    both = {"click": Worth(mean=0.1, spread=0.01), "buy": Worth(mean=None, spread=None)}
    importance = important(city=both, tags=both)
    found = changed(read, importance=importance, evaluations=[])
    assert "no_effect" not in found
    assert found["undefined_importance"] == (
        "buy: the importance of features is undefined, because auc of the 20,000 rows that it was "
        "measured on is. Mix the rows of the evaluation files."
    )


def test_a_slice_is_named_where_its_whole_interval_is_below(read):
    parts = [
        Slice(feature="city", value=value, rows=90, metric=0.6, low=0.5, high=high)
        for value, high in (("oslo", 0.69), ("rome", 0.71))
    ]

    def rule(metric, value):
        overall = Overall(value=value, rows=180)
        click = ObjectiveSlices(metric=metric, overall=overall, slices=parts, left_out={})
        slices = Slices(objectives={"click": click})
        return changed(read, slices=slices, evaluations=[])

    found = rule("auc", 0.7)
    assert "auc of city=oslo is 0.6000 (95 % interval 0.5000 to 0.6900)" in found["weak_slices"]
    # Less is better: the slice is a good one, and a bad one is above.
    assert "weak_slices" not in rule("mean_squared_error", 0.7)
    assert "weak_slices" not in rule("mean_squared_error", None)
    found = rule("mean_squared_error", 0.4)
    assert "(95 % interval 0.5000 to 0.7100), above 0.4000 for all" in found["weak_slices"]


def test_a_large_table_of_an_idle_feature_is_named(read):
    name = next(
        t.name for t in read.tables if not t.is_slot and "user" in t.name and "embedding" in t.name
    )
    tables = [
        numbers.Table(name, (9700, 10), 97_000, False),
        numbers.Table("rest", (3000,), 3000, False),
    ]
    importance = important(
        price={"click": Worth(mean=0.1, spread=0.01)},
        user={"click": Worth(mean=0.0005, spread=0.0001)},
    )
    found = changed(read, importance=importance, tables=tables, evaluations=[])
    assert (
        "holds 97% of the parameters, and its feature user has 0.5% of the importance"
        in (found["idle_tables"])
    )


def test_slow_input_is_named_with_its_advice(read):
    profile = InputProfile(share_waiting=0.7, busiest="reading files", advice="write more files")
    result = read.result.model_copy(update={"input_profile": profile})
    found = changed(read, result=result, evaluations=[])
    assert "waits for its input 70% of the time" in found["slow_input"]


# --- At the end of a training --------------------------------------------------------------------


@pytest.mark.nightly
def test_a_training_ends_with_the_page_slices_and_importance(ads, tmp_path, report_page):
    folder = tmp_path / "run"
    config = small_run(ads, folder, max_steps=4, exporters=("final",))
    told = []
    commands.run(config(slices=("city",), importance=True), told.append)
    assert told[-2] == f"report: {folder}/report.html"
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert {"Slices", "Importance"} <= {*Reader(text).headings}
    read = numbers.read(str(folder))
    assert {part.value for part in read.slices.objectives["click"].slices} <= {
        "rome", "oslo", "lima",
    }  # fmt: skip
    assert {*read.importance.features} == {"price", "user", "city", "tags"}
    assert read.importance.rows == 200


@pytest.mark.ci
def test_a_training_without_the_package_succeeds_and_says_so(
    ads, tmp_path, report_page, monkeypatch
):
    def missing():
        raise ConfigError("the report page needs the packages Jinja2 and Plotly")

    monkeypatch.setattr(page, "check_installed", missing)
    told = []
    commands.run(small_run(ads, tmp_path / "run", max_steps=1)(), told.append)
    assert told[-2] == "no report page: the report page needs the packages Jinja2 and Plotly"


@pytest.mark.nightly
def test_no_page_is_written_with_report_off(ads, tmp_path, report_page):
    told = []
    commands.run(small_run(ads, tmp_path / "run", max_steps=1)(report="off"), told.append)
    assert not (tmp_path / "run" / "report.html").exists()
    assert not any("report" in text for text in told)


def test_the_mode_writes_the_page_again(run, tmp_path):
    done = programs.run(tmp_path, "--mode=report", f"--model_dir={run}")
    assert (done.returncode, done.stdout) == (0, f"report: {run}/report.html\n")


def test_a_comparison_of_one_run_is_an_error(run, tmp_path):
    done = programs.run(tmp_path, "--mode=report", f"--compare={run}")
    assert done.returncode == 2
    assert "--compare: expected two or more model directories" in done.stderr


def test_slices_of_an_unknown_feature_are_an_error_before_the_training(ads, tmp_path):
    config = small_run(ads, tmp_path / "run", max_steps=1)(slices=("citty",), exporters=("final",))
    with pytest.raises(ConfigError, match="Did you mean 'city'"):
        ek.run(config)
    assert not (tmp_path / "run").exists()


def test_columns_of_words_are_aligned_left():
    rows = [
        ["1", "2026-01-30", "39.1 KiB", "-0.5", "1e-06", "75.0%", ""],
        ["2", "2026-01-29", "8 bytes", "12,500", "undefined", "3", "5"],
    ]
    assert page._column_classes(rows) == "left2 whole2 left5 whole5"
    assert page._column_classes([["a sentence that is longer than a line"]]) == "left1"
    assert page._column_classes([]) == ""
