"""The tasks of a cluster: how they start, find each other, come back after a failure, and end.

    listening   servers that take connections at their address in TF_CONFIG alone
    waiting     waiting for other tasks, and saying for whom
    marks       the files in model_dir by which tasks tell each other that training is over
    watch       a thread that looks at them
    placement   which parameter server keeps which variable
    trainer     the life of the chief and of a worker
    servers     the life of a ps
    evaluation  the life of an evaluator
    launcher    a cluster on this machine, for development

The engine is TensorFlow's own: its gRPC servers, parameter servers and collectives. Nothing here
sends a message; tasks know of each other by who can be reached, and by files in the model
directory, which all of them have to see.
"""
