"""Which settings do not go together: a module for each kind of work. Imports no TensorFlow.

    problems_of(config)      all problems; each is one line that says what to do

A setting on its own is checked by its type, in `settings`; which settings a mode needs is in the
table of modes.
"""

from __future__ import annotations

from estimator_kit.config.rules import (
    analysis,
    cluster,
    conversion,
    data,
    data_service,
    exports,
    own_input,
    prediction,
    profiling,
    required,
    retraining,
    serving,
    training,
    transforming,
    tuning,
)
from estimator_kit.config.settings import AllSettings


def problems_of(config: AllSettings) -> list[str]:
    """All problems of a config; none if the list is empty."""
    return [
        *required.problems(config),
        *transforming.problems(config),
        *analysis.problems(config),
        *conversion.problems(config),
        *training.problems(config),
        *profiling.problems(config),
        *data_service.problems(config),
        *cluster.problems(config),
        *serving.problems(config),
        *prediction.problems(config),
        *retraining.problems(config),
        *exports.problems(config),
        *tuning.problems(config),
        *data.problems(config),
        *own_input.problems(config),
    ]
