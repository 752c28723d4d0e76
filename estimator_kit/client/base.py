"""The base of the gRPC and REST clients: rows, batches, versions, deadlines, arrays.

A server may replace the version of a model at any time. One call is answered by one version: its
first request decides which, and all others name this version. If the server no longer has it, the
call starts again. The types and names of a version are never used for another version.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from .connections import Retries, ServingError
from .rows import RowError, Rows
from .tensors import DEFAULT_SIGNATURE, Metadata, as_array, cast

# Rows in a request. For usual records this keeps requests far below gRPC's limit of 4 MiB.
BATCH_ROWS = 1000

# How often a call starts again because the version that answers it is gone.
_MOST_STARTS = 5

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


class Target(NamedTuple):
    """What a request asks.

    Attributes:
      signature: the name of the signature; empty for the default of the server.
      version: the version that must answer; None for the one that the user asks for.
      metadata: of this version, if the client has asked for it.
    """

    signature: str
    version: Optional[int]
    metadata: Optional[Metadata]


class Client(abc.ABC):
    """A model on a server. Several threads may use it, and versions may be replaced meanwhile.

    Args:
      model: the name of the model on the server.
      rows: makes Examples from rows; required if rows are dicts or a DataFrame.
      version: a version number; by default the newest version that is served.
      label: the label of a version, for example `stable`, instead of its number.
      batch_rows: the number of rows in a request. For usual records, 1000 keeps requests far below
        gRPC's limit of 4 MiB. TensorFlow Serving refuses more rows than `max_batch_size` in its
        batching parameters, which --serving_config_dir sets to 1000 or more.
      timeout_secs: the time for one batch of rows, with all its tries and with the requests for
        metadata that it needs. Each further batch has the same time, and so has each batch of a
        call that starts again because the server replaced the version.
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
          rows: dicts, a DataFrame or a pyarrow Table; or a list of serialized records (bytes).
          signature: the name of the signature; empty for the default of the server.
          input_name: the name of its only input.

        Returns:
          `{output: array}`; strings are bytes.

        Raises:
          RowError: a row does not fit the spec.
          ServingError: the server did not answer.
        """
        records = self._records(rows, signature)
        return self.predict_tensors({input_name: records}, signature=signature)

    def predict_tensors(
        self, inputs: Mapping[str, Any], *, signature: str = ""
    ) -> dict[str, np.ndarray]:
        """The outputs of any signature whose first dimension is the rows.

        Args:
          inputs: `{input: array}`, all with the same number of rows. A single value, such as `k`
            of a signature `top_k`, is for all rows. The client casts Python's numbers, and arrays
            of the types that NumPy gives them, to the types of the signature. For both it asks the
            server for its version, and for the metadata of a version that it does not know.
          signature: the name of the signature; empty for the default of the server.

        Returns:
          `{output: array}`; strings are bytes. All are answers of one version.

        Raises:
          RowError: the numbers of rows differ, or a number does not fit the type of the input.
          ServingError: the server did not answer; ABORTED if it replaced the version too often
            during the call.
        """
        arrays = {name: as_array(value) for name, value in inputs.items()}
        counts = {array.shape[:1] for array in arrays.values() if array.ndim}
        if len(counts) != 1:
            shapes = {name: array.shape for name, array in arrays.items()}
            raise RowError(f"inputs differ in their number of rows: {shapes}")
        ((count,),) = counts
        # Without rows it still sends a request, to learn the names and types of the outputs.
        starts = range(0, max(count, 1), self._batch_rows)

        def prepared() -> tuple[Optional[Metadata], list[Any]]:
            metadata = self._metadata_for(arrays)
            typed = arrays if metadata is None else _fitted(arrays, metadata, signature, count)
            return metadata, [
                {
                    name: array[first : first + self._batch_rows] if array.ndim else array
                    for name, array in typed.items()
                }
                for first in starts
            ]

        return _joined(self._by_one_version(prepared, self._predict, signature, count))

    def classify(self, rows: Any, *, signature: str = "") -> Classes:
        """The classes and scores of a classify signature."""
        parts = self._of_examples(self._classify, rows, signature)
        return Classes(
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.scores for part in parts]),
        )

    def regress(self, rows: Any, *, signature: str = "") -> np.ndarray:
        """The values of a regress signature, float32 [rows]."""
        return np.concatenate(self._of_examples(self._regress, rows, signature))

    @abc.abstractmethod
    def metadata(self) -> Metadata:
        """The version that answers now, with its signatures."""

    @abc.abstractmethod
    def status(self) -> dict[int, str]:
        """The state of each version that the server knows, for example `AVAILABLE`."""

    @abc.abstractmethod
    def close(self) -> None:
        """Closes connections."""

    # Whether answers say their version, and the names and types of their arrays.
    _answers_say_their_version: bool

    @abc.abstractmethod
    def _predict(
        self, arrays: Mapping[str, np.ndarray], target: Target
    ) -> tuple[Optional[int], dict[str, np.ndarray]]:
        """Sends one batch; returns the version that answered, if it is known, and the outputs."""

    @abc.abstractmethod
    def _classify(self, examples: list[Any], target: Target) -> tuple[Optional[int], Classes]:
        """Sends one batch of `Example` messages, like `_predict`."""

    @abc.abstractmethod
    def _regress(self, examples: list[Any], target: Target) -> tuple[Optional[int], np.ndarray]:
        """Sends one batch of `Example` messages, like `_predict`."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *args: Any) -> None:
        self.close()

    def _metadata_for(self, arrays: Mapping[str, np.ndarray]) -> Optional[Metadata]:
        """The metadata of the version that answers now, if a request with these arrays needs it."""
        plain = any(not array.ndim or array.dtype in _DEFAULTS for array in arrays.values())
        if not plain and self._answers_say_their_version:
            return None
        try:
            return self._current()
        except ServingError as error:
            if error.code != "UNIMPLEMENTED" or not self._answers_say_their_version:
                raise
            return None  # The server reports what it expects.

    def _current(self) -> Metadata:
        """The metadata of the version that answers now. Only a new one makes a large request."""
        metadata = self._metadata
        if metadata is not None and self._label is None:
            if self._version is not None or self._newest() == metadata.version:
                return metadata
        return self.metadata()

    def _newest(self) -> Optional[int]:
        try:
            states = self.status()
        except ServingError as error:
            # Something before the server may allow only some requests.
            if error.code not in ("UNIMPLEMENTED", "NOT_FOUND"):
                raise
            return None
        return max((v for v, state in states.items() if state == "AVAILABLE"), default=None)

    def _by_one_version(
        self,
        prepared: Callable[[], tuple[Optional[Metadata], Sequence[Any]]],
        ask: Callable[..., Any],
        signature: str,
        count: int,
    ) -> list[Any]:
        """The answers to the batches of a call, all of one version.

        Args:
          prepared: returns the metadata that the batches were made with, or None, and the batches.
            It is called again if the version is gone.
          ask: `_predict`, `_classify` or `_regress`.
          signature: see `predict`.
          count: the number of rows.
        """
        gone: list[int] = []
        while len(gone) < _MOST_STARTS:
            version: Optional[int] = None
            batches: Sequence[Any] = [None]
            metadata: Optional[Metadata] = None
            parts: list[Any] = []
            try:
                while len(parts) < len(batches):
                    first = len(parts) * self._batch_rows
                    end = min(first + self._batch_rows, count)
                    with self._retries.shared():
                        if not parts:
                            metadata, batches = prepared()
                            version = None if metadata is None else metadata.version
                        with _rows_named(first, end, count):
                            target = Target(signature, version, metadata)
                            answered, part = ask(batches[len(parts)], target)
                    version = answered if version is None else version
                    parts.append(part)
                return parts
            except ServingError as error:
                if error.code != "NOT_FOUND" or version is None or self._version is not None:
                    raise
                gone.append(version)
                self._metadata = None
        raise ServingError(
            "ABORTED",
            f"the server replaced the version that answered {len(gone)} times during one call: "
            f"{', '.join(map(str, gone))}. Call again, or ask for one version with version=.",
        )

    def _records(self, rows: Any, signature: str) -> np.ndarray:
        is_list = isinstance(rows, (list, tuple)) or (isinstance(rows, np.ndarray) and rows.ndim)
        if is_list and all(isinstance(row, bytes) for row in rows):
            records = list(rows)
        else:
            records = self._maker().serialized(rows, signature)
        array = np.empty(len(records), np.object_)
        array[:] = records
        return array

    def _of_examples(self, ask: Callable[..., Any], rows: Any, signature: str) -> list[Any]:
        maker = self._maker()
        if maker.sequence:
            raise RowError(
                "the spec reads SequenceExamples, which classify and regress do not accept. Use "
                "predict."
            )
        examples = maker.examples(rows, signature)
        if not examples:
            raise RowError("classify and regress: expected at least one row, got none")
        starts = range(0, len(examples), self._batch_rows)
        batches = [examples[first : first + self._batch_rows] for first in starts]

        def prepared() -> tuple[Optional[Metadata], list[Any]]:
            is_one = len(batches) == 1 or self._answers_say_their_version
            return None if is_one else self._current(), batches

        return self._by_one_version(prepared, ask, signature, len(examples))

    def _maker(self) -> Rows:
        if self._rows is None:
            raise RowError(
                "the client needs a spec to make Examples from rows. Pass "
                "rows=Rows.of_export(<export>) to the client, or serialized Examples to predict."
            )
        return self._rows


