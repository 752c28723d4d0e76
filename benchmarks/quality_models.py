"""Which built-in model when: models of fields, histories and several objectives, on public data.

All models of a data set read the same columns, which `public_data` makes, with the same optimizer,
batches, hidden layers and number of steps. Each has the learning rate of the two, 0.003 and 0.01,
whose loss was lower in seed 1. A seed changes the initial values and the order of rows.

`left_out` has models that were measured in the same way and are not in the kit. On no data set was
their worst seed better than the best seed of every simpler model.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

import public_data
from quality_runs import Line, Run, commands, over_seeds, table

NEEDS_DATA = True

_STEPS = {"adult": 640, "movielens": 940, "games": 1450}
# The settings with the learning rate 0.003. All others have 0.01.
_LOW = {"games, din"}


class _Model(NamedTuple):
    """A model with its own parameters, and {group that it reads: group of the data set}."""

    flags: Sequence[str]
    groups: Mapping[str, str]


class _Table(NamedTuple):
    """Models that are compared: {data set: objectives}, {row: model}, and the rows left out."""

    objectives: Mapping[str, Sequence[str]]
    models: Mapping[str, _Model]
    left_out: Mapping[str, Sequence[str]]

    def settings(self) -> Iterator[tuple[str, str, str]]:
        """(name of the setting, data set, row)."""
        for data in self.objectives:
            for row in self.models:
                yield f"{data}, {row}", data, row


_FIELDS = {"fields": "fields"}
_WIDE = {"wide": "wide", "fields": "fields"}
_STEPS_OF = {"steps": "steps", "target": "target"}

TABLES = {
    "fields": _Table(
        {"adult": ("income",), "movielens": ("like",)},
        {
            "dnn": _Model(("--model=dnn", "--model_params=group=fields"), _FIELDS),
            "deepfm": _Model(("--model=deepfm", "--model_params=deep_group=fields"), _WIDE),
            "dcn": _Model(("--model=dcn", "--model_params=group=fields"), _FIELDS),
        },
        {
            "MaskNet, parallel": ("0.9215 (0.9206 to 0.9223)", "0.7899 (0.7895 to 0.7907)"),
            "FinalMLP": ("0.9219 (0.9214 to 0.9227)", "0.7910 (0.7898 to 0.7922)"),
            "FiBiNET": ("0.9192 (0.9184 to 0.9197)", "0.7900 (0.7889 to 0.7911)"),
        },
    ),
    "histories": _Table(
        {"games": ("bought",)},
        {
            "dnn": _Model(("--model=dnn", "--model_params=group=bag"), {"bag": "bag"}),
            "din": _Model(("--model=din", "--model_params=deep_group=null"), _STEPS_OF),
            "gru": _Model(
                ("--model=gru", "--model_params=deep_group=target",
                 "--model_params=recurrent_units=[16]"),
                _STEPS_OF,
            ),
            "dien": _Model(("--model=dien", "--model_params=deep_group=null"), _STEPS_OF),
        },
        {},
    ),
    "objectives": _Table(
        {"movielens": ("like", "love")},
        {
            "dcn for both": _Model(("--model=dcn", "--model_params=group=fields"), _FIELDS),
            "shared_bottom": _Model(
                ("--model=shared_bottom", "--model_params=group=fields"), _FIELDS
            ),
            "mmoe": _Model(
                ("--model=mmoe", "--model_params=group=fields", "--model_params=experts=4"),
                _FIELDS,
            ),
        },
        {
            "PEPNet": ("0.7939 (0.7932 to 0.7944)", "0.8090 (0.8087 to 0.8092)"),
            "STEM": ("0.7890 (0.7885 to 0.7895)", "0.8034 (0.8032 to 0.8038)"),
        },
    ),
}  # fmt: skip


def _spec(data: str, model: _Model, objectives: Sequence[str]) -> str:
    """The name of a spec file, which says what it holds."""
    groups = "-".join(model.groups.values())
    return f"{data}/{groups}-{'-'.join(objectives)}.json"


def _flags(data: str, row: str, of: _Table) -> list[str]:
    model, steps = of.models[row], _STEPS[data]
    rate = 0.003 if f"{data}, {row}" in _LOW else 0.01
    return [
        f"--spec=WORK/{_spec(data, model, of.objectives[data])}", *model.flags,
        "--model_params=hidden_units=[64,32]", "--model_params=optimizer=lazy_adam",
        f"--model_params=learning_rate={rate}",
        f"--model_params=schedule={{cosine: {{decay_steps: {steps}}}}}",
        f"--max_steps={steps}", "--batch_size=256",
    ]  # fmt: skip


_EXAMPLES = ("movielens, deepfm", "games, dien", "movielens, mmoe")

SETTINGS: dict[str, Sequence[str]] = {
    name: _flags(data, row, of) for of in TABLES.values() for name, data, row in of.settings()
}


def runs(work: str, data: Optional[str], seed: int, *, tiny: bool = False) -> Iterator[Run]:
    assert data is not None
    for of in TABLES.values():
        for name, source, row in of.settings():
            folder = os.path.join(work, source)
            public_data.prepare(source, data, folder)
            with open(f"{folder}/spec.json", encoding="utf-8") as file:
                spec = json.load(file)
            model, objectives = of.models[row], of.objectives[source]
            with open(os.path.join(work, _spec(source, model, objectives)), "w") as file:
                json.dump(public_data.part(spec, model.groups, objectives), file, indent=1)
            flags = [flag.replace("WORK", work) for flag in SETTINGS[name]]
            files = [
                f"--train_files={folder}/train.tfrecord", f"--eval_files={folder}/test.tfrecord"
            ]  # fmt: skip
            length = ["--max_steps=20"] if tiny else []
            metrics = tuple(f"{m}/{label}" for label in objectives for m in ("auc", "loss"))
            yield Run("models", name, seed, (*flags, *files, *length), metrics)


def _shown(lines: Sequence[Line], of: _Table) -> str:
    """A row for each model: the AUC of each objective, its mean and its range over the seeds."""
    places = [(data, label) for data, labels in of.objectives.items() for label in labels]
    found = {
        row: [
            list(over_seeds(lines, f"{data}, {row}", f"auc/{label}").values())
            for data, label in places
        ]
        for row in of.models
    }
    best = [max(statistics.fmean(cells[i]) for cells in found.values()) for i in range(len(places))]
    rows = []
    for row, cells in found.items():
        shown = []
        for values, most in zip(cells, best):
            mean = statistics.fmean(values)
            text = f"**{mean:.4f}**" if mean == most else f"{mean:.4f}"
            shown.append(f"{text} ({min(values):.4f} to {max(values):.4f})")
        rows.append([f"`{row}`", *shown])
    rows += [[f"left out: {row}", *cells] for row, cells in of.left_out.items()]
    return table(["model", *(f"{data}: {label}" for data, label in places)], rows)


def section(lines: Sequence[Line]) -> str:
    shown = {name: _shown(lines, of) for name, of in TABLES.items()}
    return f"""\
