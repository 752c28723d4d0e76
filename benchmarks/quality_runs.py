"""Shared by the parts of `quality.py`: a run as flags, its line of JSON, means over seeds.

A `Run` has the flags of run.py, so you can repeat a measurement by hand.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from absl import flags

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_NEVER = 1_000_000_000


@dataclasses.dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
      part: the part of the benchmark: `ads`, `adult` or `bikes`.
      name: the name in the report; the runs of all seeds have the same name.
      seed: the seed of the initial values, of the order of rows, and of generated data.
      flags: the flags of run.py, without the flags that `measure` adds.
      metrics: which metrics of the final evaluation are kept.
      constants: numbers of the data that are kept with the metrics.
    """

    part: str
    name: str
    seed: int
    flags: tuple[str, ...]
    metrics: tuple[str, ...]
    constants: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, int]:
        return self.part, self.name, self.seed


@dataclasses.dataclass(frozen=True)
class Line:
    """The result of a run; one line of JSON."""

    part: str
    name: str
    seed: int
    metrics: Mapping[str, float]
    seconds: float

    @property
    def key(self) -> tuple[str, str, int]:
        return self.part, self.name, self.seed


def measure(run: Run, work: str) -> Line:
    """Trains, evaluates once at the end, and deletes the model."""
    import estimator_kit.compat  # noqa: F401  # isort: skip
    from estimator_kit import commands
    from estimator_kit.config.flags import config_from_flags, define_flags

    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    # A separate folder, because TensorFlow keeps the writer of events for each folder.
    model_dir = os.path.join(work, "models", f"{run.part}-{run.name}-{run.seed}".replace(" ", "_"))
    shutil.rmtree(model_dir, ignore_errors=True)
    values = flags.FlagValues()
    define_flags(values)
    ours = (f"--seed={run.seed}", f"--model_dir={model_dir}", "--exporters=", "--best_metric=loss",
            f"--save_checkpoints_steps={_NEVER}", "--eval_batch_size=8192")  # fmt: skip
    values(["quality", *run.flags, *ours])
    started = time.perf_counter()
    result = commands.run(config_from_flags(values))
    seconds = time.perf_counter() - started
    shutil.rmtree(model_dir)
    metrics = {name: round(result.metrics[name], 6) for name in run.metrics}
    metrics.update(run.constants)
    return Line(run.part, run.name, run.seed, metrics, round(seconds, 1))


def read_lines(path: str) -> list[Line]:
    """The lines of earlier starts; none if the file does not exist."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [Line(**json.loads(text)) for text in file]


def over_seeds(lines: Iterable[Line], name: str, metric: str) -> dict[int, float]:
    """{seed: value} for the runs with a name, sorted by seed."""
    found = {line.seed: line.metrics[metric] for line in lines if line.name == name}
    return dict(sorted(found.items()))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns except the first are aligned to the right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def seeds_table(
    lines: Sequence[Line],
    names: Sequence[str],
    metric: str,
    what: str,
    show: Callable[[float], str],
) -> str:
    """A row for each name: mean, min and max over the seeds, and the value of each seed."""
    seeds = sorted({line.seed for line in lines})
    rows = []
    for name in names:
        values = over_seeds(lines, name, metric)
        spread = [statistics.fmean(values.values()), min(values.values()), max(values.values())]
        rows.append([name, *map(show, spread), *(show(values[seed]) for seed in seeds)])
    return table([what, "mean", "min", "max", *(f"seed {seed}" for seed in seeds)], rows)


def commands(settings: Mapping[str, Sequence[str]]) -> str:
    """The command of each name, as a block of shell code."""
    blocks = []
    for name, given in settings.items():
        blocks.append(f"# {name}\npython run.py " + " \\\n    ".join(map(_quoted, given)))
    return "```sh\n" + "\n".join(blocks) + "\n```"


def _quoted(flag: str) -> str:
    return f"'{flag}'" if any(c in flag for c in "[]{}*: ") else flag
