# The image of all programs: some packages of Debian, the locked dependencies, and this project.
#
#   make image
#   podman build --build-arg COMMIT=$(git rev-parse HEAD) --tag gpu-device-plugin:v0.19.3 .
#
# The last stage runs as nobody in particular; manifests that do more name a user. For those that
# name none, as many for the original do, there is the stage "root":
#
#   podman build --target root --tag gpu-device-plugin:v0.19.3-root .

ARG BUILDER=docker.io/library/python:3.13-slim-trixie

# Python to build with, and apt to fetch packages with; none of it gets into the image.
FROM ${BUILDER} AS build
WORKDIR /source
COPY tools/build_rootfs.py tools/build_sbom.py tools/build_deployment_tools.py tools/
COPY pyproject.toml requirements.lock requirements-dev.lock README.md LICENSE ./
COPY src src
RUN python tools/build_rootfs.py /rootfs

FROM scratch AS root
COPY --from=build /rootfs /
ARG VERSION=0.19.3
ARG COMMIT=""
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 \
    NVIDIA_DISABLE_REQUIRE=true \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    GPU_DEVICE_PLUGIN_COMMIT=${COMMIT}
LABEL org.opencontainers.image.title="gpu-device-plugin" \
      org.opencontainers.image.description="NVIDIA's Kubernetes GPU node stack in Python" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}" \
      io.k8s.display-name="gpu-device-plugin" \
      name="gpu-device-plugin" \
      version="${VERSION}" \
      release="N/A" \
      summary="Device plugin, GPU feature discovery, config-manager and MPS control daemon" \
      description="See summary"
USER 0:0
ENTRYPOINT ["nvidia-device-plugin"]

FROM root AS nonroot
USER 65532:65532
