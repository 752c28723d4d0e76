"""`--mode=serve`: TensorFlow Serving's protocols over a version directory, for development.

    versions.py        which versions of a model are live; loads, checks, replaces and closes them
    loaded_model.py    one SavedModel in a session
    warm_up.py         the requests that a version must answer before it is live
    answers.py         predict, classify, regress: arrays in, arrays out
    grpc_service.py    the official gRPC services; grpc_server.py is their server, with gRPC's
                       health service and reflection
    rest_app.py        the REST paths; json_requests.py and json_answers.py have their bodies
    server.py          runs both servers until a signal; rest_server.py is the REST server
    config_files.py    `--serving_config_dir`: the files of TensorFlow Serving

grpcio and waitress are the transport. Use TensorFlow Serving for production.
"""
