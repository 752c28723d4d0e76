"""`lineage.json`: what a cycle's model was made from, so that the training can be repeated.

It stores the parent, the data files with their hashes and row counts, the fingerprints of spec and
code, flags, versions, metrics, the gate's verdict, durations, the user and the machine. It has no
secrets: the address of a webhook is in a file, and the flags contain only the path of that file.
"""

from __future__ import annotations

import hashlib
import json
from typing import Optional

from pydantic import Field

from estimator_kit.checkpoints import run_record
from estimator_kit.config import code_digests
from estimator_kit.config.areas import AllSettings
from estimator_kit.config.areas.retraining import STAGES
from estimator_kit.config.flags import resolved_flags
from estimator_kit.config.modes import counted
from estimator_kit.model.model_params import checked_params
from estimator_kit.models import find_model
from estimator_kit.retraining.cycle_files import CycleFile, CycleFolder, StageFile
from estimator_kit.retraining.cycle_versions import Promoted
from estimator_kit.retraining.facts import FileFacts
from estimator_kit.retraining.gate_stage import Both, Judged
from estimator_kit.retraining.training_stage import Trained
from estimator_kit.retraining.vocabularies import Vocabularies
from estimator_kit.retraining.window import CycleWindow, MadeWith
from feature_specs import meaning
from feature_specs.files import documents, owners
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec


class Parent(documents.Part):
    """The model that a training started from; see `training_stage.Start`."""

    cycle: Optional[str] = None
    source: Optional[str]
    kind: str = ""


class Data(documents.Part):
    """The files of the periods for training and for evaluation."""

    train: list[FileFacts]
    evaluate: list[FileFacts]


class Spec(documents.Part):
    """The spec of a cycle, and its `FeatureSpec.fingerprint`."""

    path: str
    fingerprint: str


class By(documents.Part):
    """The process that finished the cycle."""

    user: str
    host: str
    pid: int


class RolledBack(documents.Part):
    """What monitoring did with the model of a cycle.

    Attributes:
      version: the version that it rolled back.
      by: the version that replaced it.
      at: when, in seconds since 1970.
      reason: the conditions that were broken.
    """

    version: int
    by: int
    at: Optional[float] = None
    reason: Optional[str] = None


class AsCanary(documents.Part):
    """What became of a model that was published as a canary.

    Attributes:
      version: the canary.
      promoted_as: the newest version that went live as a copy of it.
      superseded_by: the canary that replaced it before it was promoted.
    """

    version: int
    promoted_as: Optional[int] = None
    superseded_by: Optional[int] = None


class Lineage(CycleFile):
    """What a cycle's model was made from.

    Attributes:
      global_step, metrics: of the training.
      compared, passed: the metrics of the gate, and its verdict.
      rolled_back: see `RolledBack`; None if the model was never rolled back.
      canary: see `AsCanary`; None if the model was never a canary.
    """

    NAME = "lineage.json"
    cycle: str
    identity: str = ""
    parent: Parent
    data: Data
    spec: Spec
    code: str
    versions: dict[str, str]
    flags: list[str]
    seed: Optional[int] = None
    global_step: Optional[int] = None
    metrics: Optional[dict[str, Optional[float]]]
    compared: Optional[dict[str, Both]] = None
    passed: Optional[bool] = None
    version: Optional[int] = None
    seconds: dict[str, float] = Field({})
    by: Optional[By] = None
    rolled_back: Optional[RolledBack] = None
    canary: Optional[AsCanary] = None


def verdict_digest(config: AllSettings, spec: FeatureSpec) -> str:
    """A hash of what accepts or refuses a cycle's data and candidate, and changes no number."""
    values = {
        name: getattr(config, name) for name in sorted(counted("retrain", meaning.VERDICT.aspects))
    }
    text = json.dumps([values, spec.meaning(meaning.VERDICT.aspects)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def identity(
    config: AllSettings, spec_fingerprint: str, window_digest: str, pretrained: str = ""
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
    values = {name: getattr(config, name) for name in counted("retrain", meaning.CYCLE.aspects)}
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


def made_with(config: AllSettings) -> MadeWith:
    """What a start stores for the lineage, since a later start may have to write the lineage."""
    return MadeWith(
        code=code(config.model),
        versions=run_record.versions(),
        flags=resolved_flags(config).splitlines(),
        seed=config.seed,
    )


def write(folder: CycleFolder, *, owner: owners.Owner) -> None:
    """Writes the lineage of a cycle from the outputs of its finished stages."""
    window, trained = folder.output(CycleWindow), folder.output(Trained)
    start, judged = trained.start, folder.output(Judged)
    spec = folder.output(Vocabularies).spec
    folder.save(
        Lineage(
            cycle=folder.name,
            identity=window.identity,
            parent=Parent(cycle=start.cycle, source=start.source, kind=start.kind),
            data=Data(train=window.train_files, evaluate=window.eval_files),
            spec=Spec(path=spec, fingerprint=parser.load(spec, stored=True).fingerprint()),
            **dict(window.made_with),
            global_step=trained.global_step,
            metrics=trained.metrics,
            compared=judged.metrics,
            passed=judged.passed,
            version=folder.output(Promoted).version,
            seconds=seconds(folder),
            by=By(user=owner.user, host=owner.host, pid=owner.pid),
        )
    )


def seconds(folder: CycleFolder) -> dict[str, float]:
    """How long each stage took, in the start that finished it."""
    files = {stage: StageFile.load(folder.at(f"{stage}.json")) for stage in STAGES}
    return {stage: file.seconds for stage, file in files.items() if file is not None}
