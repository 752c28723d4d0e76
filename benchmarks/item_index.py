"""The index of `--transform=item_index` compared with a search of all items: recall and speed.

    python benchmarks/item_index.py [--items 100000] [--dimension 64] [--compare]

It trains gru4rec with an item bias on a made log, exports it, and makes the index with the default
settings. Each item of the log belongs to one of `items / 100` groups, and its popularity falls with
its id. A user mostly stays in a group. The queries are the vectors of 1,000 users of the evaluation
data, which training has not seen. The first line is `index.json` of the result: recall@10, the
milliseconds of a query on one core, one query at a time, and the speed-up over FAISS' own
`IndexFlatIP`, which compares all items.

`--compare` adds a line for each setting of other indexes over the same vectors: the same graph with
each `ef_search`; the same graph after the change of Bachrach et al. (RecSys 2014), which makes
inner products Euclidean distances; and inverted files (IVF) with 4 sqrt(items) cells, with and
without this change. `--vectors gaussian` compares them on independent Gaussian numbers, which have
no structure that an index could use.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np

from estimator_kit.scoring import item_index
from input_pipelines.record_files import writing

ROOT = Path(__file__).parents[1]

STEPS = 20
GROUP = 100  # Items of a group.
QUERIES = 1000


def histories(users: int, items: int, rng: np.random.Generator) -> np.ndarray:
    """int64 [users, STEPS + 1]: items by popularity, mostly of the group of the item before."""
    popular = 1 / (np.arange(items) + 10)
    ids = rng.choice(items, (users, STEPS + 1), p=popular / popular.sum())
    groups = rng.permutation(items).reshape(-1, GROUP)  # Each has popular and rare items.
    group_of = np.empty(items, np.int64)
    group_of[groups.reshape(-1)] = np.repeat(np.arange(len(groups)), GROUP)
    for step in range(1, STEPS + 1):
        inside = groups[group_of[ids[:, step - 1]], rng.integers(0, GROUP, users)]
        ids[:, step] = np.where(rng.random(users) < 0.8, inside, ids[:, step])
    return ids


def run(*arguments: str) -> None:
    subprocess.run([sys.executable, str(ROOT / "run.py"), *arguments], check=True, cwd=ROOT)


def train(work: Path, items: int, dimension: int, users: int, epochs: int) -> None:
    """Trains and exports a model."""
    rng = np.random.default_rng(1)
    for name, count in (("train", users), ("eval", QUERIES)):
        found = histories(count, items, rng)
        rows = ({"item": row[:-1].tolist(), "next": row[1:].tolist()} for row in found)
        writing.write_examples(f"{work}/{name}.tfrecord", rows)
    spec = {
        "features": {"item": {"dtype": "int64", "shape": "variable"}},
        "columns": {
            "item": {"identity": "item", "size": items, "sequence": True},
            "item_emb": {"embedding": "item", "dimension": dimension},
        },
        "groups": {"steps": ["item_emb"]},
        "labels": {"next": {"dtype": "int64", "shape": "variable"}},
        "objectives": {
            "next": {
                "head": "next_item",
                "items": "item",
                "loss": {"sampled_softmax": {"samples": 1024, "negatives": "in_batch"}},
            }
        },
    }
    (work / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
    model = (f"--spec={work}/spec.json", "--model=gru4rec", f"--model_dir={work}/model",
             "--model_params=item_bias=true", "--model_params=optimizer=lazy_adam",
             "--model_params=learning_rate=0.003")  # fmt: skip
    run("train", *model, f"--train_files={work}/train.tfrecord", f"--epochs={epochs}",
        "--batch_size=128", "--report=off")  # fmt: skip
    run("export", *model)


def newest(work: Path) -> Path:
    return max((work / "model" / "export" / "final").iterdir())


class Case(NamedTuple):
    name: str
    index: Any
    queries: np.ndarray
    seconds: float


def without_norms(vectors: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vectors whose Euclidean distances sort like the inner products of the given ones."""
    norms = (vectors**2).sum(axis=1)
    more = np.sqrt(np.maximum(norms.max() - norms, 0))
    wider = np.concatenate([vectors, more[:, np.newaxis]], axis=1)
    return wider, np.pad(queries, [(0, 0), (0, 1)])


