"""The parts of a model: parameters, bytes, and operations of a prediction for one row.

    found = parts_of(model)
    found.parts[0].name      # dnn/input_from_feature_columns/input_layer/user_embedding

A part is a variable scope that directly contains variables, such as a table or a layer. The numbers
come from the training graph and the prediction graph, which are built and not run. Nothing is
allocated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.checkpoints import model_outline
from estimator_kit.model import operations
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.tf_estimator import ModeKeys

# Ops between a variable and a product that reads it.
_PASSING = ("ReadVariableOp", "Identity", "Reshape", "Cast", "Transpose", "ExpandDims", "IdentityN")
# Ops that write every row of the variable that they get first.
_WRITES_ALL = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
_APPLIES_ALL = "ResourceApply"

OTHER = "(other)"


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a model.

    Attributes:
      name: its variable scope; `OTHER` for products without a variable.
      parameters: how many numbers its variables hold.
      bytes: their size.
      slot_bytes: the size of the variables that training adds to them.
      operations: of its matrix products in a prediction for one row.
    """

    name: str
    parameters: int = 0
    bytes: int = 0
    slot_bytes: int = 0
    operations: int = 0


@dataclasses.dataclass(frozen=True)
class Table:
    """A variable with a row for each id.

    Attributes:
      name: of the variable.
      rows, width: its shape.
      written: the variables, itself or its slots, of which each training step writes every row.
    """

    name: str
    rows: int
    width: int
    written: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Parts:
    """A model by its parts.

    Attributes:
      parts: the largest first.
      tables: its tables, the largest first.
      float64: the names of its variables and products of type float64.
      growing: whether it has tables that grow, whose rows are not counted.
      varies: whether the operations differ between rows.
    """

    parts: Sequence[Part]
    tables: Sequence[Table]
    float64: Sequence[str]
    growing: bool
    varies: bool


def parts_of(model: ModelFn) -> Parts:
    """Builds the graphs of a model, and takes them apart.

    Raises:
      ConfigError: the model cannot be built.
    """
    outline = model_outline.outline(model)
    train, _ = model_outline.build(model, ModeKeys.TRAIN)
    with train.as_default():
        variables = {v.op.name: v for v in tf.compat.v1.global_variables()}
    predict, spec = model_outline.build(model, ModeKeys.PREDICT)
    weights = {name: v for name, v in variables.items() if name in outline.weights}
    counts: dict[str, dict[str, int]] = {}
    for name, variable in variables.items():
        owner = _owner(name, weights)
        part = counts.setdefault(_scope(owner) if owner else OTHER, {})
        size = math.prod(variable.shape.as_list())
        is_weight = owner == name
        _add(part, "parameters", size if is_weight else 0)
        _add(part, "bytes" if is_weight else "slot_bytes", size * variable.dtype.size)
    varies = False
    float64 = [name for name, v in weights.items() if v.dtype.base_dtype == tf.float64]
    with predict.as_default():
        for op in operations.needed(spec.predictions.values()):
            if op.type in operations.PRODUCTS:
                count, differs = operations.of_product(op)
                varies |= differs
                variable = _variable_of(op)
                place = OTHER if variable is None or variable not in weights else _scope(variable)
                _add(counts.setdefault(place, {}), "operations", count)
                if op.outputs[0].dtype == tf.float64:
                    float64.append(op.name)
    parts = [Part(name, **values) for name, values in counts.items()]
    return Parts(
        sorted(parts, key=lambda part: (-part.bytes, -part.operations, part.name)),
        sorted(_tables(train, variables, weights), key=lambda t: (-t.rows * t.width, t.name)),
        float64,
        bool(outline.growing),
        varies,
    )


def _add(part: dict[str, int], what: str, number: int) -> None:
    part[what] = part.get(what, 0) + number


def _scope(name: str) -> str:
    return name.rpartition("/")[0] or name


def _owner(name: str, weights: Mapping[str, Any]) -> Optional[str]:
    """The weight that a variable is, or belongs to: slots have the name of their weight first."""
    if name in weights:
        return name
    parents = [weight for weight in weights if name.startswith(f"{weight}/")]
    inside = [weight for weight in weights if name.endswith(f"/{weight}")]  # accumulated/<weight>
    return max([*parents, *inside], key=len, default=None)


def _variable_of(op: Any) -> Optional[str]:
    """The variable that a product reads, if one of its inputs is a variable."""
    for tensor in op.inputs:
        source = tensor.op
        while source.type in _PASSING and source.inputs:
            source = source.inputs[0].op
        if source.type == "VarHandleOp":
            return str(source.name)
    return None


def _tables(
    graph: tf.Graph, variables: Mapping[str, Any], weights: Mapping[str, Any]
) -> list[Table]:
    written: dict[str, list[str]] = {}
    for op in graph.get_operations():
        first = op.inputs[0].op if op.inputs else None
        if first is None or first.type != "VarHandleOp" or op.name == f"{first.name}/Assign":
            continue
        if op.type in _WRITES_ALL or op.type.startswith(_APPLIES_ALL):
            owner = _owner(first.name, weights)
            if owner is not None:
                written.setdefault(owner, []).append(first.name)
    looked_up = {
        op.inputs[0].op.name for op in graph.get_operations() if op.type == "ResourceGather"
    }
    return [
        Table(
            name,
            rows=variable.shape[0],
            width=variable.shape[1],
            written=tuple(dict.fromkeys(written.get(name, ()))),
        )
        for name, variable in weights.items()
        if name in looked_up and variable.shape.rank == 2
    ]
