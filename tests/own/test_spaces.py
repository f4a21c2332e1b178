"""Links without spaces, for compilers that cannot take a path with spaces."""

import os
import tempfile

import pytest

from workloads.harness.startup import packages_of_torch, without_spaces


@pytest.fixture
def plain_tmp(monkeypatch, tmp_path):
    folder = tmp_path / "links"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_path_without_spaces_is_left_alone(plain_tmp, tmp_path):
    assert without_spaces(tmp_path) == tmp_path
    assert list(plain_tmp.iterdir()) == []


def test_a_path_with_spaces_is_reached_by_a_link_that_is_the_same_next_time(plain_tmp, tmp_path):
    spaced = tmp_path / "my cache"
    spaced.mkdir()
    (spaced / "kernel").write_text("x")
    link = without_spaces(spaced)
    assert " " not in str(link)
    assert (link / "kernel").read_text() == "x"
    assert without_spaces(spaced) == link
    assert without_spaces(tmp_path / "my other cache") != link


def test_a_link_of_that_name_to_elsewhere_is_not_followed(plain_tmp, tmp_path, monkeypatch):
    monkeypatch.setattr("workloads.harness.startup._linked", lambda link, path: False)
    spaced = tmp_path / "my cache"
    assert without_spaces(spaced) == spaced


def test_the_link_must_lead_where_it_should(plain_tmp, tmp_path):
    spaced, other = tmp_path / "my cache", tmp_path / "other"
    link = without_spaces(spaced)
    link.unlink()
    os.symlink(other, link)
    found = without_spaces(spaced)
    assert found == spaced or os.readlink(found) == str(spaced)
    assert found != link
    if found != spaced:  # it lies in /tmp
        found.unlink()


@pytest.mark.torch
def test_torch_is_found_without_importing_it():
    import torch

    assert packages_of_torch().samefile(os.path.dirname(os.path.dirname(torch.__file__)))
