"""examples/retraining: flags and spec are valid, and each scheduler's file is parsed or run."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import types

import pytest
import yaml
from absl import flags

from estimator_kit.config.flags import config_from_flags, define_flags
from feature_specs.parser import parser
from tests.conftest import ROOT

pytestmark = pytest.mark.no_tensorflow

FOLDER = ROOT / "examples" / "retraining"


def parsed(arguments):
    """The config of a command line, run from the folder of the example's flagfile."""
    arguments = [a.replace("retrain.flags", str(FOLDER / "retrain.flags")) for a in arguments]
    values = flags.FlagValues()
    define_flags(values)
    assert values(["program", *arguments]) == ["program"]
    return config_from_flags(values)


def test_the_flagfile_and_the_spec_fit_each_other():
    config = parsed(["--flagfile=retrain.flags", "--mode=retrain"])
    assert config.window == "5d" and config.max_steps is None
    spec = parser.load(ROOT / config.spec)
    assert spec.retraining.label_rate["click"].otherwise == "leave_out"
    assert len(spec.retraining.gate.conditions) == 8


@pytest.mark.parametrize(("status", "mailed"), [(0, False), (99, False), (77, True), (70, True)])
def test_the_crontab_line_mails_what_is_no_success(tmp_path, status, mailed):
    (line,) = [x for x in (FOLDER / "crontab").read_text().splitlines() if x[0] != "#"]
    fields = line.split(maxsplit=5)
    assert all(re.fullmatch(r"\*|\d+", field) for field in fields[:5])
    program = tmp_path / "estimator-kit"
    program.write_text(f'#!/bin/sh\necho "$@"\nexit {status}\n')
    program.chmod(0o755)
    command = fields[5].replace("/srv/ads", str(tmp_path))
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=True, timeout=60,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert bool(done.stdout) == mailed
    assert parsed((tmp_path / "retrain.log").read_text().split()).mode == "retrain"


def test_the_airflow_dag_skips_when_there_is_nothing_to_do(monkeypatch):
    """The DAG is imported with fakes for the two Airflow classes that it uses."""
    made = []

    class Recorded:
        def __init__(self, **named):
            made.append(named)

        def __enter__(self):
            return self

        def __exit__(self, *arguments):
            return None

    for name, attribute in (("airflow", "DAG"), ("airflow.operators", None),
                            ("airflow.operators.bash", "BashOperator")):  # fmt: skip
        module = types.ModuleType(name)
        if attribute is not None:
            setattr(module, attribute, Recorded)
        monkeypatch.setitem(sys.modules, name, module)
    spec = importlib.util.spec_from_file_location("airflow_dag", FOLDER / "airflow_dag.py")
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    dag, task = made
    assert dag["max_active_runs"] == 1 and task["skip_on_exit_code"] == 99
    command = task["bash_command"].replace("{{ data_interval_end | ds }}", "2026-01-31")
    config = parsed(command.partition("estimator-kit ")[2].split())
    assert (config.mode, config.as_of) == ("retrain", "2026-01-31")


def test_the_cronjob_starts_one_cycle_at_a_time():
    document = yaml.safe_load((FOLDER / "cronjob.yaml").read_text())
    assert document["kind"] == "CronJob"
    assert document["spec"]["concurrencyPolicy"] == "Forbid"
    job = document["spec"]["jobTemplate"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    (rule,) = job["podFailurePolicy"]["rules"]
    assert rule["onExitCodes"]["containerName"] == container["name"]
    assert 77 in rule["onExitCodes"]["values"] and 75 not in rule["onExitCodes"]["values"]
    config = parsed(container["args"])
    assert (config.mode, config.exit_code_style) == ("retrain", "kubernetes")
    assert config.webhook_url_file == "/secrets/webhook/url"
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in job["template"]["spec"]["volumes"]}
