"""All settings of the kit: one module for each area. No setting is declared anywhere else."""

from __future__ import annotations

from collections.abc import Iterable

from estimator_kit.config.modes import EVERY_MODE_READS, EVERYTHING, MODES
from estimator_kit.config.settings.analysis import AnalysisSettings
from estimator_kit.config.settings.bad_data import BadDataSettings
from estimator_kit.config.settings.base import Settings, changes_of
from estimator_kit.config.settings.cluster import ClusterSettings
from estimator_kit.config.settings.computing import ComputeSettings
from estimator_kit.config.settings.conversion import ConversionSettings
from estimator_kit.config.settings.data import DataSettings
from estimator_kit.config.settings.data_service import DataServiceSettings
from estimator_kit.config.settings.evaluation import EvaluationSettings
from estimator_kit.config.settings.exports import ExportSettings
from estimator_kit.config.settings.input_cache import InputCacheSettings
from estimator_kit.config.settings.machine import MachineSettings
from estimator_kit.config.settings.prediction import PredictionSettings
from estimator_kit.config.settings.profiling import ProfileSettings
from estimator_kit.config.settings.reporting import ReportSettings
from estimator_kit.config.settings.retraining import RetrainingSettings
from estimator_kit.config.settings.run import RunSettings
from estimator_kit.config.settings.serving import ServingSettings
from estimator_kit.config.settings.tables import TableSettings
from estimator_kit.config.settings.training import TrainingSettings
from estimator_kit.config.settings.transforming import TransformSettings
from estimator_kit.config.settings.tuning import TuningSettings
from estimator_kit.config.settings.validation import ValidationSettings

# In the order of `--helpfull`.
AREAS: tuple[type[Settings], ...] = (
    RunSettings,
    DataSettings,
    BadDataSettings,
    InputCacheSettings,
    DataServiceSettings,
    TrainingSettings,
    ComputeSettings,
    ProfileSettings,
    EvaluationSettings,
    ExportSettings,
    ReportSettings,
    TuningSettings,
    PredictionSettings,
    TransformSettings,
    ServingSettings,
    TableSettings,
    AnalysisSettings,
    ConversionSettings,
    ValidationSettings,
    RetrainingSettings,
    ClusterSettings,
    MachineSettings,
)


class AllSettings(
    MachineSettings,
    ClusterSettings,
    RetrainingSettings,
    ValidationSettings,
    ConversionSettings,
    AnalysisSettings,
    TableSettings,
    ServingSettings,
    TransformSettings,
    PredictionSettings,
    TuningSettings,
    ReportSettings,
    ExportSettings,
    EvaluationSettings,
    ProfileSettings,
    ComputeSettings,
    TrainingSettings,
    DataServiceSettings,
    InputCacheSettings,
    BadDataSettings,
    DataSettings,
    RunSettings,
):
    """Every setting: `rules` read it, and `ExperimentConfig` checks it.

    pydantic takes the fields of the last base first, so the bases are in reverse order of `AREAS`.
    """


def settings_of(mode: str) -> frozenset[str]:
    """The names of the settings that a mode reads."""
    entry = MODES[mode]
    if entry.reads == EVERYTHING:
        return frozenset(AllSettings.model_fields)
    areas = {area.__name__: area.model_fields for area in AREAS}
    reads = (*EVERY_MODE_READS, *entry.reads)
    return frozenset(name for item in reads for name in areas.get(item, (item,))).difference(
        entry.but_not
    )


def modes_that_read(name: str) -> list[str]:
    """The modes that read a setting."""
    return [mode for mode in MODES if name in settings_of(mode)]


def counted(mode: str, aspects: Iterable[str]) -> frozenset[str]:
    """The settings of a mode whose own values change one of these aspects.

    Settings that only point at something, such as files, are not among them: what they point at
    counts.
    """
    found = {name: changes_of(AllSettings, name) for name in settings_of(mode)}
    return frozenset(n for n, c in found.items() if not c.named and c.aspects & {*aspects})
