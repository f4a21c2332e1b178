#!/usr/bin/env bash
# Builds the images that the tests run, as root on Debian with Apptainer in PATH; what already lies there is kept.
#   .ci/images.sh [FOLDER]           default ~/.cache/kernelbook-images, where the tests look for them
#   torch-2.13.sif   Debian 12, Python 3.11, the torch of requirements-torch.txt
#   torch-2.6.sif    Debian 13, Python 3.13, Debian's own torch
#   no-torch.sif     Debian 12, Python 3.11 and nothing else
# TORCH_INDEX, where set, is the index that the first one's torch is taken from.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-${KERNELBOOK_TEST_IMAGES:-$HOME/.cache/kernelbook-images}}
mkdir -p "$folder"
if ! command -v mmdebstrap >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get -qq update
  apt-get -qq install --no-install-recommends mmdebstrap >/dev/null
fi
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 '/debian/$')
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"

debian() { # SUITE PACKAGES: a root folder at $scratch/root
  rm -rf "$scratch/root"
  mmdebstrap --quiet --variant=essential --include="$2" --aptopt='Acquire::Languages "none"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/lib/libtorch-test/*' \
    "$1" "$scratch/root" "$archive"
}

pack() { # NAME: that root folder as an image, whole or not at all
  apptainer --quiet build --mksquashfs-args '-comp zstd -Xcompression-level 2' "$folder/.$1" "$scratch/root"
  mv "$folder/.$1" "$folder/$1"
}

if [ ! -e "$folder/no-torch.sif" ]; then
  debian bookworm python3
  pack no-torch.sif
fi
if [ ! -e "$folder/torch-2.6.sif" ]; then
  debian trixie python3,python3-torch
  pack torch-2.6.sif
fi
if [ ! -e "$folder/torch-2.13.sif" ]; then
  debian bookworm python3,libstdc++6
  # the image's Python and C library, not those that run pip, decide which wheels fit
  platforms=(--platform manylinux2014_x86_64)
  for minor in $(seq 17 28); do platforms+=(--platform "manylinux_2_${minor}_x86_64"); done
  "${PYTHON:-.venv/bin/python}" -m pip install --quiet --no-compile --only-binary :all: \
    --implementation cp --python-version 3.11 --abi cp311 "${platforms[@]}" \
    --target "$scratch/root/usr/local/lib/python3.11/dist-packages" \
    ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} --requirement requirements-torch.txt numpy
  pack torch-2.13.sif
fi
