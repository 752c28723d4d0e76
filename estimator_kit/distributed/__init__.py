"""The tasks of a cluster: how they start, find each other, come back after a failure, and end.

    tasks             which of these lives a process leads; here a training starts
    chief             a trainer of `training` that is told of by marks
    worker            the life of a worker
    parameter_server  chief and worker whose variables are on the ps
    collective        chief and worker with all variables each (multi_worker_mirrored)
    all_reduce        several devices of one process (mirrored)
    servers           the life of a ps
    evaluation        the life of an evaluator
    sessions          one training after the other, whenever a ps was lost
    placement         which ps keeps which variable
    marks             the files in model_dir by which tasks tell each other that training is over
    watch             a thread that looks at them
    waiting           waiting for other tasks, and saying for whom
    listening         servers that take connections at their address in TF_CONFIG alone
    launcher          a cluster on this machine, for development

The engine is TensorFlow's own: its gRPC servers, parameter servers and collectives. Nothing here
sends a message; tasks know of each other by who can be reached, and by files in the model
directory, which all of them have to see.
"""
