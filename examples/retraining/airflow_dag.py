"""An Airflow DAG with one cycle of retraining a night.

Exit status 99 (nothing new) skips the task. 75 and 143 are worth another try; the command then goes
on where it stopped. What else it may end with, a retry does not mend: it is made again all the
same, changes nothing, and ends the same way.
"""

import datetime

from airflow import DAG
from airflow.operators.bash import BashOperator

with DAG(
    dag_id="retrain_ads",
    schedule="15 3 * * *",
    start_date=datetime.datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
) as dag:
    BashOperator(
        task_id="retrain",
        # The day that the schedule is for, so that a task that is cleared has the same clock.
        bash_command=(
            "cd /srv/ads && estimator-kit --flagfile=retrain.flags --mode=retrain "
            "--as_of={{ data_interval_end | ds }}"
        ),
        skip_on_exit_code=99,
        retries=2,
        retry_delay=datetime.timedelta(minutes=15),
        execution_timeout=datetime.timedelta(hours=4),
    )
