#!/usr/bin/env bash
# Run by Snakemake in the new environment, in the folder that `snakemake` was started in.
set -euo pipefail
if test -f pyproject.toml; then  # a checkout runs its own code
  python -m pip install --no-deps --no-build-isolation --editable .
else
  python -m pip install --no-deps pwfl
fi
