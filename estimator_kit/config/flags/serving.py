"""The flags of serving, and of TensorFlow Serving's own files."""

from __future__ import annotations

from estimator_kit.config.flags.definer import Definer


def define_flags(define: Definer) -> None:
    define.listing(
        "serving_models",
        "With --mode=serve and serving_config: the models, each as its name and the folder of its "
        "versions: ads=runs/ads/export/best. Separated by commas.",
    )
    define.listing(
        "serving_versions",
        "With these modes: which versions of a model are served: ads=latest:2, ads=all or "
        "ads=5+7; by default the latest one that is good.",
    )
    define.listing(
        "serving_labels",
        "With these modes: labels of versions, by which requests may name them: "
        "ads:stable=5,ads:canary=7. --serving_versions has to serve both.",
    )
    define.text(
        "serving_host",
        "With --mode=serve: the address to listen at. There is no authentication and no "
        "encryption; 0.0.0.0 lets every machine ask that reaches this one.",
    )
    define.integer(
        "serving_grpc_port",
        "The port of gRPC; with --mode=serve 0 takes a free one. The line that is printed says "
        "which.",
    )
    define.integer(
        "serving_rest_port",
        "The port of REST; the same.",
    )
    define.integer(
        "serving_threads",
        "With --mode=serve: requests that are worked on at the same time, of gRPC and of REST "
        "each; others wait.",
    )
    define.integer(
        "serving_max_request_mib",
        "With --mode=serve: MiB that a request may have, and an array of one may claim.",
    )
    define.number(
        "serving_poll_secs",
        "Seconds between two looks at the folders of versions. A version goes live when its files "
        "did not change between two of them.",
    )
    define.listing(
        "serving_allowed_hosts",
        "With --mode=serve: names by which REST requests may call this server, as "
        "models.example.com, or * for any. Addresses, localhost and --serving_host always may; "
        "other names are refused, so that a web page cannot ask by a name of its own.",
    )
    define.number(
        "serving_lame_duck_secs",
        "With --mode=serve: seconds after SIGTERM in which requests are still taken, while load "
        "balancers learn that this server is going. A second signal, and Ctrl-C, end it at once.",
    )
    define.text(
        "serving_config_dir",
        "With --mode=serving_config: the folder for models.config, batching_parameters.txt, "
        "monitoring.config, docker-compose.yaml and kubernetes.yaml. Files of these names that are "
        "there are written anew.",
    )
    define.text(
        "serving_image",
        "With --mode=serving_config: the image of TensorFlow Serving with its tag; by default the "
        "release of the installed TensorFlow's line, as tensorflow/serving:2.15.1.",
    )
    define.integer(
        "serving_batch_rows",
        "With --mode=serving_config: the most rows that TensorFlow Serving puts together into one "
        "batch; 0 turns that off. Larger requests are split, up to 1000 rows or this number; it "
        "refuses those with more. Requests to predict_raw whose lists differ in width cannot share "
        "a batch.",
    )
    define.integer(
        "serving_batch_timeout_micros",
        "With --mode=serving_config: microseconds that a request waits for others to share a "
        "batch with.",
    )
