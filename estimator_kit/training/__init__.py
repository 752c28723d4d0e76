"""Training: where it starts and ends, what it reads, and how it resumes.

run               the stages of a training: check, plan, begin, train, finish
trainer           runs the steps in this process; the trainers of clusters are in `distributed`
preparation       spec, cluster, model and default data, before any mode does its work
source            what a training reads, and from which row
records           checks of the input files, the counts of their rows, what an evaluation reads
position          how far a training has read its input, as `input.json` stores it
plan              the first and the last step
team              how many processes train together, and what that means for their input
bad_data          what a run does about corrupt data
after_evaluation  metrics, exports and early stopping after each evaluation
starts            the lock of a model directory, and what earlier starts have left
hooks             session hooks for training
"""
