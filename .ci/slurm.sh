#!/usr/bin/env bash
# A Slurm of one node on this machine, for tests: one partition, one GPU that is made up. As root, on Debian.
#   .ci/slurm.sh start FOLDER      installs Slurm where it is missing; configuration, state and logs lie under FOLDER
#   .ci/slurm.sh stop FOLDER
# The configuration is linked into /etc/slurm: Snakemake's plugin drops SLURM_CONF on its way to the job. Where a configuration
# of another Slurm lies there, nothing is started.
set -euo pipefail
action=${1:-}
folder=${2:-}
if [ -z "$folder" ]; then
  echo "usage: $0 start|stop FOLDER" >&2
  exit 2
fi
folder=$(realpath -m "$folder")

end_of() { # the process whose id lies in this file, and nothing else
  [ -s "$1" ] || return 0
  local pid
  pid=$(cat "$1")
  kill "$pid" 2>/dev/null || return 0
  for _ in $(seq 300); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null || true
}

stop() { # the Slurm of this folder
  local folder=$1
  end_of "$folder/slurmd.pid"
  end_of "$folder/slurmctld.pid"
  if [ -e "$folder/started-munge" ]; then end_of /run/munge/munged.pid; fi
  for name in slurm gres cgroup; do
    if [ "$(readlink "/etc/slurm/$name.conf")" = "$folder/$name.conf" ]; then rm "/etc/slurm/$name.conf"; fi
  done
  rm -f "$folder/started-munge"
}

install_slurm() {
  for program in slurmctld slurmd sbatch munged; do
    if ! command -v "$program" >/dev/null; then
      export DEBIAN_FRONTEND=noninteractive
      apt-get -qq update
      apt-get -qq install --no-install-recommends slurmctld slurmd slurm-client munge >/dev/null
      return
    fi
  done
}

configure() {
  local host memory version
  host=$(hostname -s)
  memory=$(awk '$1 == "MemTotal:" { print int($2 / 1024 * 0.8) }' /proc/meminfo)
  version=$(slurmd -V | grep -o '[0-9][0-9]*' | head -1)
  mkdir -p "$folder/state" "$folder/spool"
  chmod 755 "$folder" # the daemons of other users read it
  cat >"$folder/slurm.conf" <<CONF
ClusterName=kernelbook
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu
MinJobAge=86400
MessageTimeout=100
TCPTimeout=60
BatchStartTimeout=600
SlurmdTimeout=0
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc --all) RealMemory=$memory Gres=gpu:2
PartitionName=gpus Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  # two made-up GPUs: each names a device, which has to exist
  printf "NodeName=$host Name=gpu File=/dev/%s\n" null zero >"$folder/gres.conf"
  # nothing here uses cgroups; from 23 on Slurm has a word for that, before it loads a plugin whatever is said
  if [ "$version" -ge 23 ]; then
    echo CgroupPlugin=disabled >"$folder/cgroup.conf"
  else
    echo CgroupPlugin=cgroup/v1 >"$folder/cgroup.conf"
    echo CommunicationParameters=NoAddrCache >>"$folder/slurm.conf" # the default since
  fi
}

link_configuration() {
  mkdir -p /etc/slurm
  local file
  for name in slurm gres cgroup; do
    file=/etc/slurm/$name.conf
    if [ -e "$file" ] && [ ! -L "$file" ]; then
      echo "$0: $file belongs to another Slurm: nothing was started" >&2
      exit 1
    fi
    ln -sfn "$folder/$name.conf" "$file"
  done
}

start_munge() {
  if munge -n </dev/null >/dev/null 2>&1; then return; fi
  if [ ! -s /etc/munge/munge.key ]; then
    (umask 077 && dd if=/dev/urandom of=/etc/munge/munge.key bs=1024 count=1 status=none)
    chown munge: /etc/munge/munge.key
  fi
  install -d -o munge -g munge -m 755 /run/munge
  install -d -o munge -g munge -m 700 /var/lib/munge /var/log/munge
  runuser -u munge -- munged
  touch "$folder/started-munge"
}

start() {
  install_slurm
  local other
  other=$(readlink /etc/slurm/slurm.conf || true)
  [ -z "$other" ] || stop "$(dirname "$other")"
  stop "$folder"
  rm -rf "$folder/state" "$folder/spool"
  configure
  link_configuration
  start_munge
  slurmctld
  slurmd
  local deadline=$((SECONDS + 600))
  while [ "$SECONDS" -lt "$deadline" ]; do
    if [ "$(timeout -k 1 60 sinfo --noheader --format %T 2>/dev/null)" = idle ]; then return; fi
    sleep 0.1
  done
  echo "$0: the node did not become idle within 10 minutes" >&2
  tail -n 20 "$folder"/*.log >&2
  exit 1
}

case $action in
  start) start ;;
  stop) stop "$folder" ;;
  *)
    echo "usage: $0 start|stop FOLDER" >&2
    exit 2
    ;;
esac
