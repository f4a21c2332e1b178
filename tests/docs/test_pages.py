"""The pages are true: commands run, outputs are as shown, and links lead somewhere."""

import re
import subprocess
from urllib.parse import unquote

import pytest

from tests.docs.doc_pages import blocks, pages
from tests.helpers import ROOT

PAGES = {page.relative_to(ROOT).as_posix(): page for page in pages(ROOT)}
SHELL = ("sh", "bash", "console")
# README's commands have no marks; how each is tried, or for `kernelbook` what it prints. What `make` makes takes long:
# here it only says what it would run.
README = {
    "make report": "make -n",
    "make test": "make -n",
    "snakemake --cores 1 --use-singularity": "dry run of docs/how-to/cluster.md",
    "snakemake --cores 1 --config only_runs=host only_cases='linear-*,mlp-*'": "dry run",
    "pip install .": "tests/cli/test_install.py",
    "kernelbook summarize trace.json.gz": "linear_fwd",
    "kernelbook top traces/": "1 trace, 27.1 µs of device time",
    "kernelbook report traces/ -o my-report": "report: my-report/index.html",
    "kernelbook check trace.json.gz": "driver_launches",
    "kernelbook name nvjet_sm90_tst_64x8_64x16_1x2_h_bz_bias_TNT": "bf16 on tensor cores",
}


@pytest.mark.parametrize("name", PAGES)
def test_every_shell_block_says_how_it_is_tested(name):
    if name == "README.md":
        commands = [line for block in blocks(PAGES[name]) for line in block.text.splitlines() if _is_command(line)]
        assert set(commands) == set(README), "tell in README above how each command of the page is tried"
        return
    for block in blocks(PAGES[name]):
        if block.kind in SHELL:
            assert block.mark, f"{name}, line {block.line}: mark the block: see tests/docs/doc_pages.py"
            subprocess.run(["bash", "-n", "-c", block.text], check=True)
            if block.mark.startswith("elsewhere: "):
                _files_exist(block)


def _is_command(line):
    return line.startswith(("make ", "snakemake ", "python ", "pip ", "kernelbook "))


def _files_exist(block):
    named = re.findall(r"(?<![\w/.])(?:scripts|profiles|containers|workflow|\.ci|resources)/[\w./-]+", block.text)
    missing = [path for path in named if not (ROOT / path).exists()]
    assert not missing, f"line {block.line} names files that are not there: {missing}"


def test_the_commands_of_readme_run_or_run_dry(checkout):
    checkout.shell(
        "mkdir traces; cp resources/recorded/h200-torch2.11/linear-eager/1/trace.json.gz traces;"
        "cp traces/trace.json.gz ."
    )
    for command, how in README.items():
        if command.startswith("kernelbook "):
            assert how in checkout.shell(command)
        elif command.startswith("pip "):
            assert (ROOT / how).is_file()
        elif how == "make -n":
            assert {"make report": "-m snakemake", "make test": "-m pytest"}[command] in checkout.shell(f"{command} -n")
        elif how == "dry run":
            assert "This was a dry-run" in checkout.shell(f"{command} --dry-run")
        else:
            page = PAGES[how.removeprefix("dry run of ")]
            assert any(block.mark == "dry run" and command in block.text.splitlines() for block in blocks(page))


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_files_of_the_project(name):
    page = PAGES[name]
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not re.match(r"https?:|#", target):
            path = (page.parent / unquote(target.partition("#")[0])).resolve()
            assert path.exists(), f"{name}: {target} leads nowhere"
            assert path.is_relative_to(ROOT)


def test_every_page_can_be_reached_from_the_index():
    reached, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        links = re.findall(r"\]\(([^)\s#]+)", page.read_text(encoding="utf-8"))
        ahead += [(page.parent / link).resolve() for link in links if "://" not in link]
    assert {page for page in PAGES.values() if page not in reached} == set()


def test_no_two_pages_write_into_one_edition():
    """Who works through them all keeps every report."""
    used = {}
    for name, page in PAGES.items():
        made = [block for block in blocks(page) if block.kind in SHELL and block.mark == "run"]
        lines = [line for block in made for line in block.text.splitlines() if line.startswith("snakemake ")]
        for line in lines:
            edition = re.search(r"\bedition=(\S+)", line)
            assert edition, f"{name}: replaces reports/latest: {line}"
            assert used.setdefault(edition[1], name) == name, f"{name}: edition {edition[1]} is that of {used}"
        named = [re.search(r"\bedition=(\S+)", line)[1] for line in lines]
        assert len(set(named)) == len(named), f"{name}: {named}"


def test_a_call_that_only_tells_what_would_be_done_does_nothing():
    for page in PAGES.values():
        text = page.read_text(encoding="utf-8")
        for told in re.findall(r"what it would do:\n+(?:<!--.*?-->\n)?```sh\n(.*?)```", text, re.S):
            assert re.search(r" (-n|--dry-run)\b", told), f"{page.name}: {told}"
