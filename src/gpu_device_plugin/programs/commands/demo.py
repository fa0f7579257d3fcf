"""``gpu-node demo``: watch the plugin at work."""

from __future__ import annotations

import argparse
import math


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "--speed",
        type=_speed,
        metavar="N",
        help="how many times faster the pauses are, 0 for none (default: 1 on a terminal, else 0)",
    )
    parser.add_argument(
        "--metrics-address",
        metavar="HOST:PORT",
        help="where page and metrics are served meanwhile; empty for nowhere (default: a free "
        "port on loopback)",
    )


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 <= speed <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 100")
    return speed


def run_demo_command(given: argparse.Namespace) -> int:
    """Runs the demonstration; its exit code."""
    from gpu_device_plugin.errors import UsageError
    from gpu_device_plugin.simulation.demo.demo import run_demo
    from gpu_device_plugin.simulation.page_address import FREE_LOOPBACK
    from gpu_device_plugin.web.address import read_address

    address = FREE_LOOPBACK if given.metrics_address is None else given.metrics_address
    try:
        if address:
            read_address(address, "--metrics-address")
    except UsageError as error:
        given.parser.error(str(error))
    return run_demo(given.speed, page_address=address)
