"""The reference models: constant, linear and boosted trees, with scikit-learn.

    outputs = MODELS["boosted_trees"].predict(problem)

A prediction has the form of the answer of the head, so that the same metric judges both: logits for
`binary`, shares of classes for `multi_class`, and numbers or scores for others. Trees learn the
grades of `ranking` as numbers.

  constant       the mean label: the rate, the shares of the classes, or the mean; for `ranking`,
                 a random order
  linear         logistic regression, or ridge regression for numbers
  boosted_trees  HistGradientBoostingClassifier, or HistGradientBoostingRegressor for numbers

The settings are the same for all data: scikit-learn's defaults, apart from those in `TREES` and
`max_iter` of the linear model. The models have fixed seeds, and never change the random
numbers of a training.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from estimator_kit.errors import ConfigError
from estimator_kit.scoring.references.features import Encoder
from estimator_kit.scoring.references.rows import Table

Floats = NDArray[np.float64]

# With scikit-learn's l2_regularization of 0, trees fail where one class is rare: for 0.2 % of
# positive rows, the AUC was 0.85 instead of 0.97. Smaller steps that end when a tenth of the rows
# show no improvement had the best log loss on all tables on which this was chosen.
TREES = {"learning_rate": 0.05, "l2_regularization": 10.0, "max_iter": 300}
_LEAST_ROWS_TO_STOP = 1_000

_SEED = 1
_LEAST = 1e-6  # The smallest probability of a constant or a share.

# The classes whose label means stand for the values of large categories.
_MOST_MEANS = 10

# More classes take a tree each in every iteration.
MOST_CLASSES = 50

# The heads that have reference models: those whose labels are classes, and those with numbers.
CLASSES = {"binary", "multi_class", "ordinal"}
NUMBERS = {
    "regression",
    "poisson",
    "logistic_regression",
    "ziln",
    "ranking",
}


def check_installed() -> None:
    """Raises ConfigError if the extra `reference` is not installed."""
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"--reference_models needs the package scikit-learn, got: {error}. Install it with "
            "`pip install 'estimator-kit[reference]'`."
        ) from error


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Runs scikit-learn and NumPy in one thread, so that numbers are the same on all machines.

    On a busy machine it is also faster: threads that wait for each other took 40 times as long.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError):
            import sklearn.ensemble
            import sklearn.linear_model  # noqa: F401
            import threadpoolctl

            stack.enter_context(threadpoolctl.threadpool_limits(1))
        yield


@dataclasses.dataclass
class Problem:
    """What the reference models of one objective learn.

    Attributes:
      head: the name of the head.
      classes: the number of classes; None for numbers.
      encoder: the features of training and evaluation rows.
      labels, weights: of the training rows, float64 [rows].
      rows: the number of evaluation rows.
    """

    head: str
    classes: Optional[int]
    encoder: Encoder
    labels: Floats
    weights: Floats
    rows: int

    @classmethod
    def of(
        cls, head: str, classes: Optional[int], name: str, train: Table, evaluated: Table
    ) -> Problem:
        """The problem of the objective `name`. Leaves out rows without a label.

        Raises:
          ValueError: no training row has a label.
        """
        target = train.targets[name]
        used = target.weights > 0
        if not used.any():
            raise ValueError("no training row has a label with a weight")
        features = {key: values.only(used) for key, values in train.features.items()}
        rows = len(evaluated.targets[name].labels)
        encoder = Encoder(features, evaluated.features)
        return cls(head, classes, encoder, target.labels[used], target.weights[used], rows)

    @property
    def of_classes(self) -> bool:
        return self.classes is not None

    def targets(self) -> Floats:
        """float64 [rows, n]: the numbers whose means stand for values of large categories."""
        if self.classes is None or self.classes == 2:
            return self.labels[:, np.newaxis]
        shown = min(self.classes, _MOST_MEANS)
        has_class: NDArray[np.bool_] = self.labels[:, np.newaxis] == np.arange(shown)
        return has_class.astype(np.float64)

    def answer(self, shares: Floats, present: NDArray[Any]) -> Floats:
        """The answer of the head for shares [rows, present classes] of a classifier."""
        assert self.classes is not None
        whole = np.zeros((len(shares), self.classes))
        whole[:, present.astype(np.int64)] = shares
        return _logit(whole[:, 1]) if self.head == "binary" else whole

    def answer_of_numbers(self, numbers: Floats) -> Floats:
        return _logit(numbers) if self.head == "logistic_regression" else numbers


def _logit(shares: Floats) -> Floats:
    shares = np.clip(shares, _LEAST, 1 - _LEAST)
    result: Floats = np.log(shares) - np.log1p(-shares)
    return result


def _constant(problem: Problem) -> Floats:
    weights = problem.weights / problem.weights.sum()
    if problem.head == "ranking":  # Rows with equal scores would be in the worst order.
        return np.random.default_rng(_SEED).random(problem.rows)
    if problem.classes is None:
        numbers = np.full(problem.rows, float(problem.labels @ weights))
        return problem.answer_of_numbers(numbers)
    labels = problem.labels.astype(np.int64)
    shares = np.bincount(labels, weights, problem.classes)
    return problem.answer(np.tile(shares, (problem.rows, 1)), np.arange(problem.classes))


def _linear(problem: Problem) -> Floats:
    from sklearn import linear_model

    columns = problem.encoder.for_linear()
    if problem.of_classes:
        return _of_classifier(problem, linear_model.LogisticRegression(max_iter=200), columns)
    return _of_regressor(problem, linear_model.Ridge(), columns)


def _boosted_trees(problem: Problem) -> Floats:
    from sklearn import ensemble

    columns, are_categories = problem.encoder.for_trees(problem.targets(), problem.weights)
    options = {
        **TREES,
        "early_stopping": len(problem.labels) >= _LEAST_ROWS_TO_STOP,
        "categorical_features": are_categories,
        "random_state": _SEED,
    }
    if problem.of_classes:
        model = ensemble.HistGradientBoostingClassifier(**options)
        return _of_classifier(problem, model, columns)
    return _of_regressor(problem, ensemble.HistGradientBoostingRegressor(**options), columns)


def _of_classifier(problem: Problem, model: Any, columns: Any) -> Floats:
    if len(np.unique(problem.labels)) < 2:
        raise ValueError("all labels of the training rows are equal")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # For example, that the solver has not converged.
        model.fit(columns.train, problem.labels, sample_weight=problem.weights)
        return problem.answer(model.predict_proba(columns.evaluated), model.classes_)


def _of_regressor(problem: Problem, model: Any, columns: Any) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(columns.train, problem.labels, sample_weight=problem.weights)
        return problem.answer_of_numbers(np.asarray(model.predict(columns.evaluated), np.float64))


class Reference(NamedTuple):
    """A reference model.

    Attributes:
      predict: fits it, and returns the answers for the evaluation rows.
      needs_library: whether it needs scikit-learn.
    """

    predict: Callable[[Problem], Floats]
    needs_library: bool = True


MODELS: Mapping[str, Reference] = {
    "constant": Reference(_constant, needs_library=False),
    "linear": Reference(_linear),
    "boosted_trees": Reference(_boosted_trees),
}
