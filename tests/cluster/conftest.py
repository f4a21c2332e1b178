"""The images that .ci/images.sh builds, and empty folders to run Snakemake in."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster_folder import Folder
from oci_registry import Registry, running


@pytest.fixture(scope="session")
def images(apptainer: str, require: Callable[[str], None]) -> Path:
    """Folder of the images that .ci/images.sh builds."""
    folder = Path(os.environ.get("KERNELBOOK_TEST_IMAGES") or Path.home() / ".cache" / "kernelbook-images")
    missing = [name for name in ("torch-2.13.sif", "torch-2.6.sif", "no-torch.sif") if not (folder / name).is_file()]
    if missing:
        require(f"the images {', '.join(missing)} are not in {folder}: .ci/images.sh builds them")
    return folder


@pytest.fixture(scope="session")
def registry(require: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """An empty registry on this machine."""
    if not shutil.which("docker-registry"):
        require("docker-registry is not installed")
    with running(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture
def folder(root: Path, tmp_path: Path) -> Folder:
    """An empty working folder, of a path with a space, outside the checkout."""
    path = tmp_path / "of a user"
    path.mkdir()
    return Folder(root, path)
