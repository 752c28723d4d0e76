"""Writes a log of events with a known order, for `sasrec.flags` and `gru4rec.flags`.

    python examples/next_item/make_log.py

Each item has three successors. After an event, the next item is one of them with the probabilities
0.4, 0.2 and 0.1. Otherwise, it is drawn by popularity, which falls with the id. So nobody can
predict the next item exactly. The program also prints recall_at_10 and ndcg_at_10 of the true
probabilities: no model can expect higher ones.
"""

from __future__ import annotations

import argparse
import os
from datetime import datetime, timedelta

import numpy as np

SUCCESSORS = np.array([0.4, 0.2, 0.1])


def best_metrics(
    following: np.ndarray, popular: np.ndarray, counts: np.ndarray, k: int
) -> tuple[float, float]:
    """The expected recall and NDCG at k of the true probabilities.

    Args:
      following: int [items, 3], the successors of each item.
      popular: [items], the popularity of each item.
      counts: [items], how often each item comes directly before the last item of a user.
      k: the number of items.
    """
    best = np.zeros(k)  # The mean probability of the item at each rank.
    for item, count in enumerate(counts):
        probability = (1 - SUCCESSORS.sum()) * popular
        np.add.at(probability, following[item], SUCCESSORS)
        best += count / counts.sum() * -np.sort(-probability)[:k]
    return best.sum(), best @ (1 / np.log2(np.arange(k) + 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="data/next_item/log.csv")
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--users", type=int, default=6000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    items = arguments.items
    popular = 1 / (np.arange(items) + 10)
    popular /= popular.sum()
    following = rng.integers(0, items, (items, len(SUCCESSORS)))
    last = np.zeros(items)
    os.makedirs(os.path.dirname(arguments.out) or ".", exist_ok=True)
    with open(arguments.out, "w", encoding="utf-8") as file:
        print("user_id,time,item_id", file=file)
        for user in range(arguments.users):
            item = rng.choice(items, p=popular)
            time = datetime(2026, 1, 1) + timedelta(minutes=int(rng.integers(0, 40_000)))
            steps = int(rng.integers(5, 36))
            for step in range(steps):
                print(f"u{user},{time + timedelta(minutes=step)},{item}", file=file)
                if step == steps - 2:
                    last[item] += 1
                place = rng.choice(4, p=[*SUCCESSORS, 1 - SUCCESSORS.sum()])
                item = following[item, place] if place < 3 else rng.choice(items, p=popular)
    recall, ndcg = best_metrics(following, popular, last, 10)
    print(
        f"{arguments.out}: the best possible recall_at_10 is {recall:.3f}, "
        f"and the best possible ndcg_at_10 is {ndcg:.3f}"
    )


if __name__ == "__main__":
    main()
