"""The tasks of a cluster: how they start, find each other, recover from a failure, and end.

    tasks             chooses the task that a process runs; a training starts here
    chief             the trainer of the chief, which tells the other tasks its state by marks
    worker            a worker, from start to end
    parameter_server  chief and worker with variables on parameter servers (ps)
    collective        chief and worker with all variables in each (multi_worker_mirrored)
    all_reduce        several devices of one process (mirrored)
    servers           a ps, from start to end
    evaluation        an evaluator, from start to end
    sessions          starts training again in a new session when a ps was lost
    placement         which ps stores which variable
    marks             files in model_dir by which tasks tell each other their state
    lost_tasks        a thread that watches the marks and the other tasks
    waiting           waits for other tasks, and logs their names
    listening         restricts a server to its address in TF_CONFIG
    launcher          a cluster on this machine, for development

TensorFlow does the work, with its gRPC servers, parameter servers and collectives. The modules here
send no messages. A task learns about the other tasks in two ways: it checks which ones it can
reach, and it reads files in the model directory. So all tasks must share the model directory.
"""
