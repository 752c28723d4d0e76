"""The section `drift` of a spec: how far the records may move from those of before.

    drift:
      default:
        l_infinity:     {warn: 0.02, stop: 0.1}
        jensen_shannon: {warn: 0.02, stop: 0.1}
        missing:        {warn: 0.01, stop: 0.05}
      features:
        item_id: {l_infinity: {}}        # new items every day: measured, and never too far
        note: {}                         # of this one nothing is
      labels:
        click: {l_infinity: {warn: 0.005, stop: 0.02}}

What is over `warn` is reported, what is over `stop` is an error. `default` is for every feature
that is not ignored and for every label; what a name of its own gives takes its place, measure by
measure. `{}` sets no threshold: for a measure, in its own place, and for a name, of any measure.
Where nothing is given, nothing is checked. The measures are those of
`input_pipelines.prepare.analyze.distances`; this module knows the YAML alone. Imports no
TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import Entry

_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Thresholds(Entry):
    """Distances from 0 to 1 over which something is said; without one, never.

    Attributes:
      warn: a larger distance is a warning.
      stop: a larger distance is an error; not below `warn`.
    """

    warn: Optional[_Share] = None
    stop: Optional[_Share] = None

    @pydantic.model_validator(mode="after")
    def _check(self) -> Thresholds:
        if self.warn is not None and self.stop is not None and self.warn > self.stop:
            raise ValueError(
                f"warn {self.warn} must not be above stop {self.stop}, or it is never said"
            )
        return self


class Measures(Entry):
    """The thresholds of each measure; for a name, `{}` is none at all, whatever the default says.

    Attributes:
      l_infinity: of categories (strings, integers that are ids, classes): how much the share of
        any value changed.
      jensen_shannon: of numbers: the Jensen-Shannon divergence, 0 for the same distribution, 1
        where no value is common.
      missing: how much the share of records without a value changed.
    """

    l_infinity: Optional[Thresholds] = None
    jensen_shannon: Optional[Thresholds] = None
    missing: Optional[Thresholds] = None


class Drift(Entry):
    """The whole section.

    Attributes:
      default: for each feature that is not ignored, and for each label.
      features, labels: for single ones, in the place of the default, measure by measure; of a name
        with `{}` nothing is too far.
    """

    default: Measures = Measures()
    features: Mapping[str, Measures] = {}
    labels: Mapping[str, Measures] = {}

    @property
    def any(self) -> bool:
        """Whether there is any threshold."""
        everything = (self.default, *self.features.values(), *self.labels.values())
        measures = [measure for entry in everything for measure in dict(entry).values() if measure]
        return any(measure != Thresholds() for measure in measures)


NO_DRIFT = Drift()
