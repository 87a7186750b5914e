"""The command line: one module a group of commands. Nothing is decided here but formats, files and exit status."""

from .main import main

__all__ = ["main"]
