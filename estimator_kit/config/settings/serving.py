"""A server of models, and the files that TensorFlow Serving needs."""

from __future__ import annotations

from typing import Annotated, ClassVar, Optional

from pydantic import Field

from estimator_kit.config.settings.base import Count, Settings, setting


class ServingSettings(Settings):
    """A server of models, and the files that TensorFlow Serving needs."""

    heading: ClassVar[str] = "Serving"

    serving_models: tuple[str, ...] = setting(
        (),
        "The models to serve, each with its name and the folder of its versions: "
        "ads=runs/ads/export/best. Separate models by commas.",
        changes="nothing",
    )
    serving_versions: tuple[str, ...] = setting(
        (),
        "The versions of a model to serve: ads=latest:2, ads=all or ads=5+7. By default the "
        "latest version that loads.",
        changes="nothing",
    )
    serving_labels: tuple[str, ...] = setting(
        (),
        "Labels that requests can use instead of a version: ads:stable=5,ads:canary=7. "
        "--serving_versions must include these versions.",
        changes="nothing",
    )
    serving_host: Annotated[str, Field(min_length=1)] = setting(
        "127.0.0.1",
        "The address to listen on. The server has no authentication and no encryption; with "
        "0.0.0.0 or ::, which both mean all IPv4 and IPv6 addresses, every machine that reaches "
        "this one can send requests.",
        changes="nothing",
    )
    serving_grpc_port: Annotated[int, Field(ge=0, le=65535)] = setting(
        8500,
        "The port for gRPC; 0 takes a free port, and a line of output says which.",
        changes="nothing",
    )
    serving_rest_port: Annotated[int, Field(ge=0, le=65535)] = setting(
        8501,
        "The port for REST; 0 takes a free port, and a line of output says which.",
        changes="nothing",
    )
    serving_config_dir: Optional[str] = setting(
        None,
        "The folder for models.config, batching_parameters.txt and monitoring.config. Existing "
        "files with these names are replaced.",
        changes="nothing",
    )
    serving_batch_rows: Count = setting(
        128,
        "The most rows that TensorFlow Serving joins into one batch; 0 turns batching off. "
        "TensorFlow Serving splits larger requests, up to 1000 rows or this number, and "
        "refuses requests with more rows. If the width of an output differs between batches, or "
        "a model cannot be read, it splits no request, and joins up to 1000 rows or this number. "
        "Requests to predict_raw whose lists differ in width cannot share a batch.",
        changes="nothing",
    )
