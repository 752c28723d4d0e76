"""`lineage.json`: what a cycle's model was made from, so that the training can be repeated.

It stores the parent, the data files with their hashes and row counts, the fingerprints of spec and
code, flags, versions, metrics, the gate's verdict, durations, the user and the machine. It has no
secrets: the address of a webhook is in a file, and the flags contain only the path of that file.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from estimator_kit.checkpoints import run_record
from estimator_kit.config import code_digests
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.flags import resolved_flags
from estimator_kit.config.settings import counted
from estimator_kit.config.settings.retraining import STAGES
from estimator_kit.model.model_params import checked_params
from estimator_kit.models import find_model
from estimator_kit.retraining.state import CycleFolder
from feature_specs.files import owners
from feature_specs.meaning import compared
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec


def limits(config: ExperimentConfig, spec: FeatureSpec) -> str:
    """A hash of what accepts or refuses a cycle's data and candidate, and changes no number."""
    values = {
        name: getattr(config, name) for name in sorted(counted("retrain", compared.VERDICT.aspects))
    }
    text = json.dumps([values, spec.meaning(compared.VERDICT.aspects)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def identity(
    config: ExperimentConfig, spec_fingerprint: str, window_digest: str, pretrained: str = ""
) -> str:
    """A hash of window, spec, code and settings. Cycles with the same identity are the same.

    Of the settings, those count that change a result: where a cycle reports, how many threads it
    has and which exports it keeps do not. Parameters of the model count with their defaults.

    Args:
      config: the settings.
      spec_fingerprint: `FeatureSpec.fingerprint`.
      window_digest: `Window.digest`.
      pretrained: the stamps of the files with pretrained vectors, which the fingerprint lacks.
    """
    values = {name: getattr(config, name) for name in counted("retrain", compared.CYCLE.aspects)}
    kind = find_model(config.model)
    params = checked_params(config.model, kind.Params, config.model_params)
    resolved = {
        "model": f"{kind.__module__}.{kind.__qualname__}",
        "model_params": params.model_dump(mode="json"),
        "corrupt_data_policy": config.corrupt_data_policy,
        "min_count": config.min_count,
    }
    settings = json.dumps({**values, **resolved}, sort_keys=True, default=str)
    parts = [window_digest, spec_fingerprint, pretrained, code(config.model), settings]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def code(model: str) -> str:
    """The SHA-256 of the kit's modules, and of the user's modules if the model is one, in hex."""
    digest = hashlib.sha256(code_digests.of_kit().encode())
    if ":" in model:
        digest.update(code_digests.of_model(model, find_model(model)).encode())
    return digest.hexdigest()


def made_with(config: ExperimentConfig) -> dict[str, Any]:
    """What a start stores for the lineage, since a later start may have to write the lineage."""
    return {
        "code": code(config.model),
        "versions": run_record.versions(),
        "flags": resolved_flags(config).splitlines(),
        "seed": config.seed,
    }


def write(folder: CycleFolder, *, owner: owners.Owner, identity: str) -> dict[str, Any]:
    """Writes the lineage of a cycle from the outputs of its finished stages, and returns it."""
    found = {name: folder.read(name) or {} for name in ("window", "train", "gate", "promote")}
    made = found["train"].get("start") or {}
    spec = (folder.read("vocabularies") or {})["spec"]
    document = {
        "cycle": folder.name,
        "identity": identity,
        "parent": {"cycle": made.get("cycle"), "source": made.get("source"), "kind": made["kind"]},
        "data": {
            part: [file for day in found["window"][part] for file in day["files"]]
            for part in ("train", "evaluate")
        },
        "spec": {"path": spec, "fingerprint": parser.load(spec).fingerprint()},
        **found["window"]["made_with"],
        "global_step": found["train"].get("global_step"),
        "metrics": found["train"].get("metrics"),
        "compared": found["gate"].get("metrics"),
        "passed": found["gate"].get("passed"),
        "version": found["promote"].get("version"),
        "seconds": seconds(folder),
        "by": {"user": owner.user, "host": owner.host, "pid": owner.pid},
    }
    folder.write("lineage", document)
    return document


def seconds(folder: CycleFolder) -> dict[str, float]:
    """How long each stage took, in the start that finished it."""
    documents = {stage: folder.read(stage) for stage in STAGES}
    return {name: d["seconds"] for name, d in documents.items() if d and "seconds" in d}
