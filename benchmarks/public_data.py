"""Public data sets as TFRecord files and specs, for the part `models` of `quality.py`.

`prepare(name, data, out)` writes train.tfrecord, test.tfrecord and spec.json into the folder `out`.
Nothing is downloaded. `data` is a folder with a folder for each set. Their terms are their owners':

    adult/       adult.data, adult.test      UCI Adult, CC BY 4.0 (Becker & Kohavi, 1996)
    movielens/   u.data, u.user, u.item      MovieLens 100K: for research, no redistribution, no
                                             commercial use (Harper & Konstan, 2015)
    games/       Video.txt                   of the repository of SASRec: Amazon's reviews of games,
                                             for research (McAuley et al., SIGIR 2015)

All columns are fields: embeddings with 8 dimensions, of numbers through buckets. So every model
reads the same input.
"""

from __future__ import annotations

import collections
import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml
from quality_runs import ROOT

from estimator_kit import write_examples

Row = dict[str, Any]

RECENT = 20  # Steps of a history.
_DIMENSION = 8
_START = {"truncated_normal": {"stddev": 0.05}}
# The entries of a column that name another column.
_READ = ("embedding", "indicator", "bucketized")


def prepare(name: str, data: str, out: str) -> None:
    """Makes a data set, if `out` does not have it."""
    if os.path.exists(f"{out}/spec.json"):
        return
    os.makedirs(out, exist_ok=True)
    if name == "adult":
        command = [sys.executable, "examples/adult/prepare.py", f"--data_dir={data}/adult"]
        subprocess.run([*command, f"--out_dir={out}"], check=True, cwd=ROOT)
        spec = _adult()
    else:
        make = {"movielens": _movielens, "games": _games}[name]
        train, test, spec = make(os.path.join(data, name))
        for part, rows in (("train", train), ("test", test)):
            random.Random(1).shuffle(rows)
            write_examples(f"{out}/{part}.tfrecord", rows)
    with open(f"{out}/spec.json", "w", encoding="utf-8") as file:
        json.dump(spec, file, indent=1)


def part(
    spec: Mapping[str, Any], groups: Mapping[str, str], objectives: Sequence[str]
) -> dict[str, Any]:
    """The part of a spec that some groups and objectives need.

    Args:
      spec: the whole spec.
      groups: {name that a model reads: group of the whole spec}.
      objectives: the objectives that are learned.
    """
    names = [name for group in groups.values() for name in spec["groups"][group]]
    columns: Row = {}
    while names:
        name = names.pop()
        columns[name] = spec["columns"][name]
        names += [v for k, v in columns[name].items() if k in _READ and v not in columns]
    text = json.dumps(list(columns.values()))
    return {
        "features": {n: f for n, f in spec["features"].items() if f'"{n}"' in text},
        "columns": columns,
        "groups": {name: spec["groups"][group] for name, group in groups.items()},
        "labels": {name: spec["labels"][name] for name in objectives},
        "objectives": {name: spec["objectives"][name] for name in objectives},
    }


def _embedding(column: str) -> Row:
    return {"embedding": column, "dimension": _DIMENSION, "initializer": _START}


def _lines(path: str, encoding: str = "utf-8") -> Iterator[str]:
    path = path if os.path.exists(path) else path + ".gz"
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding=encoding) as file:
        for line in file:
            if line.strip():
                yield line.strip()


def _adult() -> Row:
    """The fields of the spec of the catalog."""
    with open(os.path.join(ROOT, "feature_specs/catalog/adult.yaml"), encoding="utf-8") as file:
        spec: Row = yaml.safe_load(file)
    names = [spec["columns"][name]["embedding"] for name in spec["groups"]["fields"]]
    numbers = [spec["columns"][name]["bucketized"] for name in names if "_bucket" in name]
    made = {f"{name}_field": _embedding(name) for name in names}
    return {
        "features": spec["features"],
        "columns": {**{name: spec["columns"][name] for name in (*numbers, *names)}, **made},
        "groups": {"wide": names, "fields": list(made)},
        "labels": spec["labels"],
        "objectives": spec["objectives"],
    }


_AGES = [18, 22, 25, 28, 31, 35, 40, 45, 50, 56]
_YEARS = [1940, 1955, 1965, 1975, 1981, 1986, 1990, 1993, 1994, 1995, 1996, 1997]


