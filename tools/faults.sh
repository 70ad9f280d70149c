#!/usr/bin/env bash
# What `foretrain run` does when something breaks: each fault is made, and a line tells what was done, the exit status,
# the seconds from the fault to the end, whether the last checkpoint is whole, and the error message.
#
# usage: tools/faults.sh PROGRAM FOLDER [DEVICE]
#
# FOLDER is for scratch. DEVICE is cuda (default; needs two GPUs, under three minutes) or reference. Exit status 0 where
# every fault ended as it must: an error that names the rank, within the time limit, and no damage.
set -u

program=${1:?usage: tools/faults.sh PROGRAM FOLDER [DEVICE]}
folder=${2:?usage: tools/faults.sh PROGRAM FOLDER [DEVICE]}
device=${3:-cuda}
limit=5 # --time-limit
mkdir -p "$folder" && folder=$(cd "$folder" && pwd) || exit 2
failures=0 mounted=

# shellcheck disable=SC2317 # called by the trap
clean() {
  local job
  for job in $(jobs -p); do kill -KILL "$job" 2> /dev/null; done
  [ -n "$mounted" ] && umount "$mounted"
}
trap clean EXIT

if [ "$device" = cuda ]; then
  model=wrn-16-4 batch=32 too_large=4000000 every=0.5
else
  model=$folder/model.yaml batch=4 too_large=400000000 every=0.1
  cat > "$model" << 'END'
title: a perceptron
unit: images
input: { channels: 1, height: 16, width: 16 }
classes: 3
optimizer: { kind: sgd, learning_rate: 0.01, momentum: 0.9 }
layers:
  - flatten
  - linear: { name: fc1, out: 200 }
  - relu
  - linear: { name: fc2, out: 3 }
  - softmax_cross_entropy: { name: loss }
END
fi

scenario() { # name workers batch
  cat > "$folder/$1.yaml" << END
model: $model
profile: { steps: [[32, 10 ms], [64, 20 ms]] }
batch: { per_worker: $3 }
cluster: { topology: one-node, workers: $2 }
dataset: { samples: $((100 * $3 * $2)) }
job: { epochs: 10000, checkpoint: { every: $every epoch, write: 1 GB/s } }
END
}
scenario two 2 $batch
scenario one 1 $batch
scenario large 1 $too_large

now() { date +%s.%N; }
since() { awk "BEGIN { printf \"%.1f\", $(now) - $1 }"; }

become() { # name arguments...: replaces this shell; the record goes to name.json, messages to name.log
  local name=$1
  shift
  exec "$program" run "$@" --device "$device" --out "$folder/$name.json" --warmup 3 --time-limit $limit \
    > "$folder/$name.out" 2> "$folder/$name.log"
}

run() { (become "$@"); } # one process, all workers

become_rank() { # name rank arguments...: one of two processes, as mpirun would start it
  local name=$1 rank=$2
  shift 2
  export OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=$rank \
    OMPI_COMM_WORLD_LOCAL_SIZE=2 FORETRAIN_RENDEZVOUS=$folder/$name.meet
  become "$name.$rank" "$@"
}

wait_for() { # file
  local turn
  for ((turn = 0; turn < 600; ++turn)); do
    [ -s "$1" ] && return 0
    sleep 0.1
  done
  echo "faults.sh: $1 did not come" >&2
  return 1
}

whole() { # checkpoint scenario: trains ten updates on from it
  local done_before
  # With a job that is over, the record says where it begins: an event of its last checkpoint was there before.
  "$program" run "$folder/$2.yaml" --device "$device" --out "$folder/whole.json" --checkpoint "$1" --resume \
    --set job.epochs=0.01 -q > /dev/null 2> "$folder/whole.log" || {
    echo "no: $(tail -n 1 "$folder/whole.log")"
    return 1
  }
  done_before=$(sed -n 's/.*"resumed_after": *\([0-9]*\).*/\1/p' "$folder/whole.json" | head -n 1)
  [ -n "$done_before" ] && [ "$done_before" -gt 0 ] || {
    echo "no: it begins anew"
    return 1
  }
  "$program" run "$folder/$2.yaml" --device "$device" --out "$folder/whole.json" --checkpoint "$1" --resume --warmup 1 \
    --set "job.epochs=$(awk "BEGIN { print ($done_before + 10) / 100 }")" -q > /dev/null 2> "$folder/whole.log" || {
    echo "no: $(tail -n 1 "$folder/whole.log")"
    return 1
  }
  echo "yes, trained on from update $done_before"
}

