"""The base of the gRPC and REST clients: rows, batches, deadlines, arrays."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Optional

import numpy as np

from .errors import RowError, ServingError
from .retries import Retries
from .rows import Rows
from .signatures import Metadata
from .tensors import as_array, cast

# Rows in a request. For usual records this keeps requests far below gRPC's limit of 4 MiB.
BATCH_ROWS = 1000

# The types that NumPy gives to Python's numbers; older versions use int32 on some systems.
_DEFAULTS = (np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.int32))


@dataclasses.dataclass(frozen=True)
class Classes:
    """The answers of a classify signature.

    Attributes:
      labels: the labels of the classes, bytes [rows, classes].
      scores: the scores of the classes, float32 [rows, classes].
    """

    labels: np.ndarray
    scores: np.ndarray


class Client(abc.ABC):
    """A model on a server. Several threads may use it.

    Args:
      model: the name of the model on the server.
      rows: makes Examples from rows; required if rows are dicts or a DataFrame.
      version: a version number; by default the newest version that is served.
      label: the label of a version, for example `stable`, instead of its number.
      batch_rows: the number of rows in a request. For usual records, 1000 keeps requests far below
        gRPC's limit of 4 MiB. TensorFlow Serving refuses more rows than `max_batch_size` in its
        batching parameters, which --mode=serving_config sets to 1000 or more.
      timeout_secs: the time for one batch of rows, with all its tries and with the requests for
        metadata that it needs. Each further batch has the same time.
      retries: repeats requests; by default until `timeout_secs` are over.
    """

    def __init__(
        self,
        model: str,
        *,
        rows: Optional[Rows] = None,
        version: Optional[int] = None,
        label: Optional[str] = None,
        batch_rows: int = BATCH_ROWS,
        timeout_secs: float = 10.0,
        retries: Optional[Retries] = None,
    ):
        if not model:
            raise ValueError("the name of the model is empty")
        if version is not None and label is not None:
            raise ValueError("give version or label, not both")
        if batch_rows < 1:
            raise ValueError(f"batch_rows: got {batch_rows!r}, expected 1 or more")
        self._model = model
        self._rows = rows
        self._version = version
        self._label = label
        self._batch_rows = batch_rows
        self._retries = retries or Retries(timeout_secs)
        self._metadata: Optional[Metadata] = None  # The last metadata of the server.

    def predict(
        self, rows: Any, *, signature: str = "", input_name: str = "examples"
    ) -> dict[str, np.ndarray]:
        """The outputs of a signature that takes Examples, with one row for each input row.

        Args:
          rows: dicts or a DataFrame; or a list of serialized records (bytes).
          signature: the name of the signature; empty for the default of the server.
          input_name: the name of its only input.

        Returns:
          `{output: array}`; strings are bytes.
        """
        records = self._records(rows)
        return self.predict_tensors({input_name: records}, signature=signature)

    def predict_tensors(
        self, inputs: Mapping[str, Any], *, signature: str = ""
    ) -> dict[str, np.ndarray]:
        """The outputs of any signature whose first dimension is the rows.

        Args:
          inputs: `{input: array}`, all with the same number of rows. A single number, such as `k`
            of a signature `top_k`, is for all rows. The client casts Python's numbers, and arrays
            of the types that NumPy gives them, to the types of the signature. For this it requests
            the metadata of the model once.
          signature: the name of the signature; empty for the default of the server.

        Raises:
          RowError: the numbers of rows differ, or a number does not fit the type of the input.
        """
        arrays = {name: as_array(value) for name, value in inputs.items()}
        counts = {array.shape[:1] for array in arrays.values() if array.ndim}
        if len(counts) != 1:
            shapes = {name: array.shape for name, array in arrays.items()}
            raise RowError(f"inputs differ in their number of rows: {shapes}")
        ((count,),) = counts
        parts: list[dict[str, np.ndarray]] = []
        # Without rows it still sends a request, to learn the names and types of the outputs.
        for first in range(0, max(count, 1), self._batch_rows):
            end = min(first + self._batch_rows, count)
            with self._retries.shared():
                if not parts:
                    arrays = self._cast(arrays, signature)
                batch = {
                    name: array[first:end] if array.ndim else array
                    for name, array in arrays.items()
                }
                parts.append(_asked(self._predict, batch, signature, first, end, count))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def classify(self, rows: Any, *, signature: str = "") -> Classes:
        """The classes and scores of a classify signature."""
        parts = self._of_batches(self._classify, rows, signature)
        return Classes(
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.scores for part in parts]),
        )

    def regress(self, rows: Any, *, signature: str = "") -> np.ndarray:
        """The values of a regress signature, float32 [rows]."""
        return np.concatenate(self._of_batches(self._regress, rows, signature))

    @abc.abstractmethod
    def metadata(self) -> Metadata:
        """The version that answers, with its signatures."""

    @abc.abstractmethod
    def status(self) -> dict[int, str]:
        """The state of each version that the server knows, for example `AVAILABLE`."""

    @abc.abstractmethod
    def close(self) -> None:
        """Closes connections."""

    @abc.abstractmethod
    def _predict(self, arrays: Mapping[str, np.ndarray], signature: str) -> dict[str, np.ndarray]:
        """Sends one batch."""

    @abc.abstractmethod
    def _classify(self, examples: list[Any], signature: str) -> Classes:
        """Sends one batch of `Example` messages."""

    @abc.abstractmethod
    def _regress(self, examples: list[Any], signature: str) -> np.ndarray:
        """Sends one batch of `Example` messages."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *args: Any) -> None:
        self.close()

    def _cast(self, arrays: Mapping[str, np.ndarray], signature: str) -> dict[str, np.ndarray]:
        """Casts arrays of NumPy's default types to the types of a signature's inputs."""
        made = dict(arrays)
        if not any(array.dtype in _DEFAULTS for array in arrays.values()):
            return made
        try:
            known = (self._metadata or self.metadata()).signatures
        except ServingError as error:
            if error.code != "UNIMPLEMENTED":
                raise
            return made  # The server reports what it expects.
        found = known.get(signature or "serving_default")
        for name, array in arrays.items():
            form = found.inputs.get(name) if found is not None else None
            if form is None or form.numpy is None or array.dtype not in _DEFAULTS:
                continue
            try:
                made[name] = cast(array, form.numpy)
            except ValueError as error:
                raise RowError(f"input {name}: {error}") from error
        return made

    def _records(self, rows: Any) -> np.ndarray:
        is_list = isinstance(rows, (list, tuple)) or (isinstance(rows, np.ndarray) and rows.ndim)
        if is_list and all(isinstance(row, bytes) for row in rows):
            records = list(rows)
        else:
            records = self._maker().serialized(rows)
        array = np.empty(len(records), np.object_)
        array[:] = records
        return array

    def _of_batches(self, ask: Callable[..., Any], rows: Any, signature: str) -> list[Any]:
        batches = self._batches(rows)
        total = sum(map(len, batches))
        return [
            _asked(ask, batch, signature, first, first + len(batch), total)
            for first, batch in zip(range(0, total, self._batch_rows), batches)
        ]

    def _batches(self, rows: Any) -> list[list[Any]]:
        maker = self._maker()
        if maker.sequence:
            raise RowError(
                "the spec reads SequenceExamples, which classify and regress do not accept. Use "
                "predict."
            )
        examples = maker.examples(rows)
        if not examples:
            raise RowError("classify and regress: expected at least one row, got none")
        return [
            examples[i : i + self._batch_rows] for i in range(0, len(examples), self._batch_rows)
        ]

    def _maker(self) -> Rows:
        if self._rows is None:
            raise RowError(
                "the client needs a spec to make Examples from rows. Pass "
                "rows=Rows.of_export(<export>) to the client, or serialized Examples to predict."
            )
        return self._rows


def _asked(
    ask: Callable[..., Any], batch: Any, signature: str, first: int, end: int, total: int
) -> Any:
    """Sends one batch. If there are several batches, an error names the rows of this one."""
    try:
        return ask(batch, signature)
    except ServingError as error:
        if end - first == total:
            raise
        where = f"rows {first} to {end - 1} of {total}"
        raise ServingError(error.code, f"{where}: {error.message}") from error
