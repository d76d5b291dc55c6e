"""Put the workflow, at the top of a checkout, into the wheel: pyproject.toml cannot do so."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

WORKFLOW = (
    "Snakefile",
    "CITATION.cff",
    "rules/*.smk",
    "scripts/*.py",
    "report/*.rst",
    "envs/environment.*",
    "envs/[gkrs]*.lock",
    "profiles/*/*.yaml",
    "examples/local_dp_mac/*.*",
    "examples/local_dp_mac/local_dp_mac/*.py",
    "examples/local_dp_mac/local_dp_mac/captions/*.rst",
    "examples/own_air/*.*",
)


class WithWorkflow(build_py):
    """The build command that puts the workflow's files into the package's folder `bundled` (`pwfl.workflow.folder`)."""

    def run(self):
        """Build the package and copy the files; an editable installation runs the checkout's files without copies."""
        super().run()
        for file in () if self.editable_mode else (file for pattern in WORKFLOW for file in Path().glob(pattern)):
            target = Path(self.build_lib, "pwfl/bundled", file)
            self.mkpath(str(target.parent))
            self.copy_file(str(file), str(target))


setup(cmdclass={"build_py": WithWorkflow})
