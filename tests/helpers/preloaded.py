"""What the server of `tests.helpers.forks` imports before it forks, as far as it is installed."""

import contextlib
import gc
import importlib
import os
import platform
import sys
from pathlib import Path
from unittest import mock

# torch._inductor reads these as it is imported; scripts/workloads/harness/startup.py sets the first two
SPARING = {
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    "TORCHINDUCTOR_VEC_ISA_OK": "1",  # else each empty cache has the compiler tried on the vectors of this CPU
}

sys.dont_write_bytecode = False  # as in tests/conftest.py
ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))
OURS = (
    "edition.collect",
    "report.rendering",
    "extraction.run_tables",
    "compare.output",
    "containers.launching",
    "containers.probe",
    "plan.earlier",
    "plan.folder_owners",
    "plan.plan_texts",
    "history.record",
    "history.verdicts",
    "history.site.branch",
    "history.site.publish",
    "history.site.webhook",
)
for name in (
    *(f"kernelbook.{name}" for name in OURS),
    "snakemake.cli",
    "pyarrow.parquet",
    "pyarrow.compute",
    "jinja2",
    "jsonschema",
    "msgspec",
    "scipy.stats",
    "smart_open",
):
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
with contextlib.suppress(ImportError):
    from kernelbook.report import markdown_page, page

    for kind, environment in (("html", page.templates()), ("md", markdown_page.templates())):
        for name in environment.list_templates(filter_func=lambda name, kind=kind: name.split(".")[1] == kind):
            environment.get_template(name)
with contextlib.suppress(ImportError):  # what each Snakemake of this checkout and each site would parse again
    from kernelbook.config.errors import config_schema
    from kernelbook.history.site import pages
    from kernelbook.sources import fingerprint, imports
    from kernelbook.text.credentials import without_secrets

    without_secrets("")
    config_schema(ROOT / "workflow" / "schemas")
    pages._code()
    for file in (ROOT / "scripts" / "workloads").rglob("*.py"):
        imports.source_of(file)
        fingerprint._file_digest(file)
with contextlib.suppress(ImportError):
    from snakemake import cli

    cli.get_argument_parser()  # imports the plugins
    platform.platform()  # printed by each Snakemake; starts a process the first time
with contextlib.suppress(ImportError), mock.patch.dict(os.environ, SPARING):
    import torch._dynamo.repro.after_dynamo
    import torch._inductor.compile_fx
    import torch.distributed.fsdp
    import torch.distributed.launcher.api  # noqa: F401
    from torch.distributed.elastic.rendezvous import dynamic_rendezvous

    # asked at each step of a rendezvous; torch's own looks through all modules for the files of each frame
    dynamic_rendezvous.get_method_name = lambda depth=2: sys._getframe(depth).f_code.co_name
gc.collect()
gc.freeze()
gc.set_threshold(50_000, 20, 20)  # as in tests/conftest.py; forks keep it
