"""Finds what owns each place along the axes of a model's variables, from the graph.

A kernel over dense columns has one row per place of its input. If the columns or their order
change, the rows of an older checkpoint belong to different columns, although the shapes may be
equal. In the same way, the columns of the last kernel belong to objectives and classes. Each
training therefore stores these places, and every reader of a checkpoint compares them.

The walk starts at what the helpers of models have marked: the columns, the logits, and the
variables that only some objectives use. It follows all ops that keep or move places (elementwise
ops, concat, stack, reshape, transpose, split, products), and ends at the variable with which a
product contracts them. It works for any model. Axes that meet in an elementwise op have the same
places. This also gives the places of a bias, a normalization, or a kernel whose output is
multiplied by its input. From the logits, the walk also goes back through concat, split, slices, and
sums of one number. After an op that it cannot read, the places are unknown. This is not an error
unless they change. The module builds and runs nothing.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.model.places.places import (
    LOGITS,
    NO_COLUMN,
    UNITS,
    UNKNOWN,
    UNTRACED,
    AxisPlaces,
    Factor,
    Places,
    both,
    column_of,
    cut,
    flat,
    has_logits,
    take,
)

_Axis = tuple[str, int]
_Axes = Iterable[int]


class _Marks:
    """What helpers have marked in a graph. It holds names: a tensor would keep its graph alive.

    Attributes:
      places: the places of axes.
      same: pairs of axes that have the same places.
      logits: the logits of objectives, which losses and metrics combine without a meaning here.
      end: the number of ops when the last logits were marked.
    """

    def __init__(self) -> None:
        self.places: dict[_Axis, Places] = {}
        self.same: list[tuple[_Axis, _Axis]] = []
        self.logits: set[str] = set()
        self.end = 0


_MARKED: weakref.WeakKeyDictionary[tf.Graph, _Marks] = weakref.WeakKeyDictionary()

_SAME_PLACES = frozenset(
    "Abs Add AddN AddV2 BiasAdd Cast CheckNumerics ClipByValue Div DivNoNan Elu EnsureShape Equal "
    "Erf Exp Expm1 Floor Greater GreaterEqual Identity Inv IsFinite IsNan LeakyRelu Less LessEqual "
    "Log Log1p LogSoftmax LogicalAnd LogicalNot LogicalOr Maximum Minimum Mul Neg NotEqual "
    "OnesLike Pad PadV2 PlaceholderWithDefault Pow PreventGradient ReadVariableOp RealDiv "
    "Reciprocal Relu Relu6 Rsqrt Select SelectV2 Selu Sigmoid Sign Softmax Softplus Softsign Sqrt "
    "Square SquaredDifference StopGradient Sub Tanh Tile ZerosLike BroadcastTo Snapshot".split()
)
_REDUCTIONS = frozenset("All Any ArgMax ArgMin EuclideanNorm Max Mean Min Prod Sum".split())
_SUMS = frozenset("Add AddN AddV2 Sub".split())
_GATHERS = frozenset("Gather GatherV2 ResourceGather".split())
_NO_PLACES = frozenset("Assert L2Loss Rank Shape ShapeN Size VarHandleOp VariableV2".split())
_VARIABLES = frozenset(("VarHandleOp", "VariableV2"))


def mark(column: str, tensor: tf.Tensor) -> None:
    """Marks the last axis of a tensor as the places of a column. Does nothing in eager mode."""
    if not tf.executing_eagerly():  # Eager mode has no graph.
        _mark(tensor, tensor.shape, ((column, _size(tensor, -1)),))


def mark_logits(tensor: tf.Tensor, widths: Mapping[str, int]) -> None:
    """Marks the last axis of a tensor as the logits of objectives.

    Args:
      tensor: [rows, sum of widths].
      widths: the number of logits of each objective, in order.
    """
    if not tf.executing_eagerly():
        marks = _mark(tensor, tensor.shape, tuple((LOGITS + n, w) for n, w in widths.items()))
        marks.logits.add(tensor.name)
        marks.end = len(tensor.graph.get_operations())


def mark_same(tensor: tf.Tensor, variable: Any) -> None:
    """Marks that the last axes of a tensor and of the table with its rows are the same."""
    if not tf.executing_eagerly() and hasattr(variable, "op"):  # It is in one piece.
        axes = [(tensor.name, tensor.shape.rank - 1)]
        axes.append((variable.op.outputs[0].name, variable.shape.rank - 1))
        _MARKED.setdefault(tensor.graph, _Marks()).same.append((axes[0], axes[1]))


@contextlib.contextmanager
def owned(*objectives: str) -> Iterator[None]:
    """Marks the variables made in the block as units that only these objectives use, if any."""
    graph, v1 = tf.compat.v1.get_default_graph(), tf.compat.v1
    before = set() if tf.executing_eagerly() else {v.name for v in v1.global_variables()}
    yield
    if objectives and not tf.executing_eagerly():
        for variable in graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES):
            if variable.name not in before and variable.shape.rank:
                places = ((UNITS + ",".join(objectives), _size(variable, -1)),)
                _mark(variable.op.outputs[0], variable.shape, places)


def _mark(tensor: tf.Tensor, shape: tf.TensorShape, places: Places) -> _Marks:
    marks = _MARKED.setdefault(tensor.graph, _Marks())
    if shape.rank and None not in [width for _, width in places]:
        marks.places[tensor.name, shape.rank - 1] = places
    return marks


def find(graph: tf.Graph) -> dict[str, AxisPlaces]:
    """`{variable: the places of each axis}` for the variables whose places have owners."""
    return _Walk(graph).variables()


def _size(tensor: Any, axis: int) -> Any:
    """The size of an axis, or None. With TensorFlow 1, `shape[axis]` is not a number."""
    dims = tensor.shape.dims
    return None if dims is None else dims[axis].value


class _Walk:
    """One walk through a graph. Axes with the same places share an entry."""

    def __init__(self, graph: tf.Graph):
        self._graph = graph
        self._parents: dict[_Axis, _Axis] = {}
        self._axis_factors: dict[_Axis, tuple[Factor, ...]] = {}
        self._lost: set[Places] = set()
        marks = _MARKED.get(graph, _Marks())
        self._looked_up = {first[0] for first, _ in marks.same}
        for first, second in marks.same:
            self._same(first, second)
        for axis, places in marks.places.items():
            self._label(axis, ((sum(width for _, width in places), places),))
        self._changed = bool(self._axis_factors)
        ops = [
            op
            for i, op in enumerate(graph.get_operations())
            if op.outputs and op.inputs and op.type not in _NO_PLACES
            if i < marks.end or marks.logits.isdisjoint(tensor.name for tensor in op.inputs)
        ]
        # Places that are found late may belong to axes that were visited before.
        while self._changed:
            self._changed = False
            for op in ops:
                self._visit(op)

    def variables(self) -> dict[str, AxisPlaces]:
        result: dict[str, AxisPlaces] = {}
        for op in self._graph.get_operations():
            if op.type in _VARIABLES:
                rank = len(op.get_attr("shape").dim)
                axes = tuple(flat(self._of((op.outputs[0].name, i))) for i in range(rank))
                if any(axis is not None for axis in axes):
                    result[op.name] = axes
        if self._lost:
            result[UNTRACED] = tuple(sorted(self._lost))
        return result

    # --- Axes ------------------------------------------------------------------------------------

    def _root(self, axis: _Axis) -> _Axis:
        """The axis that stands for all axes with the same places.

        Every axis on the way then points at the root. Otherwise the time of the walk grows with the
        square of the graph.
        """
        root = axis
        while root in self._parents:
            root = self._parents[root]
        while axis != root:
            self._parents[axis], axis = root, self._parents[axis]
        return root

    def _of(self, axis: _Axis) -> Optional[tuple[Factor, ...]]:
        return self._axis_factors.get(self._root(axis))

    def _same(self, first: _Axis, second: _Axis) -> None:
        first, second = self._root(first), self._root(second)
        if first == second:
            return
        self._parents[second] = first
        factors = self._axis_factors.pop(second, None)
        if factors is not None:
            self._label(first, factors)

    def _pair(self, out: tf.Tensor, axes: _Axes, tensor: tf.Tensor, olds: _Axes) -> None:
        """Records that axes of two tensors, pair by pair, have the same places."""
        for axis, old in zip(axes, olds):
            self._same((out.name, axis), (tensor.name, old))

    def _label(self, axis: _Axis, factors: tuple[Factor, ...]) -> None:
        axis = self._root(axis)
        before = self._axis_factors.get(axis)
        if before is not None and before != factors:
            factors = both(before, factors)
        if before != factors:
            self._axis_factors[axis] = factors
            self._changed = True

    def _factors(self, tensor: tf.Tensor, axis: int) -> tuple[Factor, ...]:
        return self._of((tensor.name, axis)) or ((_size(tensor, axis), None),)

    def _columns(self, tensors: Iterable[tf.Tensor]) -> list[str]:
        """The columns whose places the tensors have."""
        names: set[str] = set()
        for tensor in tensors:
            for axis in range(tensor.shape.rank or 0):
                for _, places in self._of((tensor.name, axis)) or ():
                    names.update(name for name, _ in places or () if name != NO_COLUMN)
        return sorted(names)

    # --- Ops -------------------------------------------------------------------------------------

    def _visit(self, op: tf.Operation) -> None:
        try:
            is_read = self._read(op)
        except Exception:  # A user's graph may have any op in any form. It never stops a run.
            is_read = False
        if not is_read:
            self._unknown(op)

    def _read(self, op: tf.Operation) -> bool:
        if op.type == "ReadVariableOp":  # Its input, a resource, has no shape.
            axes = range(op.outputs[0].shape.rank or 0)
            self._pair(op.outputs[0], axes, op.inputs[0], axes)
        elif op.type in _SAME_PLACES:
            self._elementwise(op.inputs, op.outputs[0])
        else:
            return op.type in _VISITS and _VISITS[op.type](self, op)
        return True

    def _unknown(self, op: tf.Operation) -> None:
        for output in op.outputs:
            if output.shape.rank and output.name not in self._looked_up:
                last = (output.name, output.shape.rank - 1)
                if op.type in _GATHERS and op.inputs[1].shape.rank is not None:
                    trailing = output.shape.rank - op.inputs[1].shape.rank
                    self._back((op.inputs[0].name, trailing), flat(self._of(last)))
                else:
                    self._lose(last)
        columns = sorted({column_of(name) for name in self._columns(op.inputs)} - {NO_COLUMN})
        if not columns:
            return
        name = f"{UNKNOWN}{op.type}({', '.join(columns)})"
        for output in op.outputs:
            for axis in range(1, output.shape.rank or 0):
                size = _size(output, axis)
                if size is not None and self._of((output.name, axis)) is None:
                    self._label((output.name, axis), ((size, ((name, size),)),))

    def _elementwise(self, inputs: Sequence[tf.Tensor], output: tf.Tensor) -> None:
        rank = output.shape.rank
        if rank is None:
            return
        # If several inputs have one number per row, the number may be a score instead of a column.
        several = sum(bool(tensor.shape.rank) and _size(tensor, 0) is None for tensor in inputs) > 1
        for tensor in inputs:
            offset = rank - (tensor.shape.rank or 0)
            for axis in range(max(offset, 0), rank):
                size = _size(tensor, axis - offset)
                if size == _size(output, axis) and not (size == 1 and several):
                    self._same((output.name, axis), (tensor.name, axis - offset))
                elif size == _size(output, axis) and output.op.type in _SUMS:
                    self._back((tensor.name, axis - offset), flat(self._of((output.name, axis))))
                elif size == _size(output, axis):
                    self._lose((output.name, axis))

    def _matmul(self, op: tf.Operation) -> bool:
        names = ("transpose_a", "transpose_b") if op.type == "MatMul" else ("adj_x", "adj_y")
        flips = [op.get_attr(name) for name in names]
        (a, b), out = op.inputs, op.outputs[0]
        ranks = [tensor.shape.rank for tensor in (a, b, out)]
        if None in ranks:
            return False
        rows, inner = (ranks[0] - 2, ranks[0] - 1)[:: -1 if flips[0] else 1]
        contracted, columns = (ranks[1] - 2, ranks[1] - 1)[:: -1 if flips[1] else 1]
        self._same((a.name, inner), (b.name, contracted))
        self._same((out.name, ranks[2] - 2), (a.name, rows))
        self._same((out.name, ranks[2] - 1), (b.name, columns))
        for tensor, rank in zip((a, b), ranks):
            for back in range(3, rank + 1):
                if _size(tensor, rank - back) == _size(out, ranks[2] - back):
                    self._same((out.name, ranks[2] - back), (tensor.name, rank - back))
        return True

    def _einsum(self, op: tf.Operation) -> bool:
        equation = op.get_attr("equation").decode().replace(" ", "")
        if "." in equation:
            return False
        terms, result = equation.split("->")
        axes: dict[str, _Axis] = {}
        for term, tensor in zip([*terms.split(","), result], [*op.inputs, op.outputs[0]]):
            for axis, letter in enumerate(term):
                self._same(axes.setdefault(letter, (tensor.name, axis)), (tensor.name, axis))
        return True

    def _concat(self, op: tf.Operation) -> bool:
        *inputs, where = op.inputs
        axis, out = tf.get_static_value(where), op.outputs[0]
        if axis is None or not out.shape.rank:
            return False
        axis = int(axis) % out.shape.rank
        parts: list[tuple[str, int]] = []
        start = 0
        others = [other for other in range(out.shape.rank) if other != axis]
        back = flat(self._of((out.name, axis)))
        if not has_logits(back):
            back = None
        for tensor in inputs:
            self._pair(out, others, tensor, others)
            tensor_places, size = flat(self._of((tensor.name, axis))), _size(tensor, axis)
            if size is None:
                return False
            parts += tensor_places or ((NO_COLUMN, size),)
            self._back((tensor.name, axis), back and cut(back, start, start + size))
            start += size
        if any(name != NO_COLUMN for name, _ in parts):
            self._label((out.name, axis), ((_size(out, axis), tuple(parts)),))
        return True

    def _pack(self, op: tf.Operation) -> bool:
        """A new axis with one place per input. Other axes keep places that all inputs share."""
        out = op.outputs[0]
        if not out.shape.rank:
            return True
        axis = op.get_attr("axis") % out.shape.rank
        columns_of_inputs = [self._columns([tensor]) for tensor in op.inputs]
        names = [
            "&".join(sorted(set.intersection(*(set(name.split("&")) for name in columns))))
            if columns
            else NO_COLUMN
            for columns in columns_of_inputs
        ]
        if any(names):
            self._label((out.name, axis), ((len(names), tuple((name, 1) for name in names)),))
        for other in range(out.shape.rank - 1):
            kept = [self._of((tensor.name, other)) for tensor in op.inputs]
            if kept[0] is not None and all(one == kept[0] for one in kept):
                self._label((out.name, other + (other >= axis)), kept[0])
            else:
                self._lose((out.name, other + (other >= axis)))
        return True

    def _transpose(self, op: tf.Operation) -> bool:
        order, out = tf.get_static_value(op.inputs[1]), op.outputs[0]
        if order is None:  # The transpose of a product over the last axis, which keeps the order.
            return False
        self._pair(out, range(len(order)), op.inputs[0], order.tolist())
        return True

    def _reduce(self, op: tf.Operation) -> bool:
        tensor, out = op.inputs[0], op.outputs[0]
        gone, rank = tf.get_static_value(op.inputs[1]), tensor.shape.rank
        if gone is None or rank is None:
            return False
        kept = "keep_dims" in op.node_def.attr and op.get_attr("keep_dims")
        axes = {int(axis) % rank for axis in gone.reshape(-1)} if rank else set()
        left = [axis for axis in range(rank) if axis not in axes]
        self._pair(out, left if kept else range(len(left)), tensor, left)
        return True

    def _reshape(self, op: tf.Operation) -> bool:
        """Distributes the factors of the input's axes over the output's axes, from the last one."""
        tensor, out = op.inputs[0], op.outputs[0]
        if tensor.shape.rank is None or out.shape.rank is None:
            return False
        sizes = out.shape.as_list()
        if sizes == [None, None]:  # From `tf.tensordot`. The product after it tells the size.
            for product in out.consumers():
                if product.type == "MatMul" and product.inputs[0] is out:
                    sizes[1] = _size(product.inputs[1], int(product.get_attr("transpose_b")))
        left = [f for axis in range(tensor.shape.rank) for f in self._factors(tensor, axis)]
        for axis in reversed(range(1, len(sizes))):
            taken = take(left, sizes[axis])
            if taken is None:
                return False
            self._label_if_any((out.name, axis), taken)
        if sizes:
            self._label_if_any((out.name, 0), left)
        if len(sizes) > 1 and tensor.shape.rank and sizes[-1] == _size(tensor, -1):
            out_places = flat(self._of((out.name, len(sizes) - 1)))
            self._back((tensor.name, tensor.shape.rank - 1), out_places)
        elif sizes:
            self._lose((out.name, len(sizes) - 1))
        return True

    def _expand(self, op: tf.Operation) -> bool:
        (tensor, where), out = op.inputs, op.outputs[0]
        new = tf.get_static_value(where)
        if new is None or out.shape.rank is None:
            return False
        added = int(new.reshape(-1)[0]) % out.shape.rank  # TensorFlow also takes a list of one.
        left = [axis for axis in range(out.shape.rank) if axis != added]
        self._pair(out, left, tensor, range(len(left)))
        return True

    def _squeeze(self, op: tf.Operation) -> bool:
        tensor, rank = op.inputs[0], op.inputs[0].shape.rank
        gone = [axis % rank for axis in op.get_attr("squeeze_dims")] if rank else []
        if not gone:
            return False
        left = [axis for axis in range(rank) if axis not in gone]
        self._pair(op.outputs[0], range(len(left)), tensor, left)
        return True

    def _split(self, op: tf.Operation) -> bool:
        tensor, where = (op.inputs[i] for i in ((1, 0) if op.type == "Split" else (0, 2)))
        axis, rank = tf.get_static_value(where), tensor.shape.rank
        if axis is None or rank is None:
            return False
        axis, start = int(axis) % rank, 0
        others = [other for other in range(rank) if other != axis]
        for out in op.outputs:
            self._pair(out, others, tensor, others)
            size = _size(out, axis)
            if size is None:
                return False
            self._label_slice((out.name, axis), tensor, axis, start, size)
            start += size
        return True

    def _slice(self, op: tf.Operation) -> bool:
        tensor, out = op.inputs[0], op.outputs[0]
        begin = tf.get_static_value(op.inputs[1])
        if begin is None or out.shape.rank is None:
            return False
        for axis, start in enumerate(begin):
            if _size(tensor, axis) == _size(out, axis):
                self._same((out.name, axis), (tensor.name, axis))
            elif _size(out, axis) is not None:
                self._label_slice((out.name, axis), tensor, axis, int(start), _size(out, axis))
        return True

    def _strided_slice(self, op: tf.Operation) -> bool:
        """The axes of `x[...]`: new, removed, complete or cut."""
        tensor, out = op.inputs[0], op.outputs[0]
        begin, _, strides = (tf.get_static_value(part) for part in op.inputs[1:])
        masks = {
            name: op.get_attr(f"{name}_mask")
            for name in ("begin", "ellipsis", "new_axis", "shrink_axis")
        }
        if begin is None or strides is None or None in (tensor.shape.rank, out.shape.rank):
            return False
        old = new = 0
        for i in range(len(begin)):
            bit = 1 << i
            if masks["ellipsis"] & bit:
                after = [k for k in range(i + 1, len(begin)) if not masks["new_axis"] & 1 << k]
                while old < tensor.shape.rank - len(after):
                    self._same((out.name, new), (tensor.name, old))
                    old, new = old + 1, new + 1
            elif masks["new_axis"] & bit:
                new += 1
            elif masks["shrink_axis"] & bit:
                old += 1
            else:
                size, full = _size(out, new), _size(tensor, old)
                if size == full:
                    self._same((out.name, new), (tensor.name, old))
                elif size is not None and full is not None and strides[i] == 1:
                    start = 0 if masks["begin"] & bit else int(begin[i]) % full
                    self._label_slice((out.name, new), tensor, old, start, size)
                elif self._columns([tensor]):
                    return False
                old, new = old + 1, new + 1
        self._pair(out, range(new, out.shape.rank), tensor, range(old, tensor.shape.rank))
        return True

    def _label_slice(self, axis: _Axis, tensor: tf.Tensor, old: int, start: int, size: int) -> None:
        places, old_size = flat(self._of((tensor.name, old))), _size(tensor, old)
        if places is not None:
            self._label(axis, ((size, cut(places, start, start + size)),))
        axis_places = flat(self._of(axis))
        if axis_places is not None and old_size is not None:
            around = ((NO_COLUMN, start), *axis_places, (NO_COLUMN, old_size - start - size))
            self._back((tensor.name, old), tuple(part for part in around if part[1]))

    def _lose(self, axis: _Axis) -> None:
        """Notes that the walk cannot go back any further if the axis has logits."""
        places = flat(self._of(axis))
        if places is not None and has_logits(places):
            self._lost.add(places)

    def _back(self, axis: _Axis, places: Optional[Places]) -> None:
        """Labels an axis with the logits that an op makes from it, unless it has columns."""
        if places is None or not has_logits(places):
            return
        if not any(column_of(name) for name, _ in flat(self._of(axis)) or ()):
            self._label(axis, ((sum(width for _, width in places), places),))

    def _label_if_any(self, axis: _Axis, factors: Sequence[Factor]) -> None:
        if any(places is not None for _, places in factors):
            self._label(axis, tuple(factors))


_VISITS: Mapping[str, Callable[[_Walk, tf.Operation], bool]] = {
    "BatchMatMulV2": _Walk._matmul,
    "ConcatV2": _Walk._concat,
    "Einsum": _Walk._einsum,
    "ExpandDims": _Walk._expand,
    "MatMul": _Walk._matmul,
    "Pack": _Walk._pack,
    "Reshape": _Walk._reshape,
    "Slice": _Walk._slice,
    "Split": _Walk._split,
    "SplitV": _Walk._split,
    "Squeeze": _Walk._squeeze,
    "StridedSlice": _Walk._strided_slice,
    "Transpose": _Walk._transpose,
    **dict.fromkeys(_REDUCTIONS, _Walk._reduce),
}