tell() { # what status wanted seconds log checkpoint text...: each text must be in the message
  local what=$1 status=$2 wanted=$3 seconds=$4 log=$5 checkpoint=$6 message verdict=ok text
  shift 6
  message=$(grep '^foretrain: ' "$log" | grep -v 'warning: \|: predicted ' | tail -n 1)
  [ "$status" = "$wanted" ] || verdict="WRONG STATUS, not $wanted"
  for text in "$@"; do
    [[ $message == *"$text"* ]] || verdict="NOT SAID: $text"
  done
  [[ $checkpoint == no:* ]] && verdict="CHECKPOINT DAMAGED"
  awk "BEGIN { exit !($seconds > $limit + 15) }" && verdict="TOO LATE"
  [ "$verdict" = ok ] || failures=$((failures + 1))
  echo "$verdict | $what | status $status | $seconds s | checkpoint whole: $checkpoint | $message"
}

killed() {
  local state=$folder/kill.state began status
  rm -f "$state" "$folder/kill.meet"
  become_rank kill 0 "$folder/two.yaml" --checkpoint "$state" &
  local first=$!
  become_rank kill 1 "$folder/two.yaml" --checkpoint "$state" &
  local second=$!
  wait_for "$state"
  began=$(now)
  kill -KILL $second
  wait $first
  status=$?
  local seconds
  seconds=$(since "$began")
  wait $second 2> /dev/null
  tell "kill -9 of rank 1" $status 1 "$seconds" "$folder/kill.0.log" "$(whole "$state" two)" "rank 1"
}

full_disk() {
  local disk=$folder/disk state began status how seconds
  mkdir -p "$disk"
  state=$disk/state
  if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=256m tmpfs "$disk" 2> /dev/null; then
    mounted=$disk how="a full disk at a checkpoint"
  else
    how="a file that may grow no further at a checkpoint"
  fi
  rm -f "$state"
  run full.before "$folder/one.yaml" --checkpoint "$state" --set job.epochs=1 || tail -n 1 "$folder/full.before.log"
  began=$(now)
  if [ -n "$mounted" ]; then
    head -c 1G /dev/zero > "$disk/rest" 2> /dev/null
    run full "$folder/one.yaml" --checkpoint "$state" --resume
    status=$?
    rm -f "$disk/rest"
  else
    # In KiB, below the state's size.
    (ulimit -f $(($(stat -c %s "$state") / 2048)) && run full "$folder/one.yaml" --checkpoint "$state" --resume)
    status=$?
  fi
  seconds=$(since "$began")
  tell "$how" $status 1 "$seconds" "$folder/full.log" "$(whole "$state" one)" "rank 0" "$state: cannot write"
  if [ -n "$mounted" ]; then umount "$mounted" && mounted=; fi
}

out_of_memory() {
  local began status
  began=$(now)
  if [ "$device" = cuda ]; then
    run memory "$folder/large.yaml" --steps 5
  else
    (ulimit -v 4000000 && run memory "$folder/large.yaml" --steps 5)
  fi
  status=$?
  [ "$device" != cuda ] || grep -q 'warning: .*it will run out of memory' "$folder/memory.log" ||
    echo "foretrain: it was not foretold" >> "$folder/memory.log"
  tell "a batch too large for the memory" $status 1 "$(since "$began")" "$folder/memory.log" "none written" "rank 0" \
    "does not fit into the device's memory"
}

wrong_interface() {
  local began status
  rm -f "$folder/interface.meet"
  began=$(now)
  (NCCL_SOCKET_IFNAME=nosuch7 && export NCCL_SOCKET_IFNAME && become_rank interface 1 "$folder/two.yaml" --steps 5)
  status=$?
  tell "a wrong NCCL_SOCKET_IFNAME on rank 1" $status 2 "$(since "$began")" "$folder/interface.1.log" "none written" \
    "rank 1" "NCCL_SOCKET_IFNAME=nosuch7"
}

hung() {
  local state=$folder/hang.state began status
  rm -f "$state" "$folder/hang.meet"
  become_rank hang 0 "$folder/two.yaml" --checkpoint "$state" &
  local first=$!
  become_rank hang 1 "$folder/two.yaml" --checkpoint "$state" &
  local second=$!
  wait_for "$state"
  began=$(now)
  kill -STOP $second
  wait $first
  status=$?
  local seconds
  seconds=$(since "$began")
  kill -KILL $second
  wait $second 2> /dev/null
  tell "a collective that hangs: rank 1 is stopped" $status 1 "$seconds" "$folder/hang.0.log" "$(whole "$state" two)" \
    "rank 1" "is stopped"
}

killed
full_disk
out_of_memory
wrong_interface
hung
echo "$failures of 5 faults ended wrongly"
[ $failures = 0 ]
