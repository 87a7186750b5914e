"""Strict YAML and JSON documents with the place of every value: the lowest layer; knows no meaning."""

from .parse import Document, bare_document, load_document, parse_document
from .pointers import join_pointer, pointer_to, split_pointer
from .source import quoted

__all__ = [
    "Document",
    "bare_document",
    "join_pointer",
    "load_document",
    "parse_document",
    "pointer_to",
    "quoted",
    "split_pointer",
]
