# kplan as an image: a small Python, kplan in an environment of its own, no root, nothing written to the file system.
#
#   docker build -t kplan .
#   docker run --rm --read-only -v "$PWD:/work:ro" kplan place web.yaml --snapshot prod.json.gz
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml MANIFEST.in README.md LICENSE ./
COPY completions completions
COPY kplan kplan
RUN python -m venv /opt/kplan \
    && /opt/kplan/bin/pip install --no-cache-dir --disable-pip-version-check . \
    && /opt/kplan/bin/python -m compileall -q /opt/kplan/lib \
    && /opt/kplan/bin/pip uninstall --yes pip

FROM python:3.13-slim
LABEL org.opencontainers.image.title="kplan" \
      org.opencontainers.image.description="Why is my pod pending, can it be scheduled, what if a node goes" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/kplan /opt/kplan
ENV PATH=/opt/kplan/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /work
ENTRYPOINT ["kplan"]
CMD ["--help"]
