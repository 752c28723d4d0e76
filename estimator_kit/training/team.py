"""`Team`: how many processes or devices train one model, and what that means for their input.

Says nothing about who they are; that is `cluster`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.rules.cluster import strategy_of
from input_pipelines.record_files.sharding import Shard


@dataclasses.dataclass(frozen=True)
class Team:
    """Those that train together.

    Attributes:
      size: processes that read, a shard each.
      index: of this one among them, the chief's being 0.
      batches_a_step: that one global step is made of, over all of them.
      ends_together: a step needs the batches of all, so nobody ends before the last one;
        otherwise each ends when it has read its shard so often as `epochs` says.
    """

    size: int = 1
    index: int = 0
    batches_a_step: int = 1
    ends_together: bool = False

    @classmethod
    def of(cls, config: ExperimentConfig, view: ClusterView, devices: int = 1) -> Team:
        """The team of a cluster's task that trains; `devices` of each do, in an all-reduce."""
        strategy = strategy_of(config, view)
        size, index = view.trainers, view.trainer_index
        if strategy == "sync_replicas":
            return cls(size, index, size - config.backup_workers, True)
        if strategy == "multi_worker_mirrored":
            return cls(size, index, size * devices, True)
        return cls(size, index)

    @property
    def shard(self) -> Shard:
        """What this one reads."""
        return Shard(self.size, self.index)

    @property
    def pads(self) -> bool:
        """Whether one that has read its shard goes on with batches without weight.

        So each row is read once an epoch however uneven shards are. With backup workers a step
        takes the batches that come first, whosever they are, and nobody can say when all are read:
        there each begins its shard anew, and training ends after so many batches as there are.
        """
        return self.ends_together and self.batches_a_step % self.size == 0

    def own_rows(self, steps: int, batch_size: int) -> int:
        """Rows of its shard that this one reads in so many steps of all together.

        Each takes the same part of the steps, as far as the step tells. Asynchronous ones that ran
        at different speeds read some rows again after a restart, and others not in that epoch.
        """
        return steps * self.batches_a_step // self.size * batch_size

    def steps_of(self, rows: Sequence[int], batch_size: int) -> int:
        """Steps until the rows of all shards are read, given how many each has.

        Of 2 shards of 250 and 130 rows in batches of 100 it is 5 where each steps by itself, and 3
        where a step takes a batch of both: the larger one has 3.
        """
        batches = [-(-own // batch_size) for own in rows]
        if self.pads:
            return -(-max(batches) // (self.batches_a_step // self.size))
        return -(-sum(batches) // self.batches_a_step)


def needs_all_workers(config: ExperimentConfig) -> bool:
    """Whether no step of a cluster can be made without one of its workers."""
    together = config.strategy in ("sync_replicas", "multi_worker_mirrored")
    return together and not config.backup_workers


# A process that trains by itself.
ALONE = Team()
