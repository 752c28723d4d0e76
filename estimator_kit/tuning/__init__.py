"""`--mode=tune`: a search for the settings with the best metric. Each trial is an ordinary run.

search_file   the search in YAML: parameters, metric, trials, sampler, pruner
parameter     one parameter of it: a range or choices, and its conditions
space         which values a trial draws, and the config of a trial
definition    what all trials share: settings, Optuna's sampler and pruner
checks        everything that can be wrong before the first trial
study         the trials of all processes, in Optuna's journal; claims, so that no trial runs twice
search        the loop that starts trials, watches them, prunes them and goes on after a kill
trial_process one trial as a process of the program
results       search.json, best.flags and the score on --test_files
page          search.html, and the columns of TensorBoard's page HParams

Only `checks`, `trial_process`, `results` and `page` import TensorFlow.
"""
