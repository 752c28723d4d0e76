"""Checks a new SavedModel in a fresh process without TensorFlow's Python code.

An incomplete or wrong SavedModel often loads and then fails at its first request. So this module
sends real rows to every signature before the export gets its name. The process starts before the
export is written, and loads TensorFlow's library meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from estimator_kit.errors import ExportError
from estimator_kit.exporters import c_session, signatures, skew
from estimator_kit.exporters.sample_rows import SampleRows
from estimator_kit.exporters.writer import Written
from estimator_kit.model.names import PREDICT_EXAMPLES
from feature_specs.files import documents
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.serving_inputs import EXAMPLES

_log = logging.getLogger("estimator_kit")

# Rows of the requests to the signatures that do not answer all objectives.
_FEW = 3

_REMEDY = (
    ". If an answer depends on the other rows of its batch, change the model: for example, a "
    "recurrent Keras layer over steps needs a mask."
)

_START = (
    "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


class Report(documents.Part):
    """The result of a check: the rows, the largest difference, and the seconds it took."""

    rows: int
    rows_as_tensors: int = 0
    signatures: int = 0
    tolerance: Optional[float] = None
    largest_difference: float
    load_seconds: Optional[float] = None
    run_seconds: Optional[float] = None


class Loader:
    """A process with TensorFlow's C++ loader. It can load one export."""

    def __init__(self, process: Any):
        self._process = process

    def ask(self, export_dir: str, requests: list[dict[str, Any]]) -> dict[str, Any]:
        """Runs a job of `c_session` and returns its answers.

        Raises:
          ExportError: the SavedModel does not load or answer.
        """
        job = json.dumps({"export": export_dir, "requests": requests})
        out, err = self._process.communicate(job)
        if self._process.returncode:
            lines = err.strip().splitlines()
            raise ExportError(
                f"the process that loads the export ended with status "
                f"{self._process.returncode}: {lines[-1] if lines else 'no message'}"
            )
        result: dict[str, Any] = json.loads(out)
        if "error" in result:
            raise ExportError(f"TensorFlow's C++ loader: {result['error']}")
        return result


@contextlib.contextmanager
def started() -> Iterator[Optional[Loader]]:
    """Starts a loader. Yields None and logs a warning if TensorFlow has no C library."""
    folder = os.path.dirname(os.path.abspath(tf.__file__))
    if c_session.library_path(folder) is None:
        _log.warning("%s has no libtensorflow_cc. The export is not checked.", folder)
        yield None
        return
    environment = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        # Training uses the GPU, and on the CPU all machines give the same answers.
        "CUDA_VISIBLE_DEVICES": "-1",
    }
    script = os.path.abspath(c_session.__file__)
    process = subprocess.Popen(
        [sys.executable, "-c", _START, script, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with process:
        try:
            yield Loader(process)
        finally:
            if process.poll() is None:
                process.kill()


def verify(
    loader: Loader, export_dir: str, spec: FeatureSpec, written: Written, rows: SampleRows
) -> Report:
    """Compares the answers of an export with the input pipeline and the model.

    Raises:
      ExportError: the export does not answer, or differs by more than `skew.ANSWERS`.
    """
    names = [tensor for tensors in written.features.values() for tensor in tensors]
    examples = np.array(rows.records, object)
    asked: list[tuple[str, dict[str, Any], list[str]]] = [
        (PREDICT_EXAMPLES, {EXAMPLES: examples}, names),
        *((name, rows.sent, []) for name in sorted(written.raw_signatures)),
    ]
    more = {}
    few = examples[:_FEW]
    for name, signature in sorted(written.signatures.items()):
        options = signatures.options_of(name, written.signatures, spec)
        if signature.defaults:
            more[name] = signatures.defaults_of(signature)
        elif options:
            rows_of = {key: np.repeat(value, len(few), axis=0) for key, value in options.items()}
            more[name] = {EXAMPLES: few, **rows_of}
    asked += [(name, inputs, []) for name, inputs in more.items()]
    requests: list[dict[str, Any]] = [
        {
            "signature": name,
            "inputs": {key: c_session.encoded(value) for key, value in inputs.items()},
            "tensors": tensors,
        }
        for name, inputs, tensors in asked
    ]
    # In one run: the loader optimizes the graph for each run, which takes longer than answering.
    others = sorted(set(written.signatures) - {name for name, _, _ in asked} - set(more))
    requests.append({"together": others, "value": c_session.encoded(few)})
    result = loader.ask(export_dir, requests)
    *single, together = result["answers"]
    answers = {
        name: {key: c_session.decoded(value) for key, value in answer.items()}
        for name, answer in [*zip([name for name, _, _ in asked], single), *together.items()]
    }
    largest = 0.0
    places = rows.places or tuple(range(len(rows.records)))
    try:
        skew.check_features(spec, rows.features, answers[PREDICT_EXAMPLES], written.features)
        for name, actual in answers.items():
            expected = written.answers[name]
            places = rows.places or tuple(range(len(rows.records)))
            if name in written.raw_signatures:
                expected = {key: value[rows.sendable] for key, value in expected.items()}
                places = tuple(np.array(places)[rows.sendable].tolist())
            elif name != PREDICT_EXAMPLES:
                expected = {key: value[:_FEW] for key, value in expected.items()}
            what, units = f"signature {name}", skew.units_of(spec)
            largest = max(largest, skew.check_answers(expected, actual, what, units=units))
    except skew.Skew as error:
        # Replace row numbers of the sample by row numbers of the files.
        kept = " of the rows that the filter keeps" if spec.filter else ""
        text = re.sub(r"\brow (\d+)\b", lambda row: f"row {places[int(row[1])]}{kept}", str(error))
        if text.startswith("signature"):
            text += _REMEDY
        raise ExportError(text) from error
    return Report(
        rows=len(rows.records),
        rows_as_tensors=int(rows.sendable.sum()),
        signatures=len(answers),
        tolerance=skew.ANSWERS,
        largest_difference=largest,
        load_seconds=round(result["load_seconds"], 3),
        run_seconds=round(result["run_seconds"], 3),
    )
