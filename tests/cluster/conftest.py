"""The images that .ci/images.sh builds, and empty folders to run Snakemake in."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster_folder import Folder


@pytest.fixture(scope="session")
def images(apptainer: str, require: Callable[[str], None]) -> Path:
    """Folder of the images that .ci/images.sh builds."""
    folder = Path(os.environ.get("KERNELBOOK_TEST_IMAGES") or Path.home() / ".cache" / "kernelbook-images")
    missing = [name for name in ("torch-2.13.sif", "torch-2.6.sif", "no-torch.sif") if not (folder / name).is_file()]
    if missing:
        require(f"the images {', '.join(missing)} are not in {folder}: .ci/images.sh builds them")
    return folder


@pytest.fixture
def folder(root: Path, tmp_path: Path) -> Folder:
    """An empty working folder, of a path with a space, outside the checkout."""
    path = tmp_path / "of a user"
    path.mkdir()
    return Folder(root, path)
