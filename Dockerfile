# The page and the service on the CPU, as a user without rights.
#
#   docker build -t neuralsolver --build-arg TORCH_INDEX=… .
#   docker run --rm -p 127.0.0.1:8000:8000 neuralsolver
#
# docs/serve.md says how to run it behind a proxy.
FROM python:3.11-slim AS build
WORKDIR /build
RUN python -m venv /venv
ENV PATH=/venv/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# without an index of CPU builds (torch's page on installing names it) the usual one brings
# gigabytes of accelerator libraries: docker build --build-arg TORCH_INDEX=…
ARG TORCH_INDEX
RUN pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch==2.13.0
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY neuralsolver ./neuralsolver
RUN pip install --constraint constraints.txt '.[serve]'

FROM python:3.11-slim
RUN useradd --system --create-home --uid 10001 ens
COPY --from=build /venv /venv
COPY results/desk /srv/results/desk
ENV PATH=/venv/bin:$PATH OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1 HOME=/home/ens MPLCONFIGDIR=/home/ens/.matplotlib
WORKDIR /srv
USER ens
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=40s --retries=3 \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
# answers to localhost; others: docker run … neuralsolver --name ens.example.org
ENTRYPOINT ["ens", "serve", "--host", "0.0.0.0", "--allow-remote", "--port", "8000", "--name", "localhost"]
