"""The periods of monitoring: equal parts of a day in UTC, such as days, hours or five minutes.

    periods = Periods.of("1h")
    periods.start_of(1767625200.0)        # 1767623400 rounded down to the hour
    periods.name(1767623400)              # 2026-01-05T14

UTC has no daylight saving time, so each period has the same length. This module does not know which
periods have logs.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator_kit.config.areas.monitoring import DAY, period_seconds


@dataclasses.dataclass(frozen=True)
class Periods:
    """Periods of one length.

    Attributes:
      seconds: the length, a divisor of a day.
    """

    seconds: int

    @classmethod
    def of(cls, text: str) -> Periods:
        """The periods of a length such as 1d, 1h or 5m. Raises ValueError, as `period_seconds`."""
        return cls(period_seconds(text))

    def starts_of(self, times: NDArray[Any]) -> NDArray[np.int64]:
        """The start of the period of each time, in seconds since 1970."""
        return np.floor(times / self.seconds).astype(np.int64) * self.seconds

    def name(self, start: int) -> str:
        """The name of the period with this start; it is also a name of a file."""
        at = datetime.datetime.fromtimestamp(start, tz=datetime.timezone.utc)
        if self.seconds == DAY:
            return at.strftime("%Y-%m-%d")
        return at.strftime("%Y-%m-%dT%H" if self.seconds % 3600 == 0 else "%Y-%m-%dT%H-%M")
