"""`Team`: how many processes or devices train one model, and what that means for their input.

It does not know their names or addresses; `cluster` does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from estimator_kit.config.areas.cluster import TOGETHER, Cluster
from estimator_kit.config.cluster import ClusterView, strategy_of
from input_pipelines.record_files.sharding import Shard


@dataclasses.dataclass(frozen=True)
class Team:
    """The processes that train together.

    Attributes:
      size: the number of processes that read, each one its shard.
      index: the index of this process; the chief's index is 0.
      batches_a_step: how many batches, of all processes together, make one global step.
      ends_together: if True, a step needs the batches of all processes, so all end at the same
        step. If False, each process ends when it has read its shard --epochs times.
    """

    size: int = 1
    index: int = 0
    batches_a_step: int = 1
    ends_together: bool = False

    @classmethod
    def of(cls, cluster: Cluster, view: ClusterView, devices: int = 1) -> Team:
        """The team of a training task in a cluster. In an all-reduce it uses `devices` devices."""
        size, index = view.trainers, view.trainer_index
        if strategy_of(cluster, view) not in TOGETHER:
            return cls(size, index)
        return cls(size, index, size * devices - cluster.backup_workers, True)

    @property
    def shard(self) -> Shard:
        """The shard that this process reads."""
        return Shard(self.size, self.index)

    @property
    def pads(self) -> bool:
        """Whether a process that has read its shard continues with batches of weight 0.

        So each row is read once an epoch, even if the shards differ in size. Backup workers do not
        allow this: a step takes the first batches that arrive, so no process knows when all rows
        are read. There each process starts its shard again, and training ends after as many
        batches as all shards have.
        """
        return self.ends_together and self.batches_a_step % self.size == 0

    def own_rows(self, steps: int, batch_size: int) -> int:
        """How many rows of its shard this process reads in `steps` global steps.

        The global step does not tell how many batches each process has contributed, so this assumes
        equal parts. Asynchronous processes run at different speeds. After a restart they read some
        rows again, and leave out some rows in that epoch.
        """
        return steps * self.batches_a_step // self.size * batch_size

    def steps_of(self, rows: Sequence[int], batch_size: int) -> int:
        """The number of steps until all rows are read, given the rows of each shard.

        For example, two shards have 250 and 130 rows, and a batch has 100. If each process steps by
        itself, this is 3 + 2 = 5. If a step takes a batch of both, it is 3.
        """
        batches = [-(-own // batch_size) for own in rows]
        if self.pads:
            return -(-max(batches) // (self.batches_a_step // self.size))
        return -(-sum(batches) // self.batches_a_step)


def needs_all_workers(cluster: Cluster) -> bool:
    """Whether every step of a cluster needs all of its workers."""
    return cluster.strategy in TOGETHER and not cluster.backup_workers


# The team of a process that trains alone.
ALONE = Team()