def _fitted(
    arrays: Mapping[str, np.ndarray], metadata: Metadata, signature: str, count: int
) -> dict[str, np.ndarray]:
    """Arrays of NumPy's default types in the types of a signature's inputs, one value for each row.

    An input without dimensions keeps a single value.
    """
    signature_content = metadata.signatures.get(signature or DEFAULT_SIGNATURE)
    fitted = dict(arrays)
    for name, array in arrays.items():
        form = signature_content.inputs.get(name) if signature_content is not None else None
        if form is None:
            continue
        if form.numpy is not None and array.dtype in _DEFAULTS:
            try:
                array = cast(array, form.numpy)
            except ValueError as error:
                raise RowError(f"input {name}: {error}") from error
        fitted[name] = np.repeat(array, count) if not array.ndim and form.shape else array
    return fitted


def _joined(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The outputs of all batches of a call."""
    forms = [{name: array.dtype for name, array in part.items()} for part in parts]
    if any(form != forms[0] for form in forms):
        raise ServingError(
            "ABORTED",
            "the names or types of the outputs changed during one call. Do not replace the files "
            "of a version that is served, and call again.",
        )
    joined: dict[str, np.ndarray] = {}
    for name in parts[0]:
        arrays = [part[name] for part in parts]
        shapes = {array.shape[1:] for array in arrays}
        if len(shapes) > 1:
            raise ServingError(
                "FAILED_PRECONDITION",
                f"the rows of the output {name} differ in their shape between batches: "
                f"{', '.join(str(list(shape)) for shape in sorted(shapes))}. Send fewer rows in a "
                "call, or make the client with a larger batch_rows=.",
            )
        joined[name] = np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
    return joined


@contextlib.contextmanager
def _rows_named(first: int, end: int, total: int) -> Iterator[None]:
    """An error of a server names the rows of a batch, if there are several batches."""
    try:
        yield
    except ServingError as error:
        if end - first == total:
            raise
        where = f"rows {first} to {end - 1} of {total}"
        raise ServingError(error.code, f"{where}: {error.message}") from error
