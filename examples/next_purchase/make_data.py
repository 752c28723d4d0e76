"""Makes browsing histories to train next_purchase on: TFRecords of tf.train.Examples.

    python examples/next_purchase/make_data.py

A user looks at a first item and then at 1 to 6 more. The attributes of the next item are the
attributes of the last item, rotated by 60 degrees in two planes, plus noise. A model that remembers
one item can predict its direction. Few items are bought: most items with a high first attribute.
"""

import argparse
import itertools
import math
import os
import random

import estimator_kit as ek

STEPS, DIMENSION, NOISE = 6, 4, 0.3


def next_item(item, rng):
    """The item after one: its attributes turned, and noise."""
    cos, sin = math.cos(math.pi / 3), math.sin(math.pi / 3)
    turned = []
    for x, y in zip(item[::2], item[1::2]):
        turned += [cos * x - sin * y, sin * x + cos * y]
    return [value + rng.gauss(0, NOISE) for value in turned]


def user(rng):
    """A record: the items of a user, and at each of them the next one, padded to STEPS."""
    items = [[rng.gauss(0, 1) for _ in range(DIMENSION)]]
    for _ in range(rng.randint(1, STEPS)):
        items.append(next_item(items[-1], rng))
    count = len(items) - 1
    padding = STEPS - count
    nothing = [0.0] * DIMENSION
    bought = [int(item[0] > 1.2 and rng.random() < 0.9) for item in items[1:]]
    return {
        "history": list(itertools.chain(*items[:-1], *[nothing] * padding)),
        "next_vector": list(itertools.chain(*items[1:], *[nothing] * padding)),
        "bought": bought + [0] * padding,
        "real": [1.0] * count + [0.0] * padding,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out_dir", default="data/next_purchase")
    parser.add_argument("--users", type=int, default=4000, help="to train on")
    arguments = parser.parse_args()
    os.makedirs(arguments.out_dir, exist_ok=True)
    parts = {"train-0": 0.5, "train-1": 0.5, "eval": 0.2}
    for seed, (name, share) in enumerate(parts.items()):
        rng = random.Random(seed)
        rows = [user(rng) for _ in range(int(arguments.users * share))]
        ek.write_examples(os.path.join(arguments.out_dir, f"{name}.tfrecord"), rows)
        print(f"{name}: {len(rows)} users")


if __name__ == "__main__":
    main()