def cases(vectors: np.ndarray, queries: np.ndarray) -> Iterator[Case]:
    changed = without_norms(vectors, queries)
    cells = round(4 * np.sqrt(len(vectors)))
    for kind in ("hnsw", "ivf"):
        for metric, (x, q) in (("inner_product", (vectors, queries)), ("l2", changed)):
            start, n = time.perf_counter(), x.shape[1]
            measure = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
            if kind == "hnsw":
                index = faiss.IndexHNSWFlat(n, item_index.NEIGHBORS, measure)
                index.hnsw.efConstruction = item_index.CANDIDATES
            else:
                index = faiss.IndexIVFFlat(faiss.IndexFlat(n, measure), n, cells, measure)
                index.train(x)
            index.add(x)
            yield Case(f"{kind} {metric}", index, q, time.perf_counter() - start)


def compare(vectors: np.ndarray, queries: np.ndarray) -> None:
    """Prints the recall and the speed of other indexes."""
    flat = item_index.build(vectors, exact=len(vectors))
    best = flat.search(queries, item_index.K)[0]
    for case in cases(vectors, queries):
        is_graph = case.name.startswith("hnsw")
        for setting in [2**i for i in range(4 if is_graph else 0, 11 if is_graph else 9)]:
            if is_graph:
                case.index.hnsw.efSearch = setting
            else:
                case.index.nprobe = setting
            ids = case.index.search(case.queries, item_index.K)[1]
            found = item_index.share_found(ids, vectors, queries, best)
            times = item_index.one_by_one([(case.index, case.queries), (flat, queries)])
            line = {
                "index": case.name, "ef_search" if is_graph else "nprobe": setting,
                "recall_at_10": round(found, 4), "milliseconds": round(times[0], 4),
                "speed_up": round(times[1] / times[0], 1), "build_seconds": round(case.seconds, 1),
            }  # fmt: skip
            print(json.dumps(line), flush=True)
            if found > 0.99:
                break


def users_of(work: Path) -> np.ndarray:
    """The vectors of the users of the evaluation data."""
    from estimator_kit.scoring import export as exports
    from estimator_kit.scoring import item_vectors
    from input_pipelines.record_files import tfrecords

    records = next(iter(tfrecords.blocks([f"{work}/eval.tfrecord"]).rebatch(QUERIES))).numpy()
    model = exports.load(str(newest(work)))
    source = item_vectors.Source(str(newest(work)), "user_vector/next", "next")
    return item_vectors.of_users(model, source, list(records))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--vectors", choices=("trained", "gaussian"), default="trained")
    parser.add_argument("--work", type=Path, help="keeps the model here, or uses it again")
    parser.add_argument("--compare", action="store_true")
    arguments = parser.parse_args()
    if arguments.vectors == "gaussian":
        rng = np.random.default_rng(1)
        vectors = rng.normal(size=(arguments.items, arguments.dimension)).astype(np.float32)
        queries = rng.normal(size=(QUERIES, arguments.dimension)).astype(np.float32)
        compare(vectors, queries)
        return
    with tempfile.TemporaryDirectory() as folder:
        work = arguments.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        if not (work / "model" / "export").exists():
            train(work, arguments.items, arguments.dimension, arguments.users, arguments.epochs)
        shutil.rmtree(work / "index", ignore_errors=True)
        run("transform", f"--export_dir={newest(work)}", "--transform=item_index",
            f"--transform_dir={work}/index", f"--predict_files={work}/eval.tfrecord")  # fmt: skip
        print((work / "index" / "index.json").read_text(encoding="utf-8").replace("\n", " "))
        if arguments.compare:
            index = faiss.read_index(str(work / "index" / "index.faiss"))
            storage = index.storage if hasattr(index, "storage") else index
            vectors = faiss.downcast_index(storage).reconstruct_n(0, index.ntotal)
            compare(vectors, users_of(work))


if __name__ == "__main__":
    main()
