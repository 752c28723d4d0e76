"""All settings of the kit: one module for each area. No setting is declared anywhere else.

An area has the settings that the same commands read, and the rules between them.
"""

from __future__ import annotations

from estimator_kit.config.areas.analysis import Analysis
from estimator_kit.config.areas.base import Settings
from estimator_kit.config.areas.cluster import Cluster, DataService
from estimator_kit.config.areas.conversion import Conversion
from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.exports import Exports
from estimator_kit.config.areas.looking import Looking
from estimator_kit.config.areas.monitoring import Monitoring
from estimator_kit.config.areas.prediction import Prediction
from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.reading import Reading
from estimator_kit.config.areas.retraining import Retraining
from estimator_kit.config.areas.run import FromExport, ModelChoice, Run
from estimator_kit.config.areas.serving import Serving
from estimator_kit.config.areas.tables import Tables
from estimator_kit.config.areas.training import Training, WarmStart
from estimator_kit.config.areas.transforming import Transforming
from estimator_kit.config.areas.tuning import Tuning
from estimator_kit.config.areas.watching import Watching

# In the order of `--helpfull`.
AREAS: tuple[type[Settings], ...] = (
    Program,
    Run,
    ModelChoice,
    FromExport,
    Data,
    Reading,
    DataService,
    Training,
    WarmStart,
    Watching,
    Exports,
    Tuning,
    Prediction,
    Looking,
    Transforming,
    Serving,
    Tables,
    Analysis,
    Conversion,
    Retraining,
    Monitoring,
    Cluster,
)


class AllSettings(
    Cluster,
    Monitoring,
    Retraining,
    Conversion,
    Analysis,
    Tables,
    Serving,
    Transforming,
    Looking,
    Prediction,
    Tuning,
    Exports,
    Watching,
    WarmStart,
    Training,
    DataService,
    Reading,
    Data,
    FromExport,
    ModelChoice,
    Run,
    Program,
):
    """Every setting: `rules` read it, and `ExperimentConfig` checks it.

    pydantic takes the fields of the last base first, so the bases are in reverse order of `AREAS`.
    """
