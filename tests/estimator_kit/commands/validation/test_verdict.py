"""--mode=validate --validate_rows gives one verdict, after the data were read."""

from __future__ import annotations

import json

from estimator_kit import main
from input_pipelines.record_files import writing
from tests.conftest import DOCUMENT, make_rows


def test_with_rows_there_is_one_verdict_and_it_comes_last(tmp_path, monkeypatch, capsys):
    (tmp_path / "spec.yaml").write_text(json.dumps(DOCUMENT))
    monkeypatch.chdir(tmp_path)

    def validate(*arguments):
        code = main.main(["run.py", "--mode=validate", "--spec=spec.yaml", *arguments])
        return code, *capsys.readouterr()

    writing.write_examples(str(tmp_path / "a.tfrecord"), make_rows(20))
    code, out, _ = validate("--train_files=a.tfrecord", "--validate_rows=20")
    lines = out.splitlines()
    assert (code, lines[0]) == (0, "spec.yaml: the spec and the flags, before the data")
    assert lines[-1] == "spec.yaml: the spec, the flags and the data fit together"
    row = {**make_rows(1)[0], "click": "yes"}
    writing.write_examples(str(tmp_path / "a.tfrecord"), [*make_rows(20), row])
    code, out, err = validate("--train_files=a.tfrecord", "--validate_rows=21")
    assert code == 2 and "correct" not in out and "fit together" not in out
    assert err.startswith("error: the data do not fit the spec\n")
    assert "\n21 records, 20 of them fit the spec\n  the lines below count only the 20 " in err
