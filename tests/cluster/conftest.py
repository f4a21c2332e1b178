"""The images that .ci/images.sh builds, and empty folders to run Snakemake in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster_folder import Folder
from tests.cluster.oci_registry import Registry, running
from tests.helpers.required import required_program


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
