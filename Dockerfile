# The image that a job of the workflow runs in, for `snakemake --executor kubernetes --container-image IMAGE`.
# It has the versions of the lock files, as addresses of results follow from them.
FROM python:3.12-slim AS cpu
WORKDIR /opt/pwfl
COPY envs/requirements.lock envs/kubernetes.lock envs/
RUN python -m pip install --no-cache-dir --require-hashes -r envs/requirements.lock
RUN python -m pip install --no-cache-dir --require-hashes -r envs/kubernetes.lock
COPY pyproject.toml setup.py README.md LICENSE Snakefile CITATION.cff ./
COPY pkg pkg
COPY rules rules
COPY scripts scripts
COPY report report
COPY profiles profiles
COPY envs envs
COPY examples examples
RUN python -m pip install --no-cache-dir --no-deps --no-build-isolation .

# The same with NVIDIA's libraries, for training on a GPU: docker build --target gpu .
FROM cpu AS gpu
COPY envs/gpu.lock envs/
RUN python -m pip install --no-cache-dir --require-hashes -r envs/gpu.lock

FROM cpu
