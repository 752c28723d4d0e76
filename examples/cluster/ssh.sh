#!/bin/sh
# Starts a cluster with ssh, one task on each host. All hosts must see the same folder under the same
# path, and must have the kit installed. The output of each task goes to a separate file. The exit
# status is the chief's. If you start it again after a failure, it continues from the last checkpoint.
# SIGTERM and Ctrl-C stop the chief, which saves a checkpoint and ends the other tasks.
#
#   ./ssh.sh "host0 host1 host2" "host3" host4 --flagfile=exp.flags --model_dir=runs/ads
#             chief and workers  ps      evaluator
set -eu
workers=$1 ps=$2 evaluator=$3
shift 3
folder=${FOLDER:-$PWD} port=${PORT:-2222} logs=${LOGS:-logs}
remote=${REMOTE:-ssh -o BatchMode=yes}
mkdir -p "$logs"

addresses() {
  list=
  for host in $1; do list="$list${list:+,}$host:$port"; done
  echo "$list"
}

quoted() {  # Quotes the words for the shell of the other host.
  for word in "$@"; do
    printf " '%s'" "$(printf %s "$word" | sed "s/'/'\\\\''/g")"
  done
}

task() {  # host job index flags...
  host=$1 job=$2 index=$3
  shift 3
  $remote "$host" "cd '$folder' && echo \$\$ > '.$job-$index-$port.pid' && exec estimator-kit$(quoted "$@") --job_name=$job --task_index=$index \
    --worker_hosts=$(addresses "$workers") --ps_hosts=$(addresses "$ps")" \
    > "$logs/$job-$index.log" 2>&1
}

stopped=
stop() {  # The chief saves and ends the other tasks. Fails if it has not started yet.
  stopped=yes
  $remote "${workers%% *}" "cd '$folder' && kill -TERM \$(cat '.worker-0-$port.pid')" || true
}
trap stop INT TERM

$remote "${workers%% *}" "rm -f '$folder/.worker-0-$port.pid'"
index=0
for host in $ps; do task "$host" ps $index "$@" & index=$((index + 1)); done
task "$evaluator" evaluator 0 "$@" &
index=0
for host in $workers; do
  task "$host" worker $index "$@" &
  [ $index -gt 0 ] || chief=$!
  index=$((index + 1))
done
status=0
wait "$chief" || status=$?
if [ -n "$stopped" ]; then  # The signal has interrupted the wait.
  again=0
  wait "$chief" || again=$?
  [ $again -eq 127 ] || status=$again  # 127: it had already ended.
fi
trap '' INT TERM
wait
exit $status
