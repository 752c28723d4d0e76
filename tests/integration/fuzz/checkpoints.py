"""Files of earlier runs: checkpoints, run records, exports, and cycles of retraining."""

from __future__ import annotations

import json
import pathlib
import random

from tests.integration.fuzz import draws
from tests.integration.fuzz.place import Drawn, Place
from tests.integration.fuzz.start import EXPORT

_RUNS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (6, ("--mode=inspect", "--model_dir=model")),
    (4, ("--mode=train", "--max_steps=4")),
    (4, ("--mode=train", "--max_steps=5")),
    (2, ("--mode=train_and_evaluate", "--max_steps=4", "--exporters=best,final")),
    (1, ("--mode=train_and_evaluate", "--max_steps=5", "--exporters=best")),
    (5, ("--mode=evaluate",)),
    (4, ("--mode=predict", "--predict_output=out.jsonl")),
    (1, ("--mode=export",)),
    (3, ("--mode=train", "--model_dir=new", "--warm_start_from=model")),
    (2, ("--mode=train", "--model_dir=new", f"--warm_start_from=model/{EXPORT}")),
    (2, ("--mode=check_data", "--model_dir=model")),
)
_RUNS_OF_EXPORT: tuple[tuple[int, tuple[str, ...]], ...] = (
    (6, ("--mode=inspect", f"--export_dir=model/{EXPORT}")),
    (3, ("--mode=predict", f"--export_dir=model/{EXPORT}", "--predict_output=out.jsonl")),
    (3, ("--mode=predict", f"--export_dir=model/{EXPORT}", "--predict_dir=out", "--spec=")),
    (
        1,
        (
            "--mode=transform",
            f"--export_dir=model/{EXPORT}",
            "--transform=text",
            "--transform_dir=out",
        ),
    ),
    (
        2,
        (
            "--mode=serve",
            "--serving_models=ads=model/export/final",
            "--serving_config_dir=out",
        ),
    ),
)
_RUNS_OF_RETRAINING: tuple[tuple[int, tuple[str, ...]], ...] = (
    (6, ("--mode=inspect", "--model_dir=model")),
    (3, ("--mode=rollback", "--model_dir=model", "--to=1")),
    (3, ("--flagfile=retrain.flags",)),
    (2, ("--mode=inspect", "--model_dir=model/cycles/0001/train")),
    (1, ("--flagfile=retrain.flags", "--mode=retrain", "--cycle=1")),
)

_SELDOM_READ = {
    "flags.txt", "versions.json", "curl.sh", "_LOCK", "tf_serving_warmup_requests", "metrics.json",
    "model.ckpt-0.index", "model.ckpt-0.data-00000-of-00001", "evaluation-evaluate.json",
}  # fmt: skip


def draw(rng: random.Random, place: Place) -> Drawn:
    """A folder in which up to three files are damaged, changed or removed."""
    roll = rng.random()
    if roll < 0.65:
        folder, runs = place.bring("model"), _RUNS
    elif roll < 0.85:
        folder, runs = place.bring("model") / EXPORT, _RUNS_OF_EXPORT
    else:
        for path in (place.base / "retraining").iterdir():
            if path.is_dir():
                place.bring(f"retraining/{path.name}").rename(place.folder / path.name)
            else:
                place.write(path.name, path.read_bytes())
        folder, runs = place.folder / "model", _RUNS_OF_RETRAINING
    run = rng.choices([run for _, run in runs], [weight for weight, _ in runs])[0]
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if runs is _RUNS:  # Other cases damage the exports.
        files = [path for path in files if "final" not in path.parts]
    weights = [1 if _is_seldom_read(path.relative_to(folder)) else 12 for path in files]
    chosen = rng.choices(files, weights, k=rng.choice((0, 1, 1, 2, 2, 3)))
    done = [_damage(rng, folder, path) for path in dict.fromkeys(chosen)]
    first = () if runs is _RUNS_OF_RETRAINING else ("--flagfile=run.flags",)
    return Drawn([*first, *run], "; ".join(done) or "nothing")


def _is_seldom_read(name: pathlib.Path) -> bool:
    of_old_training = "cycles" in name.parts and "train" in name.parts
    return name.name in _SELDOM_READ or of_old_training or "facts" in name.parts


def _damage(rng: random.Random, folder: pathlib.Path, path: pathlib.Path) -> str:
    name = path.relative_to(folder)
    roll = rng.random()
    if roll < 0.15:
        path.unlink()
        if rng.random() < 0.3:
            path.mkdir()
            return f"{name} a folder"
        return f"{name} removed"
    if path.suffix == ".json" and roll < 0.8:
        what, document = draws.changed(rng, json.loads(path.read_text()))
        path.write_text(json.dumps(document))
    elif path.name == "checkpoint" and roll < 0.6:
        what = rng.choice(('model_checkpoint_path: ""', 'model_checkpoint_path: "model.ckpt-9"',
                           "{", "x: 1",
                           'model_checkpoint_path: "model.ckpt-2"', 'model_checkpoint_path: "."',
                           'model_checkpoint_path: "model.ckpt-4',
                           'all_model_checkpoint_paths: "model.ckpt-4"',
                           'model_checkpoint_path: "\\377"',
                           'model_checkpoint_path: "model.ckpt-4.index"',
                           'model_checkpoint_path: "feature_spec"',
                           'model_checkpoint_path: 4'))  # fmt: skip
        path.write_text(what + "\n")
    else:
        what, content = draws.damaged(rng, path.read_bytes())
        path.write_bytes(content)
    return f"{name}: {what}"
