"""Training: where it starts and ends, what it reads, and how it resumes.

run               the stages of a training: check, plan, begin, train, finish
trainer           runs the steps in this process; the trainers of clusters are in `distributed`
preparation       spec, cluster, model and default data, before any mode does its work
source            what a training reads, and from which row
records           checks of the input files, and the counts of their rows
eval_input        what an evaluation reads
position          how far a training has read its input, as `input.json` stores it
plan              the first and the last step
team              how many processes train together, and what that means for their input
bad_data          what a run does about corrupt data
after_evaluation  metrics, exports and early stopping after each evaluation
model_dir_lock    the lock of a model directory
unfinished        the step of a checkpoint that is still to be evaluated or exported
hooks             session hooks for training
"""
