"""`--mode=serve`: TensorFlow Serving's protocols over a version directory, for development.

    live_versions.py   which versions of a model are live; loads, checks, replaces and closes them
    loaded_model.py    one SavedModel in a session
    answers.py         predict, classify, regress: arrays in, arrays out; warm-up requests
    grpc_server.py     the official gRPC services; health.py has gRPC's health service
    rest_server.py     the REST paths; json_requests.py and json_answers.py have their bodies
    filled_messages.py TensorFlow Serving's messages from arrays
    request_log.py     logs answered requests: the queue and the counts; log_files.py has the files,
                       private_features.py what must not be logged
    server.py          runs both servers until a signal
    config_files.py    `--serving_config_dir`: the files of TensorFlow Serving

grpcio and waitress are the transport. Use TensorFlow Serving for production.
"""
