"""The tasks of a cluster: how they start, find each other, recover from a failure, and end.

    tasks             chooses the task that a process runs; a training starts here
    chief             the trainer of the chief, which tells the other tasks its state by marks
    worker            a worker, from start to end
    parameter_server  chief and worker with variables on parameter servers (ps)
    all_reduce        all variables on each device: mirrored, and chief and worker of
                      multi_worker_mirrored
    servers           the server of a task, and a ps, from start to end
    evaluation        an evaluator, from start to end
    sessions          which ps stores which variable, and a new session when a ps was lost
    lost_tasks        a thread that watches the marks and the other tasks
    waiting           files in model_dir by which tasks tell each other their state (marks), and
                      waiting for other tasks
    launcher          a cluster on this machine, for development

TensorFlow does the work, with its gRPC servers, parameter servers and collectives. The modules here
send no messages. A task learns about the other tasks in two ways: it checks which ones it can
reach, and it reads files in the model directory. So all tasks must share the model directory.
"""
