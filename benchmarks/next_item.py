"""Quality of `sasrec` and `gru4rec` on a public log of purchases, compared with papers.

    python benchmarks/next_item.py --data Video.txt [--work DIR] [--models sasrec,gru4rec]

The data is a file with a user and an item on each line, in the order of time: the form of the
repository of SASRec (Kang & McAuley, ICDM 2018). Its Video.txt is the set "Games" of the paper,
Amazon's reviews of video games. The log is converted with --targets=leave_one_out: for each user,
the last item is the test, the one before it the validation, and training sees the rest.

The metrics of an evaluation rank the whole catalogue. The paper ranks the next item among 100
sampled items instead. If `a` of the other N - 1 items have a better rank, the number of better ones
in such a sample is hypergeometric. So the expected metrics of the paper follow from the shares of
rows with rank k or better, which the evaluation has for many k: `sampled_hit_rate_at_10` and
`sampled_ndcg_at_10`. Between two k, ranks are taken as equally frequent.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]

PARAMS = {
    "sasrec": ["steps_dropout=0.5"],
    "gru4rec": ["steps_dropout=0.25", "learning_rate=0.002"],
}
EPOCHS = {"sasrec": 40, "gru4rec": 20}
SAMPLED = 100  # Items of a sample in the paper.


def ranks(items: int) -> list[int]:
    """The numbers k of `recall_at_k`: about 15 in each power of ten, without the last rank."""
    return sorted({round(10 ** (i / 15)) for i in range(int(15 * math.log10(items)) + 1)})


def spec(items: int) -> dict[str, Any]:
    recalls = [{"recall": k} for k in sorted({*ranks(items), 10, 20})]
    return {
        "features": {"item_id": {"dtype": "int64", "shape": "variable"}},
        "columns": {
            "item": {"identity": "item_id", "size": items + 1, "sequence": True},
            "item_emb": {"embedding": "item", "dimension": 50},
        },
        "groups": {"steps": ["item_emb"]},
        "labels": {"next_item_id": {"dtype": "int64", "shape": "variable"}},
        "objectives": {
            "next_item": {
                "head": "next_item",
                "label": "next_item_id",
                "items": "item",
                "loss": {"sampled_softmax": {"samples": 1024, "negatives": "uniform"}},
                "metrics": [*recalls, {"ndcg": 10}, "mrr"],
            }
        },
    }


def expected(ahead: int, others: int) -> tuple[float, float]:
    """Hit rate and NDCG at 10 among sampled items, if `ahead` items have a better rank."""

    def choose(n: int, k: int) -> float:
        return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

    hit_rate = ndcg = 0.0
    for better in range(10):
        if better <= ahead and SAMPLED - better <= others - ahead:
            share = math.exp(
                choose(ahead, better)
                + choose(others - ahead, SAMPLED - better)
                - choose(others, SAMPLED)
            )
            hit_rate, ndcg = hit_rate + share, ndcg + share / math.log2(better + 2)
    return hit_rate, ndcg


def sampled(metrics: Mapping[str, float], items: int) -> dict[str, float]:
    """The metrics of the paper, from the metrics of an evaluation."""
    places = [0, *ranks(items), items]
    shares = [0.0, *(metrics[f"recall_at_{k}/next_item"] for k in places[1:-1]), 1.0]
    found = np.zeros(2)
    for low, high, share in zip(places, places[1:], np.diff(shares)):
        between = np.unique(np.linspace(low, high - 1, 20).astype(int))
        found += share * np.mean([expected(int(a), items - 1) for a in between], axis=0)
    return {"sampled_hit_rate_at_10": found[0], "sampled_ndcg_at_10": found[1]}


def run(arguments: Sequence[str]) -> None:
    subprocess.run([sys.executable, str(ROOT / "run.py"), *arguments], check=True, cwd=ROOT)


def prepare(data: Path, work: Path) -> int:
    """Writes the records and the spec, and returns the number of items."""
    lines = data.read_text(encoding="ascii").split("\n")
    pairs = [line.split() for line in lines if line]
    table = [f"{user},{place},{item}" for place, (user, item) in enumerate(pairs)]
    (work / "log.csv").write_text("\n".join(["user_id,time,item_id", *table]), encoding="ascii")
    items = max(int(item) for _, item in pairs)
    (work / "spec.json").write_text(json.dumps(spec(items)), encoding="utf-8")
    run(["convert", f"--convert_files={work}/log.csv", f"--convert_dir={work}/data",
         "--sequence_by=user_id", "--order_by=time", "--sequence_columns=item_id",
         "--sequence_steps=50", "--targets=leave_one_out", "--convert_order=shuffled"])  # fmt: skip
    return items


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, help="where models go; by default nothing is kept")
    parser.add_argument("--models", default="sasrec,gru4rec")
    parser.add_argument("--epochs", type=int, help="fewer epochs, for a try")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = arguments.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        items = prepare(arguments.data, work)
        for model in arguments.models.split(","):
            common = [f"--spec={work}/spec.json", f"--model={model}", f"--model_dir={work}/{model}"]
            params = [f"--model_params={param}" for param in PARAMS[model]]
            run(["train", *common, *params, f"--train_files={work}/data/train-*",
                 f"--epochs={arguments.epochs or EPOCHS[model]}", "--batch_size=128",
                 "--report=off"])  # fmt: skip
            run(["evaluate", *common, f"--eval_files={work}/data/test-*", "--eval_name=test"])
            stored = json.loads((work / model / "evaluation-test.json").read_text("utf-8"))
            metrics = stored["metrics"]
            shown = {
                name: metrics[f"{name}/next_item"]
                for name in ("recall_at_10", "recall_at_20", "ndcg_at_10", "mrr")
            }
            line = {**shown, **sampled(metrics, items)}
            print(json.dumps({"model": model, **{k: round(v, 4) for k, v in line.items()}}))


if __name__ == "__main__":
    main()
