"""Monitoring of live versions: what was asked and answered, with the labels that come later.

    monitor.run(command)      reads logs and labels, measures each period, judges the live version

A later process repeats nothing of a period that is complete. Nothing here changes what is served,
except `rollback`, which `--rollback` asks for.
"""
