"""The scores in logged answers, in the form in which metrics of rows take them.

    scores(spec, "predict_examples", {"click/logits": ...}, rows=3)      # {"click": float64 [3]}

A metric reads one output of a head (`HeadEntry.answer`), such as the logits. A client may have
asked for others. Probabilities of two classes become logits again: near 0 and 1 they have few
digits, so it is better if a client asks for the logits. An objective without a usable output is not
in the result; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from estimator_kit.client.tensors import DEFAULT_SIGNATURE
from estimator_kit.scoring.eval_rows import by_row
from feature_specs.heads import Objective
from feature_specs.spec import FeatureSpec

Outputs = Mapping[str, NDArray[Any]]

# Below it, and as close to 1, a float32 has no digits that say how small or large a probability is.
_LEAST = float(np.finfo(np.float32).eps) / 2


def judged(spec: FeatureSpec) -> list[str]:
    """The objectives that have metrics of rows."""
    return [name for name, entry in spec.objectives.items() if entry.judged]


def scores(spec: FeatureSpec, signature: str, outputs: Outputs, rows: int) -> dict[str, Any]:
    """The scores of each objective, float64 [rows] or [rows, n].

    Args:
      spec: the spec of the model that answered.
      signature: the signature that was asked; "" means the default one.
      outputs: its outputs. `classify` has `scores`, and `regress` has `outputs`.
      rows: the number of rows that were asked for. Outputs with another number are not used.
    """
    found = {}
    for name in judged(spec):
        own = _outputs_of(spec, name, signature, outputs)
        values = _scores_of(spec.objectives[name], own)
        if values is not None and len(values) == rows:
            found[name] = np.asarray(by_row(spec.objectives[name], values), np.float64)
    return found


def _outputs_of(spec: FeatureSpec, name: str, signature: str, outputs: Outputs) -> Outputs:
    """The outputs of one objective, by their names without it."""
    prefix = f"{name}/"
    own = {key[len(prefix) :]: array for key, array in outputs.items() if key.startswith(prefix)}
    of_one = signature.partition("/")[2] == name
    is_only = signature in ("", DEFAULT_SIGNATURE) and len(spec.objectives) == 1
    if not own and (of_one or is_only):
        return outputs
    return own


def _scores_of(entry: Objective, own: Outputs) -> Optional[NDArray[Any]]:
    """The output that metrics read, or one from which it follows."""
    answer = entry.answer
    assert answer is not None, "only objectives with metrics of rows are asked for"
    if answer.output in own:
        return own[answer.output]
    classes = own.get("probabilities", own.get("scores"))
    if answer.output == "probabilities":
        return classes
    number = own.get("predictions", own.get("outputs"))
    if answer.output == "predictions":
        return number
    if entry.head == "binary":
        if classes is not None and classes.ndim == 2 and classes.shape[1] == 2:
            number = classes[:, 1]
        return _logits(own.get("logistic", number))
    if entry.head == "logistic_regression":
        return _logits(number)
    return None


def _logits(probabilities: Optional[NDArray[Any]]) -> Optional[NDArray[Any]]:
    """log(p / (1 - p)), with p at least half of the distance between float32 numbers below 1."""
    if probabilities is None:
        return None
    p: NDArray[Any] = np.clip(np.asarray(probabilities, np.float64), _LEAST, 1 - _LEAST)
    logits: NDArray[Any] = np.log(p) - np.log1p(-p)
    return logits


def shown(entry: Objective, values: NDArray[Any]) -> NDArray[Any]:
    """What people read of scores: probabilities instead of logits, or the most probable class."""
    if values.ndim == 2:
        classes: NDArray[Any] = values.argmax(axis=1)
        return classes
    if entry.answer is not None and entry.answer.output == "logits":
        shown_values: NDArray[Any] = np.exp(-np.logaddexp(0, -values))
        return shown_values
    return values
