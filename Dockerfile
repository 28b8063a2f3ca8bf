# docker build --build-arg REVISION="$(git rev-parse HEAD)" -t ff-reconciler .
ARG BASE=debian:bookworm-slim
FROM ${BASE} AS build
RUN apt-get update && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      g++ cmake ninja-build pkg-config libpq-dev libboost-dev libboost-program-options-dev libyaml-cpp-dev \
      libspdlog-dev libfmt-dev prometheus-cpp-dev nlohmann-json3-dev
COPY CMakeLists.txt CMakePresets.json /source/
COPY lib /source/lib
COPY daemon /source/daemon
COPY migrations /source/migrations
COPY config /source/config
COPY systemd /source/systemd
ARG REVISION=unknown
RUN cd /source && \
    cmake --preset release -DFF_BUILD_TESTS=OFF -DFF_REVISION="$REVISION" && \
    cmake --build --preset release --target ff-reconcilerd && \
    strip build/release/ff-reconcilerd

FROM ${BASE}
RUN apt-get update && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      ca-certificates libpq5 libboost-program-options1.74.0 libyaml-cpp0.7 libspdlog1.10 libfmt9 \
      libprometheus-cpp-core1.0 && \
    rm -rf /var/lib/apt/lists/*
COPY --from=build /source/build/release/ff-reconcilerd /usr/bin/ff-reconcilerd
COPY config/container/ff-reconciler.yaml /etc/ff-reconciler/ff-reconciler.yaml
ARG REVISION=unknown
LABEL org.opencontainers.image.title="ff-reconciler" \
      org.opencontainers.image.description="Reconciler daemon for FlowFabric on PostgreSQL" \
      org.opencontainers.image.revision="$REVISION"
# A number, so that runAsNonRoot can be checked without a user database.
USER 65532:65532
EXPOSE 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["/usr/bin/ff-reconcilerd", "healthcheck", "--config", "/etc/ff-reconciler/ff-reconciler.yaml"]
ENTRYPOINT ["/usr/bin/ff-reconcilerd"]
CMD ["run", "--config", "/etc/ff-reconciler/ff-reconciler.yaml"]
