"""The section `drift` of a spec: how much new data may differ from earlier data.

    drift:
      default:
        l_infinity:     {warn: 0.02, stop: 0.1}
        jensen_shannon: {warn: 0.02, stop: 0.1}
        missing:        {warn: 0.01, stop: 0.05}
      features:
        item_id: {l_infinity: {}}        # new items every day: no threshold for this measure
        note: {}                         # no threshold for any measure
      labels:
        click: {l_infinity: {warn: 0.005, stop: 0.02}}

A distance above `warn` is a warning, and a distance above `stop` is an error. `default` applies to
every feature that is not ignored and to every label. An entry under `features` or `labels` replaces
the default, measure by measure. `{}` removes the thresholds: of one measure if it is the value of a
measure, and of all measures if it is the value of a name. Without a threshold the kit checks
nothing. `input_pipelines.prepare.analyze.distances` computes the measures. This module only defines
the YAML. It does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import Declared, Entry

_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Thresholds(Entry):
    """The thresholds of one measure, as distances from 0 to 1."""

    warn: Optional[_Share] = Field(
        None, description="A larger distance is a warning. By default no distance is a warning."
    )
    stop: Optional[_Share] = Field(
        None,
        description="A larger distance is an error. It must not be less than `warn`. By default "
        "no distance is an error.",
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Thresholds:
        if self.warn is not None and self.stop is not None and self.warn > self.stop:
            raise ValueError(
                f"warn must not be greater than stop, got warn {self.warn} and stop {self.stop}"
            )
        return self


class Measures(Entry):
    """The thresholds of each measure. For a feature or label, `{}` removes all thresholds."""

    l_infinity: Optional[Thresholds] = Field(
        None,
        description="For categories (strings, ids and classes): the largest change of the share of "
        "any value.",
    )
    jensen_shannon: Optional[Thresholds] = Field(
        None,
        description="For numbers: the Jensen-Shannon divergence. It is 0 for equal distributions "
        "and 1 if no value is common.",
    )
    missing: Optional[Thresholds] = Field(
        None, description="The change of the share of records without a value."
    )


class Drift(Declared):
    """How much new data may differ from earlier data."""

    changes = "limits"

    default: Measures = Field(
        Measures(),
        description="The thresholds of every feature that is not ignored, and of every label.",
    )
    features: Mapping[str, Measures] = Field(
        {},
        description="The thresholds of single features, by name. They replace the default, measure "
        "by measure. `{}` removes all thresholds of the feature.",
    )
    labels: Mapping[str, Measures] = Field(
        {},
        description="The thresholds of single labels, by name. They replace the default, measure "
        "by measure. `{}` removes all thresholds of the label.",
    )

    @property
    def any(self) -> bool:
        """Whether any threshold is set."""
        everything = (self.default, *self.features.values(), *self.labels.values())
        measures = [measure for entry in everything for measure in dict(entry).values() if measure]
        return any(measure != Thresholds() for measure in measures)


NO_DRIFT = Drift()