## Which model when

AUC on public data sets: the mean of the seeds, with the smallest and the largest. All models of a
table read the same fields, embeddings with 8 dimensions, with lazy Adam, a cosine schedule, batches
of 256, hidden layers of 64 and 32 units, and the same number of steps. Each has the learning rate
whose AUC was higher in seed 1, of 0.003 and 0.01. Larger data, other layers or other steps may
change the order. `benchmarks/public_data.py` says where the data come from, and makes the records.
`python benchmarks/quality.py --data FOLDER --only models --seeds 3` measures this part.

A "left out" model was written from the formulas of its paper and measured in the same way. It is
not in the kit, because on none of these data sets was its worst seed better than the best seed of
each simpler model. Its numbers are not measured again.

### Fields

`adult` is UCI Adult. In `movielens` (MovieLens 100K), `like` is a rating of 4 or 5 stars; the last
fifth of the ratings of each user is evaluated.

{shown["fields"]}

On Adult, the three models of the kit differ as their seeds do. On MovieLens, with its ids of users
and films, the worst seeds of `deepfm` and `dcn` are better than the best seed of `dnn`.

### A history and one item

In `games`, did a user buy this item after at most 20 others (Amazon's reviews of games)? Each true
item has a false one, drawn as often as it occurs in the log. The last item of each of 31,013 users
is evaluated. All models read only ids of items, and `dnn` reads the mean of the history.

{shown["histories"]}

`dien` gains by its auxiliary loss, which learns from each step which step follows. With
`auxiliary_weight=0`, its AUC was 0.7085 (0.7001 to 0.7159).

A longer history was measured on `movielens`, with all fields and the last 100 films that the user
liked. This table is not measured again. SIM takes 20 of the 100, by the genre of the film (hard) or
by the product of vectors (soft), and then is `din`. It is not in the kit, because `din` over all
100 is as good:

| model | movielens: like |
| --- | ---: |
| `dnn`, 20 films | 0.7912 (0.7892 to 0.7937) |
| `dnn`, 100 films | 0.7923 (0.7922 to 0.7925) |
| `din`, 20 films | 0.7897 (0.7887 to 0.7910) |
| `din`, 100 films | **0.7934** (0.7931 to 0.7937) |
| left out: SIM, hard | 0.7933 (0.7924 to 0.7943) |
| left out: SIM, soft | 0.7902 (0.7893 to 0.7913) |

### Two objectives

`movielens` again; `love` is a rating of 5 stars. `dcn` has one logit for each objective, and no
towers. PEPNet had the first genre of a film as its domain, and gates of users and films. STEM had
the rate 0.003; 0.01 gave 0.7899 and 0.8051 in seed 1.

{shown["objectives"]}

On `like`, the crosses of `dcn` gain more than experts and towers do. On `love`, the ranges touch.

One command of each table:

{commands({name: SETTINGS[name] for name in _EXAMPLES})}
"""
