"""`--mode=tune`: a search for the settings with the best metric. Each trial is an ordinary run.

search_file   the search in YAML: parameters, metric, trials, sampler, pruner
parameter     one parameter of it: a range or choices, and its conditions
space         which values a trial draws, and the values at the ends of each parameter
trial_config  the config of one trial; which flags a search may set
definition    the settings that every start of a search needs to have in common
checks        everything that can be wrong before the first trial
study         the trials of all processes, in Optuna's journal; claims, so that no trial runs twice
search        the loop that starts trials, watches them, prunes them and goes on after a kill
library       Optuna: its import, samplers and pruners
trial_process one trial as a process of the program
results       search.json, best.flags and the score on --test_files
page          search.html
board         the columns of TensorBoard's page HParams

Only `checks`, `trial_process`, `results`, `page` and `board` import TensorFlow.
"""
