# syntax=docker/dockerfile:1.18

FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG VERSION=local
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/ ./worker ./starter \
    && mv /out/worker /out/chimera-worker \
    && mv /out/starter /out/chimera \
    && mkdir -p /state/chimera/engine /state/chimera/tools /state/chimera/guardian /state/chimera/effects /state/keyring

# Debian rather than an empty image: MCP servers and executable skills run as
# children of the worker and need a system around them. Build FROM this image to
# add the programs that yours need, which root owns. The user chimera-children, as whom
# they run, owns nothing.
FROM debian:12.12-slim
RUN useradd --system --uid 10002 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin chimera-children
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/chimera-worker /out/chimera /usr/local/bin/
COPY --from=build --chown=10001:10001 /state/chimera /var/lib/chimera
COPY --from=build --chown=10001:10001 /state/keyring /var/lib/keyring
ARG VERSION=local
LABEL org.opencontainers.image.title="chimera-worker" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
USER 10001:10001
WORKDIR /var/lib/chimera
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/chimera-worker"]
