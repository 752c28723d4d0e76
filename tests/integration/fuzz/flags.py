"""Command lines and flagfiles with dropped, doubled, misspelled and wrong flags, or other modes."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from absl import flags as absl_flags

from estimator_kit.config.flags import define_flags
from estimator_kit.config.modes import MODES, settings_of
from tests.integration.fuzz import draws
from tests.integration.fuzz.place import Drawn, Place
from tests.integration.fuzz.start import EXPORT

# Correct command lines, and how often each is used.
_RUNS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (8, ("--mode=validate",)),
    (2, ("--mode=validate", "--validate_rows=10")),
    (1, ("--mode=validate", "--baseline=eval.tfrecord")),
    (6, ("--mode=check_data",)),
    (4, ("--mode=analyze", "--spec=", "--labels=click", "--analysis_dir=out")),
    (5, ("--mode=convert", "--spec=", "--convert_files=table.csv", "--convert_dir=out")),
    (2, ("--mode=convert", "--convert_files=table.jsonl", "--convert_dir=out")),
    (1, ("--mode=convert", "--spec=", "--convert_files=table.parquet", "--convert_dir=out",
         "--split=key:user", "--split_eval=0.3")),
    (4, ("--mode=evaluate",)),
    (4, ("--mode=predict", "--predict_output=out.jsonl")),
    (2, ("--mode=predict", f"--export_dir=model/{EXPORT}", "--predict_output=out.tfrecord")),
    (2, ("--mode=predict", f"--export_dir=model/{EXPORT}", "--predict_dir=out", "--spec=")),
    (2, ("--mode=inspect", "--model_dir=model")),
    (3, ("--mode=inspect", f"--export_dir=model/{EXPORT}")),
    (6, ("--mode=train", "--model_dir=new")),
    (1, ("--mode=train", "--max_steps=6")),
    (1, ("--mode=train_and_evaluate", "--model_dir=new", "--exporters=")),
    (1, ("--mode=export",)),
    (2, ("--mode=schema", "--schema_file=out.pbtxt")),
    (1, ("--mode=transform", f"--export_dir=model/{EXPORT}", "--transform=text",
         "--transform_dir=out")),
    (1, ("--mode=inspect", "--model_dir=retraining/model")),
    (1, ("--mode=rollback", "--model_dir=retraining/model", "--to=1")),
    (1, ("--mode=promote", "--model_dir=retraining/model", "--to=1")),
    (1, ("--mode=monitor", "--model_dir=retraining/model", "--request_logs=logs/*")),
    (1, ("--mode=retrain", "--model_dir=retraining/model", "--cycle=7")),
)  # fmt: skip

# These wait until they are stopped, start processes, connect to other machines, or write much.
_LEFT_OUT = {
    "serve", "data_service",
}  # fmt: skip
_NOT_CHANGED = {"generate_default_data", "launch_local", "beam_options", "webhook_url_file"}

# Larger numbers, except the very largest, would make trainings that take too long.
_LENGTHS = {"max_steps", "epochs"}

# Values that are valid or nearly valid. They get further than a wrong number.
_LIKELY: dict[str, tuple[str, ...]] = {
    "model": ("linear", "dnn", "wide_deep", "fm", "deepfm", "dcn", "mmoe", "din", "two_tower",
              "esmm",
              "os:path", "json:JSONDecoder", "json:", ":json", "no.such:X", "tests:ROOT", "lineär",
              "estimator_kit.model.model_fn:ModelFn", "a:b:c", ".:x", "json.decoder:JSONDecoder"),
    "model_params": ("", "learning_rate=0.1", "learning_rate=-1", "learning_rate=nan",
                     "optimizer=adam",
                     "optimizer=x", "optimizer={adam: {beta1: 2}}", "hidden_units=[4]",
                     "hidden_units=[0]",
                     "hidden_units=4", "clip_norm=1", "clip_norm=0", "x", "=", "a b=1", "l2=[",
                     "accumulate=2",
                     "accumulate=0", "moving_average=0.9", "moving_average=1", "schedule=x",
                     "combine=gradnorm",
                     "hidden_units=[99999999999999]", "learning_rate=1e300", "dropout=1",
                     "activation=relu",
                     "activation=nothing"),
    "exporters": ("latest", "best", "best_k:2", "step:3", "latest,final", "best,best", "final,",
                  "none"),
    "best_metric": ("auc/click", "loss", "loss/click", "auc", "auc/buy", "recall/click"),
    "early_stopping_metric": ("auc/click", "loss", "auc"),
    "strategy": ("parameter_server", "sync_replicas", "mirrored", "multi_worker_mirrored"),
    "job_name": ("chief", "worker", "ps", "evaluator"),
    "worker_hosts": ("192.0.2.1:1", "192.0.2.1:1,192.0.2.2:2", "192.0.2.1", "192.0.2.1:0", ":1",
                     ""),
    "ps_hosts": ("192.0.2.3:1", "192.0.2.1:1", "[::1]", ","),
    "launch_local": ("x", "chief:2", "chief:", "worker:1", "chief:1,evaluator:1", ":",
                     "chief:9999"),
    "beam_options": ("--runner=", "x", "'", "--runner=NoSuchRunner", "--",
                     "--runner=DirectRunner -x"),
    "train_mix": ("train-0*=1,train-1*=2", "train-*=0", "train-*=10001", "=1", "train-*",
                  "train-*=x"),
    "keep_negatives": ("0.5", "click=0.5", "buy=0.5", "0", "1", "2", "click=", "=0.5", "x", "nan"),
    "train_days": ("2026-01-07", "7d..2026-01-07", "x", "2026-01-01..2026-01-07"),
    "corrupt_data_policy": ("skip_record", "quarantine"),
    "warm_start_from": ("model", f"model/{EXPORT}", "nowhere", "model/model.ckpt-2", "spec.yaml",
                        "model/x"),
    "warm_start_vars": (".*", "linear/.*", "(", "nothing", ""),
    "warm_start_rename": ("a=b", "(=b", "linear/(.*)=linear/\\2", "x=", "(.*)=\\1", "(.*)=\\g<x>"),
    "default_signature": ("predict_raw", "predict/click", "classify/click", "regress/click",
                          "predict/x"),
    "top_k": ("3", "0", "x"),
    "predict_outputs": ("click/logistic", "click/logistic,click/logits", "x", "", "click/logits,"),
    "keep_columns": ("user", "row,user", "x", "user,user", "click/logistic"),
    "csv_columns": ("row,price", "row,row", "a", ","),
    "csv_delimiter": (",", "\\t", ";", "ab", "\n", '"', "\\"),
    "csv_missing": ("?", "None,NA", "", "rome"),
    "csv_list_separator": ("|", "o", ",", "\n", "", '"'),
    "csv_comment": ("#", "r", "", "ab"),
    "step_columns": ("tags", "x", "tags,tags", "price"),
    "sequence_by": ("user", "x", "tags", ""),
    "order_by": ("row", "price", "user", "x"),
    "sequence_columns": ("row", "user,row", "tags", "x", "row,row"),
    "split": ("key:user", "key:tags", "time:row", "time:price", "rows", "x", ""),
    "split_eval": ("0.3", "3", "2026-01-01", "x", ""),
    "split_test": ("0.2", "0.8", "5", "2026-01-02", "x", ""),
    "derive_labels": ("a=user:equals:x", "a=price:above:1", "row=row:in:1|2", "a=row:equals:x",
                      "a=tags:above:1", "a=b", "="),
    "transform": ("freeze", "optimize", "text", "binary", "item_vectors", "item_index"),
    "serving_models": ("ads=model/export/best", "ads=x,ads=y", "ads", "=x", "ads=", "../x=y",
                       "..=model"),
    "serving_versions": ("ads=all", "ads=latest:2", "ads=1+2", "x=all", "ads=latest:0", "ads=1+1"),
    "serving_labels": ("ads:stable=1", "ads:x=99999999999999999999", "x:y=1", "ads:stable"),
    "stage_limits": ("train=1", "x=1", "train=0", "train=1e9", "train=" + "9" * 400),
    "input_cache_dir": ("cache", "spec.yaml", "model", "cache/cache"),
    "predict_dir": ("out", "model", ".", "spec.yaml"),
    "predict_output": ("out.jsonl", "out.tfrecord", "out.tfrecord.gz", "out.csv", ".jsonl",
                       "eval.tfrecord",
                       "spec.yaml", "model", "model/x.jsonl", "x/y.jsonl"),
    "log_every_secs": ("0.001", "1e300", "1e-300"),
    "cycle": ("1", "0001", "x", "٣", "²"),
    "as_of": ("2026-01-03", "20260103", "2026-W01-1", "x"),
}  # fmt: skip

# Flags whose values are paths, and paths that are of another kind or cannot exist.
_OF_PATHS = ("_dir", "_file", "_path", "_output", "_files", "_statistics", "spec")
_PATHS = ("out", "out/x/y", "words.txt", "words.txt/x", "words.txt/x.jsonl", "model", "model/x",
          "nofs://x", "nofs://x.jsonl", "[a]", "a\\b", ".", "x" * 300,
          "out/" + "y" * 300 + ".jsonl", "a b", "ä/é", "*", "out*", "[", "model/checkpoint",
          "spec.yaml/x.jsonl",
          "out.jsonl/", "out//x", "./out", "train-0.tfrecord", "train-0.tfrecord,train-0.tfrecord",
          "model/export",
          "model/feature_spec/spec.json", "model/result.json", "table.csv",
          "table.parquet")  # fmt: skip


def draw(rng: random.Random, place: Place) -> Drawn:
    """A correct command line with up to three changes, in it or in the flagfile."""
    run = rng.choices([run for _, run in _RUNS], [weight for weight, _ in _RUNS])[0]
    text = " ".join(run)
    if "model/" in text or run[0] in ("--mode=evaluate", "--mode=predict", "--mode=inspect",
                                      "--mode=export") or "--max_steps=6" in run:  # fmt: skip
        place.bring("model")
    if "retraining/" in text:
        place.bring("retraining")
    arguments = ["--flagfile=run.flags", *run]
    done = []
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3))):
        done.append(_changed(rng, place, arguments))
    arguments = [draws.safe(argument) for argument in arguments]
    # So that nothing waits long for other machines.
    limits = ("cluster_timeout_secs",)
    arguments += [f"--{name}=1" for name in limits if name in _read_by(arguments)]
    return Drawn(arguments, "; ".join(done) or "nothing")


def _read_by(arguments: Iterable[str]) -> frozenset[str]:
    """The settings that the mode of a command line reads; all where it names none that there is."""
    modes = [a.partition("=")[2] for a in arguments if a.startswith("--mode=")]
    return settings_of(modes[-1] if modes and modes[-1] in MODES else "validate")


def _changed(rng: random.Random, place: Place, arguments: list[str]) -> str:
    roll = rng.random()
    at = rng.randrange(len(arguments)) if arguments else 0
    if roll < 0.08 and arguments:
        return f"dropped {arguments.pop(at)!r}"
    if roll < 0.14 and arguments:
        name, equals, value = arguments[at].partition("=")
        arguments[at] = f"--{draws.misspelled(rng, name[2:])}{equals}{value}"
        return "misspelled"
    if roll < 0.18:
        arguments.insert(at, rng.choice(("--", "-", "x", "--=x", "---mode=train", "", "--nomode",
                                         "--shuffle",
                                         "--noshuffle=1", "--flagfile", "--flagfile=",
                                         "--flagfile=nowhere",
                                         "--flagfile=data", "--flagfile=spec.yaml", "--undefok=x",
                                         "--undefok",
                                         "--mode", "--spec", "-mode=train", "--help=x", "--helpxml",
                                         "--only_check_args",
                                         "--flagfile=train-0.tfrecord", "--flagfile=.",
                                         "--tryfromenv=HOME",
                                         "--mode train", "@run.flags")))  # fmt: skip
        return "an invalid argument"
    if roll < 0.26:
        what, content = draws.damaged(rng, place.read("run.flags"))
        place.write("run.flags", _without_harm(content))
        return f"run.flags: {what}"
    # The program refuses all other flags at once, because the mode does not read them.
    flag = _flag(rng, _read_by(arguments) if rng.random() < 0.9 else frozenset(_ALL))
    if roll < 0.32:
        content = place.read("run.flags") + (flag + "\n").encode("utf-8", "surrogateescape")
        place.write("run.flags", content)
        return f"a line of run.flags: {flag[:100]!r}"
    # The last of two counts.
    arguments.insert(rng.randint(at, len(arguments)), flag)
    return f"added {flag[:100]!r}"


def _without_harm(content: bytes) -> bytes:
    """A damaged flagfile, its training no longer than it was."""
    text = content.decode("utf-8", "surrogateescape")
    lines = [line for line in text.split("\n") if "max_steps" not in line]
    return draws.safe("\n".join([*lines, "--max_steps=2"])).encode("utf-8", "surrogateescape")


def _flag(rng: random.Random, names: frozenset[str]) -> str:
    name = rng.choice(sorted(names - _NOT_CHANGED))
    if rng.random() < 0.5:
        name = rng.choice([name, *(likely for likely in _LIKELY if likely in names)])
    flag = _ALL[name]
    if name == "mode":
        return f"--mode={rng.choice(sorted(set(MODES) - _LEFT_OUT))}"
    if name in _NOT_CHANGED:
        return f"--{name}={rng.choice(_LIKELY[name])}"
    if flag.boolean:
        return rng.choice((f"--{name}", f"--no{name}", f"--{name}={draws.value(rng)}"))
    if name.endswith(_OF_PATHS) and rng.random() < 0.4:
        value = rng.choice(_PATHS)
    elif name in _LIKELY and rng.random() < 0.7:
        value = rng.choice(_LIKELY[name])
    elif flag.flag_type() in ("int", "float") and rng.random() < 0.8:
        numbers = draws.NUMBERS if name in _LENGTHS else (*draws.NUMBERS, *draws.LARGE)
        value = rng.choice(numbers)
    elif flag.flag_type() == "string enum" and rng.random() < 0.7:
        value = rng.choice(flag.parser.enum_values)
    else:
        value = draws.value(rng)
    return draws.safe(f"--{name}={value}")


def _all_flags() -> dict[str, Any]:
    values = absl_flags.FlagValues()
    define_flags(values)
    return {name: values[name] for name in values if not name.startswith("help")}


_ALL = _all_flags()
