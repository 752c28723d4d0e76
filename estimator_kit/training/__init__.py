"""Training: where it starts and ends, what it reads, and how it comes back.

run               the stages of a training: check, plan, begin, train, finish
trainer           who makes its steps: this process alone; others are in `distributed`
preparation       spec, cluster, model and default data, before any mode does its work
source            what a training reads, and from where on; eval_input: what an evaluation reads
position          where in its input a training is, as `input.json` keeps it
plan              where it starts and ends
team              how many train together, and what that means for their input
records, rows     what files hold, and what became of their rows
bad_data          what a run does about corrupt data
after_evaluation  metrics, exports and early stopping after each evaluation
finish            what follows the last checkpoint
hooks             of the sessions that train
"""