def _movielens(data: str) -> tuple[list[Row], list[Row], Row]:
    """100,000 ratings. The last fifth of each user's ratings is evaluated.

    `like` is a rating of 4 or 5, and `love` a rating of 5.
    """
    users = {cells[0]: cells for cells in (x.split("|") for x in _lines(f"{data}/u.user"))}
    films = {x.split("|")[0]: x.split("|") for x in _lines(f"{data}/u.item", "latin-1")}
    logs = collections.defaultdict(list)
    for number, line in enumerate(_lines(f"{data}/u.data")):
        user, film, rating, time = line.split("\t")
        logs[user].append((int(time), number, film, int(rating)))
    train: list[Row] = []
    test: list[Row] = []
    for user, log in logs.items():
        for place, (_, _, film, rating) in enumerate(sorted(log)):
            row: Row = {
                "user": int(user), "film": int(film), "age": float(users[user][1]),
                "gender": users[user][2], "occupation": users[user][3], "zip": users[user][4][:1],
                "year": float(films[film][2][-4:] or 0),
                "genres": [i for i, flag in enumerate(films[film][5:]) if flag == "1"],
                "like": int(rating >= 4), "love": int(rating == 5),
            }  # fmt: skip
            (train if place < 0.8 * len(log) else test).append(row)
    columns: Row = {
        "user": {"identity": "user", "size": 944},
        "film": {"identity": "film", "size": 1683},
        "age_number": {"numeric": "age"},
        "age": {"bucketized": "age_number", "boundaries": _AGES},
        "gender": {"hash_bucket": "gender", "size": 10},
        "occupation": {"hash_bucket": "occupation", "size": 100},
        "zip": {"hash_bucket": "zip", "size": 100},
        "year_number": {"numeric": "year"},
        "year": {"bucketized": "year_number", "boundaries": _YEARS},
        "genres": {"identity": "genres", "size": 19},
    }
    names = ["user", "film", "age", "gender", "occupation", "zip", "year", "genres"]
    made = {f"{name}_field": _embedding(name) for name in names}
    spec = {
        "features": {
            **{name: {"dtype": "int64"} for name in ("user", "film")},
            **{name: {"dtype": "float32"} for name in ("age", "year")},
            **{name: {"dtype": "string"} for name in ("gender", "occupation", "zip")},
            "genres": {"dtype": "int64", "shape": "variable"},
        },
        "columns": {**columns, **made},
        "groups": {"wide": names, "fields": list(made)},
        "labels": {"like": {"dtype": "int64"}, "love": {"dtype": "int64"}},
        "objectives": {"like": {"head": "binary"}, "love": {"head": "binary"}},
    }
    return train, test, spec


def _games(data: str) -> tuple[list[Row], list[Row], Row]:
    """The last item of each of 31,013 users is evaluated; three items before it are for training.

    Each true row has a false one: an item that is drawn from the log, so as often as it occurs,
    and that the user never has.
    """
    logs = collections.defaultdict(list)
    for line in _lines(f"{data}/Video.txt"):
        user, item = line.split()
        logs[user].append(int(item))
    every = [item for log in logs.values() for item in log]
    rng = random.Random(1)
    train: list[Row] = []
    test: list[Row] = []
    for log in logs.values():
        for place in range(max(1, len(log) - 4), len(log)):
            other = rng.choice(every)
            while other in log:
                other = rng.choice(every)
            rows = train if place < len(log) - 1 else test
            for bought, target in ((1, log[place]), (0, other)):
                rows.append({"recent": log[:place][-RECENT:], "item": target, "bought": bought})
    size = {"size": max(every) + 1}
    spec = {
        "features": {
            "item": {"dtype": "int64"},
            "recent": {"dtype": "int64", "shape": "variable"},
        },
        "embedding_tables": {"items": {"dimension": _DIMENSION, "initializer": _START}},
        "columns": {
            "item": {"identity": "item", **size},
            "recent": {"identity": "recent", **size, "sequence": True},
            "recent_bag": {"identity": "recent", **size},
            "item_field": {"embedding": "item", "table": "items"},
            "recent_field": {"embedding": "recent", "table": "items"},
            "recent_bag_field": {"embedding": "recent_bag", "table": "items"},
        },
        "groups": {
            "target": ["item_field"],
            "steps": ["recent_field"],
            "bag": ["item_field", "recent_bag_field"],
        },
        "labels": {"bought": {"dtype": "int64"}},
        "objectives": {"bought": {"head": "binary"}},
    }
    return train, test, spec
