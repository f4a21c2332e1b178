#!/usr/bin/env bash
# Installs Apptainer from Debian's own packages on Debian 12 or 13, as root, beside the system and without changing it.
#   .ci/apptainer.sh [PREFIX]        default /opt/apptainer; prints the folder to put into PATH
# Debian has Apptainer in unstable only, linked against a newer glibc than Debian 12's: that glibc comes along, for it alone.
set -euo pipefail
prefix=${1:-/opt/apptainer}
if "$prefix/bin/apptainer" version >/dev/null 2>&1; then
  echo "$prefix/bin"
  exit 0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! command -v patchelf >/dev/null || ! command -v mksquashfs >/dev/null; then
  apt-get -qq update
  apt-get -qq install --no-install-recommends patchelf squashfs-tools ca-certificates >/dev/null
fi

# Packages of other suites, through package lists of their own: the system's lists and sources stay as they are.
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/$')
mkdir -p "$scratch/lists/partial" "$scratch/debs" "$scratch/app" "$scratch/libs"
for suite in sid trixie; do
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $suite main"
done >"$scratch/sources"
other_apt() { # a mirror may be some weeks behind; what it holds is signed all the same
  apt-get -qq -o Acquire::Check-Valid-Until=false -o Dir::Etc::sourcelist="$scratch/sources" -o Dir::Etc::sourceparts=- \
    -o Dir::State::lists="$scratch/lists" -o APT::Sandbox::User=root "$@"
}
other_apt update
(cd "$scratch/debs" && other_apt download apptainer/sid libc6/trixie libseccomp2/trixie libsqlite3-0/trixie)
for deb in "$scratch"/debs/*.deb; do
  case $deb in */apptainer_*) into=app ;; *) into=libs ;; esac
  dpkg-deb --extract "$deb" "$scratch/$into"
done

# Apptainer finds etc, var and lib from where its program lies; its starter looks one level too low, hence the links.
rm -rf "$prefix"
mkdir -p "$prefix/glibc"
cp -a "$scratch"/libs/usr/lib/*-linux-gnu/*.so* "$prefix/glibc/"
cp -a "$scratch/app/etc" "$scratch/app/var" "$scratch/app/usr/bin" "$scratch/app/usr/lib" "$prefix/"
ln -s ../bin ../etc ../var "$prefix/lib/"
ln -s . "$prefix/lib/lib"
loader=("$prefix"/glibc/ld-linux-*.so.*)
for program in "$prefix/bin/apptainer" "$prefix"/lib/*-linux-gnu/apptainer/bin/starter; do
  patchelf --set-interpreter "${loader[0]}" --force-rpath --set-rpath "$prefix/glibc" "$program"
done

# Root in a container asks for every capability that there is and fails where this machine's root lacks one: name those it has.
held=$(sed -n 's/^CapBnd:\t*//p' /proc/self/status)
names=(chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service
  net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct sys_admin sys_boot
  sys_nice sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap mac_override mac_admin syslog
  wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore) # in the order of linux/capability.h
list=
for bit in "${!names[@]}"; do
  if ((16#$held >> bit & 1)); then list+="${list:+, }\"CAP_${names[bit]^^}\""; fi
done
echo "{\"users\": {\"root\": [$list]}}" >"$prefix/etc/apptainer/capability.json"
sed -i 's/^root default capabilities *=.*/root default capabilities = file/' "$prefix/etc/apptainer/apptainer.conf"
"$prefix/bin/apptainer" version >&2
echo "$prefix/bin"
