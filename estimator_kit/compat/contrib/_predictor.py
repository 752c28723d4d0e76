"""The object that tf.contrib.predictor makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Predictor:
    """A function from NumPy arrays to NumPy arrays: `predictor({"x": [[1.0]]})["scores"]`.

    Attributes:
      graph, session: of the model.
      feed_tensors, fetch_tensors: the tensors of the inputs and outputs, by name.
    """

    def __init__(
        self,
        graph: Any,
        session: Any,
        feed_tensors: Mapping[str, Any],
        fetch_tensors: Mapping[str, Any],
    ) -> None:
        self._graph, self._session = graph, session
        self._feed_tensors, self._fetch_tensors = dict(feed_tensors), dict(fetch_tensors)

    graph = property(lambda self: self._graph)
    session = property(lambda self: self._session)
    feed_tensors = property(lambda self: self._feed_tensors)
    fetch_tensors = property(lambda self: self._fetch_tensors)

    def __call__(self, input_dict: Mapping[str, Any]) -> Any:
        """The outputs by name.

        Raises:
          ValueError: an input has a name that the model does not have.
        """
        unknown = sorted(set(input_dict) - set(self._feed_tensors))
        if unknown:
            raise ValueError(
                f"Got unexpected keys in input_dict: {unknown}\n"
                f"expected: {sorted(self._feed_tensors)}"
            )
        feed = {self._feed_tensors[k]: v for k, v in input_dict.items() if v is not None}
        return self._session.run(self._fetch_tensors, feed)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__} with feed tensors {self._feed_tensors} and fetch_tensors "
            f"{self._fetch_tensors}"
        )
