"""Values of TF_CONFIG: valid ones, and ones that no cluster manager should write.

The addresses belong to a network that is reserved for documentation, so no server can listen at
them: a task of a valid cluster ends at its start.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from tests.integration.fuzz import draws
from tests.integration.fuzz.place import Drawn, Place

_HOST = "192.0.2.{}:2222"

_CONFIGS: tuple[dict[str, Any], ...] = (
    {},
    {"cluster": {}, "task": {}},
    {"task": {"type": "chief", "index": 0}},
    {"cluster": {"chief": [_HOST.format(1)]}, "task": {"type": "chief", "index": 0}},
    {"cluster": {"worker": [_HOST.format(1)]}, "task": {"type": "worker", "index": 0}},
    {"cluster": {"master": [_HOST.format(1)]}, "task": {"type": "master", "index": "0"}},
    {
        "cluster": {
            "chief": [_HOST.format(1)], "worker": [_HOST.format(2), _HOST.format(3)],
            "ps": [_HOST.format(4)], "evaluator": [_HOST.format(5)],
        },
        "task": {"type": "worker", "index": 1},
        "environment": "cloud",
    },
    {
        "cluster": {"worker": {"0": _HOST.format(2), "1": _HOST.format(3)}},
        "task": {"type": "worker", "index": 1}, "rpc_layer": "grpc",
    },
)  # fmt: skip

_ADDRESSES = ("", ":", "host", "host:", ":2222", "host:0", "host:65536", "host:-1", "ho st:1",
              "[::1]:2", "[::1:2",
              "grpc://host:1", "192.0.2.1:2222", "192.0.2.1:٣", "host:1\n", "é:1",
              "host:1,host:2")  # fmt: skip
_TYPES = ("chief", "master", "worker", "ps", "evaluator", "Chief", "", "workers", "gpu")

_TEXTS = ("", " ", "{", "[]", "null", "0", '"x"', "{}", "{'cluster': {}}", '{"cluster": null}',
          '{"task": null}',
          '{"task": []}', "NaN", "[" * 100_000, '{"a":' * 50_000, '{"cluster": {}, "cluster": []}',
          '{"cluster": {"chief": ["' + "h" * 5000 + ':1"]}}', '\ufeff{}',
          '{"task": {"index": 1e999}}', "\udcff",
          '{"task": {"index": ' + "9" * 5000 + "}}")  # fmt: skip

# Such as stop early, whatever the cluster: with one all but training is refused.
_RUNS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (3, ("--mode=evaluate", "--eval_files=nowhere")),
    (2, ("--mode=evaluate",)),
    (4, ("--mode=predict", "--predict_limit=1", "--predict_output=out.jsonl")),
    (4, ("--mode=train", "--max_steps=4")),
    (2, ("--mode=train_and_evaluate", "--max_steps=4", "--strategy=parameter_server")),
    (1, ("--mode=train", "--max_steps=4", "--strategy=multi_worker_mirrored")),
    (1, ("--mode=train", "--max_steps=4", "--strategy=sync_replicas", "--backup_workers=1")),
    (1, ("--mode=train", "--max_steps=4", "--job_name=worker",
         "--worker_hosts=192.0.2.1:2222,192.0.2.9:1")),
    (1, ("--mode=train", "--max_steps=2", "--model_dir=new")),
)  # fmt: skip


def draw(rng: random.Random, place: Place) -> Drawn:
    """A TF_CONFIG with changes in its text, its structure, its addresses or its task."""
    place.bring("model")
    roll = rng.random()
    text, what = json.dumps(rng.choice(_CONFIGS)), "nothing"
    if roll < 0.1:
        text = what = rng.choice(_TEXTS)
    elif roll < 0.25:
        what, content = draws.damaged(rng, text.encode(), most=2)
        # An environment holds no NUL.
        text = content.replace(b"\0", b"").decode("utf-8", "surrogateescape")
    elif roll < 0.5:
        what, document = draws.changed(rng, copy.deepcopy(rng.choice(_CONFIGS)))
        text = json.dumps(document)
    elif roll < 0.8:
        what, text = _cluster(rng)
    run = rng.choices([run for _, run in _RUNS], [weight for weight, _ in _RUNS])[0]
    # Only modes that train read the time limit of a cluster.
    limit = ["--cluster_timeout_secs=1"] if "train" in run[0] else []
    arguments = ["--flagfile=run.flags", *run, *limit]
    return Drawn(arguments, f"{what[:200]}: {text[:300]}", tf_config=text)


def _cluster(rng: random.Random) -> tuple[str, str]:
    jobs = {
        rng.choice(_TYPES): [
            rng.choice(_ADDRESSES) if rng.random() < 0.15 else _HOST.format(rng.randrange(1, 250))
            for _ in range(rng.choice((0, 1, 1, 2, 3)))
        ]
        for _ in range(rng.randint(1, 4))
    }
    task = {
        "type": rng.choice(_TYPES),
        "index": rng.choice((0, 0, 0, 1, 2, -1, "0", "1", True, None, 0.0, "٣", "²")),
    }
    return "a cluster drawn", json.dumps({"cluster": jobs, "task": task})
