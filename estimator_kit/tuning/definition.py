"""What all trials of a search share: settings, and Optuna's sampler and pruner.

Trials with other settings cannot be compared. So the journal keeps the settings that the search
began with (`definition`), and each start compares its own with them (`changes`). Optuna is imported
when a search first needs it, and TensorFlow only by `definition`.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from estimator_kit.config import code_digests
from estimator_kit.config.areas.run import ModelChoice
from estimator_kit.config.modes import Tune, counted
from estimator_kit.tuning.search_file import Search
from estimator_kit.tuning.space import stored
from feature_specs import meaning
from feature_specs.embeddings import pretrained_files
from feature_specs.files import file_systems
from feature_specs.spec import OF_TRAINING, FeatureSpec
from input_pipelines.errors import MissingPackageError
from input_pipelines.reading import files


def optuna() -> Any:
    """The module `optuna`, whose log is quiet: the search writes its own lines.

    Raises:
      MissingPackageError: Optuna is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        raise MissingPackageError(
            "--mode=tune needs the package optuna. Install it with "
            f"`pip install 'estimator-kit[tune]'` ({error})"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def sampler(search: Search, number: int) -> Any:
    """The sampler of a trial. Its seed differs between trials, and not between processes.

    The first trials have the values that the search names for them.
    """
    text = f"{search.seed}:{number}"
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
    samplers = optuna().samplers
    kinds = {"tpe": samplers.TPESampler, "random": samplers.RandomSampler}
    base = kinds[search.sampler](seed=seed)
    if number >= len(search.first):
        return base
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls it experimental.
        return samplers.PartialFixedSampler(stored(search, search.first[number]), base)


def pruner(search: Search, flags: Mapping[str, Any]) -> Any:
    """The pruner of a search, whose trials have these flags."""
    pruners = optuna().pruners
    if search.pruner != "hyperband":  # `study` has the rule of `median`.
        return pruners.NopPruner()
    # Its resources are rows: a trial has its first metric at its first checkpoint.
    rows = _smallest_batch(search, flags)
    first = rows * (flags.get("save_checkpoints_steps") or 1)
    last = rows * (flags.get("max_steps") or 0) if "batch_size" not in search.parameters else 0
    return pruners.HyperbandPruner(first, last if last > first else "auto")


def _smallest_batch(search: Search, flags: Mapping[str, Any]) -> int:
    parameter = search.parameters.get("batch_size")
    if parameter is None:
        return int(flags.get("batch_size", 1))
    return int(min(parameter.choice or parameter.span))


def definition(command: Tune, spec: FeatureSpec, models: Iterable[str] = ()) -> dict[str, Any]:
    """What all trials share, by name: every start of a search needs the same.

    These are the settings that change the metric of a trial. What a setting points at counts, and
    not how it is spelled: the content of the spec, and the files with their sizes and times. The
    user's code of a model counts, and the kit's does not.

    Args:
      command: the search.
      spec: its feature spec.
      models: the models of its trials, as `--model` names them.
    """
    values = {
        name: getattr(command.settings, name)
        for name in sorted(counted("tune", meaning.SEARCH.aspects))
    }
    named = ("model", "corrupt_data_policy", "warm_start_from")
    days = {part: command.data.days_of(part) for part in ("train", "eval")}
    facts: dict[str, Any] = {}
    for flag, part in (("train_files", "train"), ("eval_files", "eval")):
        patterns = command.data.plain(flag)
        paths = files.expand(patterns, flag=f"--{flag}", days=days[part]) if patterns else []
        facts[f"files of --{flag}"] = file_systems.stamps(paths)
    if command.data.train_mix:
        from input_pipelines.reading.mixing import Mix  # It imports TensorFlow.

        mix = Mix.of(command.data.train_mix, days=days["train"], flag="--train_mix")
        facts["files of --train_mix"] = [
            [part.share, file_systems.stamps(part.files)] for part in mix.parts
        ]
    if pretrained_files.columns_with(spec):
        facts["files of pretrained"] = file_systems.stamps(pretrained_files.files_of(spec))
    own = sorted({model for model in models if ":" in model})
    if own:
        from estimator_kit.models import find_model  # It imports TensorFlow.

        facts["code of --model"] = " ".join(
            code_digests.of_model(model, find_model(model))[:16] for model in own
        )
    return {
        **values,
        **{name: getattr(command.settings, name) for name in named},
        "model_params": _params(command.choice, models),
        "meaning of --spec": spec.fingerprint(meaning.SEARCH.aspects, OF_TRAINING)[:16],
        **facts,
    }


def _params(choice: ModelChoice, models: Iterable[str]) -> dict[str, Any]:
    """The values of --model_params, without those that change only what a search may change."""
    from estimator_kit.model.model_params import changes_of  # They import TensorFlow.
    from estimator_kit.models import find_model

    def counts(name: str, kind: Any) -> bool:
        aspects = changes_of(kind, name) if name in kind.model_fields else None
        return not aspects or not aspects.isdisjoint(meaning.SEARCH.aspects)

    kinds = [find_model(model).Params for model in models or [choice.model]]
    return {
        name: value
        for name, value in choice.model_params.items()
        if any(counts(name, kind) for kind in kinds)
    }


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A line for each entry of the search and each setting that differs.

    What only one version of the kit stores contradicts nothing.
    """
    lines = []
    old, new = before["search"], now["search"]
    pairs = [(f"{key}", old.get(key), new.get(key)) for key in new if key != "parameters"]
    for name in dict.fromkeys([*old["parameters"], *new["parameters"]]):
        each = (old["parameters"].get(name), new["parameters"].get(name))
        pairs.append((f"parameters.{name}", *each))
    for name in sorted(before["flags"].keys() & now["flags"].keys()):
        shown = name if " " in name else f"--{name}"
        pairs.append((shown, before["flags"][name], now["flags"][name]))
    for name, was, is_now in pairs:
        if was != is_now:
            lines.append(f"{name}: was {_shown(was)}, is {_shown(is_now)}")
    return lines


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        defaults: tuple[Any, ...] = (None, False, {})
        value = {key: each for key, each in value.items() if each not in defaults}
    return "absent" if value is None else json.dumps(value)
