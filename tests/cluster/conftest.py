"""The images that .ci/images.sh builds, and empty folders to run Snakemake in."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster_folder import Folder
from tests.cluster.oci_registry import Registry, running
from tests.helpers.required import required_program, skip_or_fail


@pytest.fixture(scope="session")
def images(apptainer: str) -> Path:
    """Folder of the images that .ci/images.sh builds."""
    folder = Path(os.environ.get("KERNELBOOK_TEST_IMAGES") or Path.home() / ".cache" / "kernelbook-images")
    missing = [name for name in ("torch-2.13.sif", "torch-2.6.sif", "no-torch.sif") if not (folder / name).is_file()]
    if missing:
        skip_or_fail(f"the images {', '.join(missing)} are not in {folder}: .ci/images.sh builds them")
    return folder


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """An empty registry on this machine."""
    required_program("docker-registry")
    with running(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture
def folder(root: Path, tmp_path: Path) -> Folder:
    """An empty working folder, of a path with a space, outside the checkout."""
    path = tmp_path / "of a user"
    path.mkdir()
    return Folder(path)
