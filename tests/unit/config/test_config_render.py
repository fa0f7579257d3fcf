from __future__ import annotations

import json
from dataclasses import replace

from gpu_device_plugin.config.model import (
    Config,
    DeviceSelector,
    Flags,
    GfdFlags,
    Imex,
    ReplicatedResource,
    ReplicatedResources,
    ResourcePattern,
    Resources,
    Sharing,
)
from gpu_device_plugin.config.options import Program
from gpu_device_plugin.config.render import render
from gpu_device_plugin.config.testing import load_text

GFD = Program.GPU_FEATURE_DISCOVERY
DEFAULT = (
    '{"version":"v1","flags":{"migStrategy":"none","failOnInitError":true,"mpsRoot":"",'
    '"nvidiaDriverRoot":"/","nvidiaDevRoot":"/","gdrcopyEnabled":false,"gdsEnabled":false,'
    '"mofedEnabled":false,"useNodeFeatureAPI":null,"deviceDiscoveryStrategy":"auto","plugin":'
    '{"passDeviceSpecs":false,"deviceListStrategy":["envvar"],"deviceIDStrategy":"uuid",'
    '"cdiAnnotationPrefix":"cdi.k8s.io/","nvidiaCTKPath":"/usr/bin/nvidia-ctk",'
    '"containerDriverRoot":"/driver-root"}},"resources":{"gpus":[{"pattern":"*",'
    '"name":"nvidia.com/gpu"}]},"sharing":{"timeSlicing":{}},"imex":{}}'
)


def minified(config: Config) -> str:
    return json.dumps(json.loads(render(config)), separators=(",", ":"))


def test_the_default_output_is_that_of_the_original() -> None:
    resources = Resources(gpus=(ResourcePattern("*", "nvidia.com/gpu"),))
    assert minified(replace(load_text().config, resources=resources)) == DEFAULT


def test_an_empty_configuration() -> None:
    assert minified(Config()) == (
        '{"version":"v1","flags":{"migStrategy":null,"failOnInitError":null,'
        '"gdrcopyEnabled":null,"gdsEnabled":null,"mofedEnabled":null,"useNodeFeatureAPI":null,'
        '"deviceDiscoveryStrategy":null,"plugin":{"passDeviceSpecs":null,'
        '"deviceListStrategy":null,"deviceIDStrategy":null,"cdiAnnotationPrefix":null,'
        '"nvidiaCTKPath":null,"containerDriverRoot":null}},"resources":{"gpus":null},'
        '"sharing":{"timeSlicing":{}},"imex":{}}'
    )


def test_the_section_of_feature_discovery() -> None:
    assert minified(load_text(program=GFD).config).partition('"plugin":')[2] == (
        '{"passDeviceSpecs":null,"deviceListStrategy":null,"deviceIDStrategy":null,'
        '"cdiAnnotationPrefix":null,"nvidiaCTKPath":null,"containerDriverRoot":"/driver-root"},'
        '"gfd":{"oneshot":false,"noTimestamp":false,"sleepInterval":"1m0s",'
        '"outputFile":"/etc/kubernetes/node-feature-discovery/features.d/gfd",'
        '"machineTypeFile":"/sys/class/dmi/id/product_name"}},"resources":{"gpus":null},'
        '"sharing":{"timeSlicing":{}},"imex":{}}'
    )
    assert '"sleepInterval": null' in render(replace(Config(), flags=Flags(gfd=GfdFlags())))


def test_all_sections() -> None:
    item = ReplicatedResource("nvidia.com/gpu", 2, "nvidia.com/gpu.shared")
    config = Config(
        resources=Resources(gpus=(), mig=(ResourcePattern("1g*", "nvidia.com/s"),)),
        sharing=Sharing(
            time_slicing=ReplicatedResources(True, False, (item,)),
            mps=ReplicatedResources(
                False,
                True,
                (
                    replace(item, rename="", devices=DeviceSelector(all=False, count=3)),
                    replace(item, devices=DeviceSelector(all=False, references=("0", "0:1"))),
                ),
            ),
        ),
        imex=Imex((0,), required=True),
    )
    assert minified(config).partition('"resources":')[2] == (
        '{"gpus":[],"mig":[{"pattern":"1g*","name":"nvidia.com/s"}]},"sharing":{"timeSlicing":'
        '{"renameByDefault":true,"failRequestsGreaterThanOne":false,"resources":['
        '{"name":"nvidia.com/gpu","rename":"nvidia.com/gpu.shared","devices":"all",'
        '"replicas":2}]},"mps":{"failRequestsGreaterThanOne":true,"resources":['
        '{"name":"nvidia.com/gpu","devices":3,"replicas":2},{"name":"nvidia.com/gpu",'
        '"rename":"nvidia.com/gpu.shared","devices":["0","0:1"],"replicas":2}]}},'
        '"imex":{"channelIDs":[0],"required":true}}'
    )


def test_a_setting_that_v0_19_3_lacks_is_printed_if_it_differs() -> None:
    text = render(load_text(None, "--shared-devices-allocation-policy=packed").config)
    assert '"containerDriverRoot": "/driver-root",\n      "shared' in text
    assert '"sharedDevicesAllocationPolicy": "packed"' in text


def test_indentation_and_empty_collections() -> None:
    text = render(load_text("flags: {plugin: {deviceListStrategy: []}}").config)
    assert text.startswith('{\n  "version": "v1",\n  "flags": {\n    "migStrategy": "none",\n')
    assert '\n      "deviceListStrategy": [],\n' in text
    assert text.endswith('  "sharing": {\n    "timeSlicing": {}\n  },\n  "imex": {}\n}')


def test_escapes_are_those_of_go() -> None:
    flags = Flags(mps_root='<&>"\\\n\t\x01\x7f\u2028\u2029ü\U0001f600\udcff')
    text = render(replace(Config(), flags=flags))
    assert (
        r'"mpsRoot": "\u003c\u0026\u003e\"\\\n\t\u0001'
        "\x7f"
        r"\u2028\u2029ü"
        "\U0001f600\\ufffd"
    ) in text
    text.encode()


def test_infinity() -> None:
    assert '"sleepInterval": "infinite"' in render(
        load_text(None, "--sleep-interval=infinite", program=GFD).config
    )
