"""Completions of ``gpu-node`` for the shells, from one model of its commands and options."""
