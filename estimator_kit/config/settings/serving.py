"""A server of models, and the files of TensorFlow Serving."""

from __future__ import annotations

from typing import Annotated, ClassVar, Optional

from pydantic import Field

from estimator_kit.config.settings.base import MOST_THREADS, Count, Settings, setting
from feature_specs.entry import PositiveFloat


class ServingSettings(Settings):
    """A server of models, and the files of TensorFlow Serving."""

    heading: ClassVar[str] = "Serving"

    serving_models: tuple[str, ...] = setting(
        (),
        "With --mode=serve and serving_config: the models, each as its name and the folder of "
        "its versions: ads=runs/ads/export/best. Separated by commas.",
    )
    serving_versions: tuple[str, ...] = setting(
        (),
        "With these modes: which versions of a model are served: ads=latest:2, ads=all or "
        "ads=5+7; by default the latest one that is good.",
    )
    serving_labels: tuple[str, ...] = setting(
        (),
        "With these modes: labels of versions, by which requests may name them: "
        "ads:stable=5,ads:canary=7. --serving_versions has to serve both.",
    )
    serving_host: Annotated[str, Field(min_length=1)] = setting(
        "127.0.0.1",
        "With --mode=serve: the address to listen at. There is no authentication and no "
        "encryption; 0.0.0.0 lets every machine ask that reaches this one.",
    )
    serving_grpc_port: Annotated[int, Field(ge=0, le=65535)] = setting(
        8500,
        "The port of gRPC; with --mode=serve 0 takes a free one. The line that is printed says "
        "which.",
    )
    serving_rest_port: Annotated[int, Field(ge=0, le=65535)] = setting(
        8501,
        "The port of REST; the same.",
    )
    serving_threads: Annotated[int, Field(ge=1, le=MOST_THREADS, strict=True)] = setting(
        16,
        "With --mode=serve: requests that are worked on at the same time, of gRPC and of REST "
        "each; others wait.",
    )
    serving_max_request_mib: Annotated[int, Field(ge=1, le=1024)] = setting(
        16,
        "With --mode=serve: MiB that a request may have, and an array of one may claim.",
    )
    serving_poll_secs: PositiveFloat = setting(
        1.0,
        "Seconds between two looks at the folders of versions. A version goes live when its "
        "files did not change between two of them.",
    )
    serving_allowed_hosts: tuple[str, ...] = setting(
        (),
        "With --mode=serve: names by which REST requests may call this server, as "
        "models.example.com, or * for any. Addresses, localhost and --serving_host always may; "
        "other names are refused, so that a web page cannot ask by a name of its own.",
    )
    serving_lame_duck_secs: Annotated[float, Field(ge=0)] = setting(
        5.0,
        "With --mode=serve: seconds after SIGTERM in which requests are still taken, while load "
        "balancers learn that this server is going. A second signal, and Ctrl-C, end it at "
        "once.",
    )
    serving_config_dir: Optional[str] = setting(
        None,
        "With --mode=serving_config: the folder for models.config, batching_parameters.txt, "
        "monitoring.config, docker-compose.yaml and kubernetes.yaml. Files of these names that "
        "are there are written anew.",
    )
    serving_image: Optional[str] = setting(
        None,
        "With --mode=serving_config: the image of TensorFlow Serving with its tag; by default "
        "the release of the installed TensorFlow's line, as tensorflow/serving:2.15.1.",
    )
    serving_batch_rows: Count = setting(
        128,
        "With --mode=serving_config: the most rows that TensorFlow Serving puts together into "
        "one batch; 0 turns that off. Larger requests are split, up to 1000 rows or this "
        "number; it refuses those with more. Requests to predict_raw whose lists differ in "
        "width cannot share a batch.",
    )
    serving_batch_timeout_micros: Count = setting(
        1000,
        "With --mode=serving_config: microseconds that a request waits for others to share a "
        "batch with.",
    )
