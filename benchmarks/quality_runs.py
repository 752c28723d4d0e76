"""What the parts of `quality.py` share: a run as flags, its line of JSON, means over seeds.

A `Run` is a list of flags as run.py takes them, so what was measured can be run again by hand.
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
      part: of the benchmark: `ads`, `adult` or `bikes`.
      name: what the report calls it; the runs of all seeds have one.
      seed: of the initial values and the order of rows, and of the data where they are generated.
      flags: as run.py takes them, without those that `measure` gives.
      metrics: those of the evaluation at the end that are kept.
      constants: numbers of the data that its line keeps beside them.
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
    """What a run reached; one line of JSON."""

    part: str
    name: str
    seed: int
    metrics: Mapping[str, float]
    seconds: float

    @property
    def key(self) -> tuple[str, str, int]:
        return self.part, self.name, self.seed


def measure(run: Run, work: str) -> Line:
    """Trains and evaluates once, at the end; nothing of the model is kept."""
    import estimator_kit.compat  # noqa: F401  # isort: skip
    from estimator_kit import commands
    from estimator_kit.config.flags import config_from_flags, define_flags

    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    # A folder of its own: TensorFlow keeps the writers of events by folder as long as it runs.
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
    """The lines that an earlier start left; none without the file."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [Line(**json.loads(text)) for text in file]


def over_seeds(lines: Iterable[Line], name: str, metric: str) -> dict[int, float]:
    """{seed: value} of the runs of a name, by rising seed."""
    found = {line.seed: line.metrics[metric] for line in lines if line.name == name}
    return dict(sorted(found.items()))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; all columns but the first are aligned to the right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def seeds_table(
    lines: Sequence[Line],
    names: Sequence[str],
    metric: str,
    what: str,
    show: Callable[[float], str],
) -> str:
    """A row a name: mean, min and max over the seeds, and the value of each seed."""
    seeds = sorted({line.seed for line in lines})
    rows = []
    for name in names:
        values = over_seeds(lines, name, metric)
        spread = [statistics.fmean(values.values()), min(values.values()), max(values.values())]
        rows.append([name, *map(show, spread), *(show(values[seed]) for seed in seeds)])
    return table([what, "mean", "min", "max", *(f"seed {seed}" for seed in seeds)], rows)


def commands(settings: Mapping[str, Sequence[str]]) -> str:
    """The flags of each name, as a block of text."""
    blocks = []
    for name, given in settings.items():
        blocks.append(f"# {name}\npython run.py " + " \\\n    ".join(map(_quoted, given)))
    return "```sh\n" + "\n".join(blocks) + "\n```"


def _quoted(flag: str) -> str:
    return f"'{flag}'" if any(c in flag for c in "[]{}*: ") else flag
