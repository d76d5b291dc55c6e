#!/usr/bin/env bash
# Run by Snakemake in the new environment, in the folder that Snakemake works in.
set -euo pipefail
if ! grep --quiet --no-messages '^name = "pwfl"$' pyproject.toml; then
  echo "pwfl is in no package registry: start \`snakemake --sdm conda\` in a checkout of it" >&2
  exit 1
fi
python -m pip install --no-deps --no-build-isolation --editable .
