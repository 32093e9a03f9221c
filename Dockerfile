FROM golang:1.26-bookworm AS build
ARG VERSION=dev
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/guyline ./cmd/guyline
RUN mkdir -p /out/cache /out/data /out/reports && mkdir -m 1777 /out/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build --chown=65532:65532 /out/ /
ENV GUYLINE_CACHE_DIR=/cache
USER 65532:65532
WORKDIR /data
VOLUME ["/data", "/cache"]
ENTRYPOINT ["/guyline"]
CMD ["run"]
