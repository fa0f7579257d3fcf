"""Which GPUs are looked at, and how users name them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.inventories import a_gpu, a_node, cut_gpu

from gpu_device_plugin.config.model import Config
from gpu_device_plugin.errors import ConfigError, InitError
from gpu_device_plugin.hardware.model import Inventory, Links
from gpu_device_plugin.hardware.simulated import SimulatedBackend
from gpu_device_plugin.inspection.topology_choice import Request, choose
from gpu_device_plugin.inspection.topology_data import to_json
from gpu_device_plugin.inspection.topology_read import Survey, survey
from gpu_device_plugin.inspection.topology_select import (
    Indices,
    find_positions,
    parse_list,
    ranges,
)
