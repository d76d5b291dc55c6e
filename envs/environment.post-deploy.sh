#!/usr/bin/env bash
# Run by Snakemake in the new environment, in the folder that `snakemake` was started in.
set -euo pipefail
python -m pip install --no-deps --no-build-isolation --editable .
