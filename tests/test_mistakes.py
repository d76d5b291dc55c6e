"""Mistakes that authors of a system make, and what finds each: the type checker, the import, or `pwfl test`."""

import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from conftest import ROOT, environment

EXAMPLE = "local_dp_mac"
TYPES, IMPORT, TEST = "the type checker", "the import", "pwfl test"
OBJECT, SCHEME, STAGE = "system.py", "parameters.py", "noise.py"
MISTAKES = {  # file, old text, new text, what finds it
    "a stage's function is misspelt": (OBJECT, "channel.run", "channel.rnu", TYPES),
    "a stage runs a function of other arguments": (OBJECT, "noise.run", "channel.run", TYPES),
    "a stage gets its result in place of its function": (OBJECT, "lambda: receive.run", "lambda: receive.run({})", TYPES),
    "a stage is missing": (OBJECT, "    account=Part(lambda: account.run),\n", "", TYPES),
    "a stage's name is misspelt": (OBJECT, "receive=Part", "recieve=Part", TYPES),
    "a function stands without its Part": (OBJECT, "Part(lambda: account.run)", "account.run", TYPES),
    "training is a function, not Trainers": (OBJECT, "Trainers(train.trainer, train.batch_trainer)", "train.trainer", TYPES),
    "the two trainers are swapped": (OBJECT, "train.trainer, train.batch_trainer", "train.batch_trainer, train.trainer", TYPES),
    "tables are text": (OBJECT, '("links",)', '"links"', TYPES),
    "a check is of another kind": (OBJECT, "consistent=checks.consistent", "consistent=checks.table_bytes", TYPES),
    "an unknown check": (OBJECT, "training_bytes=", "train_bytes=", TYPES),
    "schemas are misspelt": (OBJECT, "tables.SCHEMAS", "tables.SCHEMA", TYPES),
    "the report's figures are a function": (OBJECT, "report.FIGURES", "report.leakage", TYPES),
    "the model is a scenario": (OBJECT, "model=LocalDpMac", "model=LocalDpMac()", TYPES),
    "claims are not measured": (OBJECT, "claims.claims", "1", TYPES),
    "two deferred modules are swapped": (OBJECT, '"account audit', '"audit account', TEST),
    "a scheme names an unknown scheduler": (SCHEME, 'scheduler="orthogonal", noise', 'scheduler="ortogonal", noise', TYPES),
    "a scheme's part is misspelt": (SCHEME, 'scheduler="orthogonal", noise', 'schedular="orthogonal", noise', TYPES),
    "a parameter is read by an unknown stage": (SCHEME, 'stages="noise/gaussian"', 'stages="nosie/gaussian"', IMPORT),
    "a parameter is read by an unknown variant": (SCHEME, 'stages="noise/gaussian"', 'stages="noise/gausian"', IMPORT),
    "a parameter has no upper bound": (SCHEME, "ge=1, le=10000", "ge=1", TEST),
    "a colour is of an unknown scheme": ("catalog.py", '("orthogonal", "gaussian")', '("orthogonal", "gausian")', TEST),
    "a figure has no function": ("catalog.py", '"loss": ("history",), ', "", TEST),
    "a stage misspells a parameter": (STAGE, "privacy.noise_std", "privacy.noise_sdt", TYPES),
    "a stage takes a parameter for another type": (STAGE, "noise_variance**0.5", "noise_variance.sqrt()", TYPES),
    "a stage returns no dict": (STAGE, 'return {"noise": noise, "noise_status": status}', "return noise, status", TYPES),
    "a stage takes no variant": (STAGE, "scenario: LocalDpMac, scheme: str, tables", "scenario: LocalDpMac, tables", TYPES),
    "a stage imports another one": (STAGE, "import polars as pl\n", "import polars as pl\nfrom local_dp_mac import schedule\n", TEST),
    "a stage computes with a check": (STAGE, "import polars as pl\n", "import polars as pl\nfrom local_dp_mac.checks import consistent\n", TEST),
    "a claim adds where schemes are subtracted": ("claims.py", "AIR - ORTHOGONAL", "AIR + ORTHOGONAL", TYPES),
    "a claim's scheme has no name": ("claims.py", '"gaussian", "Orthogonal"', '"gaussian"', TYPES),
    "a claim's bounds are misspelt": ("claims.py", "Band(least=-1.1, most", "Band(lest=-1.1, most", TYPES),
    "a column does not say what it reveals": ("tables.py", "    REVEALS = PUBLIC\n    noise_std", "    noise_std", TEST),
}  # fmt: skip
# Prints, for each package, whether it was imported, and what `pwfl test` says in its first three steps.
CHECKS = """
import json, sys
from importlib import import_module
from unittest import mock
from pwfl import registry
from pwfl.scenario import resolve
from pwfl.testing import declared

said = {}
for name in sys.argv[1:]:
    try:
        system = import_module(f"{name}.system").SYSTEM
    except Exception as error:
        said[name] = ["the import", repr(error)]
        continue
    try:
        with mock.patch.object(registry, "claims", lambda: {name: (f"{name}.system:SYSTEM",)}):
            model = resolve(system.catalog.tiny | {"system": name, "realizations": 1, "training_realizations": 1}, {})
            for check in (declared.check_modules, declared.check_columns, declared.check_catalog):
                check(model, {})
    except Exception as error:
        said[name] = ["pwfl test", repr(error)]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    """A copy of the example for each mistake, `mistake_0`, `mistake_1`, ..., and one without any, `mistake_none`."""
    folder = tmp_path_factory.mktemp("mistakes")
    for number, (file, old, new, _) in enumerate([*MISTAKES.values(), ("__init__.py", "", "", "")]):
        name = f"mistake_{number if number < len(MISTAKES) else 'none'}"
        for path in sorted((ROOT / "examples" / EXAMPLE / EXAMPLE).rglob("*.*")):
            if path.suffix not in (".py", ".rst"):
                continue
            text = path.read_text(encoding="utf-8")
            if path.name == file:
                assert old in text, (file, old)
                text = text.replace(old, new, 1)
            copy = folder / name / path.relative_to(ROOT / "examples" / EXAMPLE / EXAMPLE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text.replace(EXAMPLE, name), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def faults(packages) -> str:
    """What the type checker says of all copies."""
    config = packages / "ty.toml"
    settings = (
        (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[tool.ty.analysis]")[2].partition("\n[")[0]
    )
    config.write_text(f"[analysis]{settings}")
    paths = [f"--extra-search-path={path}" for path in (ROOT / "pkg", packages)]
    call = [
        Path(sysconfig.get_path("scripts")) / "ty",
        "check",
        "--output-format=concise",
        *paths,
    ]
    call += [f"--config-file={config}", f"--python={sys.prefix}", "--project", packages, packages]
    return subprocess.run(call, capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="module")
def found(packages, faults) -> dict[str, list[str]]:
    """By package, what finds its mistake first, and what is said."""
    typed = {name: [TYPES, line] for line in faults.splitlines() for name in re.findall(r"\b(mistake_\w+)/", line)[:1]}
    names = sorted(path.name for path in packages.glob("mistake_*") if path.name not in typed)
    done = subprocess.run(
        [sys.executable, "-c", CHECKS, *names],
        capture_output=True,
        text=True,
        check=True,
        cwd=packages,
        env=environment(),
    )
    return typed | json.loads(done.stdout.splitlines()[-1])


def test_the_example_has_no_mistake(found):
    assert "mistake_none" not in found


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake, found):
    by, said = found[f"mistake_{[*MISTAKES].index(mistake)}"]
    assert by == MISTAKES[mistake][-1], said
