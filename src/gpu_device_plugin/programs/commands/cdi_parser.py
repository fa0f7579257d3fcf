"""Help and mistakes on the command line of ``gpu-node``."""

from __future__ import annotations

import argparse
from typing import NoReturn

EPILOG = (
    "All other options of nvidia-device-plugin are taken as well, and its variables and "
    "configuration file count as they do there, so that what is made here is what the plugin makes."
)


class Parser(argparse.ArgumentParser):
    """Tells of a mistake in one line, and of the plugin's options only when help is wanted."""

    def error(self, message: str) -> NoReturn:
        """Ends the program with exit code 2."""
        text = " ".join(message.split())
        self.exit(2, f"error: {text} (see {self.prog} --help)\n")

    def format_help(self) -> str:
        """The help, with the options of the plugin where they are taken."""
        if not self.get_default("takes_options_of_plugin"):
            return super().format_help()
        from gpu_device_plugin.programs.commands.cdi_options import add_options_of_plugin

        helper = argparse.ArgumentParser(
            prog=self.prog,
            usage=f"{self.prog} [OPTIONS] [OPTIONS OF nvidia-device-plugin]",
            description=self.description,
            epilog=EPILOG,
            parents=[self],
            add_help=False,
            formatter_class=self.formatter_class,
        )
        add_options_of_plugin(helper)
        return helper.format_help()
