"""Families of models that a proposal names in place of their operators: shapes, and the operator graph that they amount to.

Vocabulary: a *sample* is what a sequence of the batch is: a picture, a pair of source and target, or text with its pictures.
Nothing here knows files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .builders import Shape
from .builders_convolution import wide_resnet_graph
from .builders_towers import encoder_decoder_graph
from .builders_vision import Projector, VisionTower, vision_graph
from .graph import GraphError, OperatorGraph
from .transformer import Transformer

#: Blocks of bottlenecks a group, by depth: 3 matrices a block, the stem and the classifier (He et al. 2015, arXiv 1512.03385,
#: table 1; 200: He et al. 2016, arXiv 1603.05027).
DEPTHS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3), 200: (3, 24, 36, 3)}


class Family(Protocol):
    """What a family can do."""

    @property
    def family(self) -> str:
        """Its name in a proposal."""

    @property
    def sequential(self) -> bool:
        """Whether its samples are sequences, so that their length is the workload's."""

    @property
    def least_sequence(self) -> int:
        """The shortest sequence that it can be built of."""

    @property
    def least_operators(self) -> int:
        """Its operators are no fewer: told before any is built."""

    def graph(self, batch: int, sequence: int, dtype: str) -> OperatorGraph:
        """The operators of `batch` samples, with the loss. Raises GraphError."""


@dataclass(frozen=True, slots=True)
class WideResNet:
    """A residual network of bottlenecks; see `wide_resnet_graph`."""

    blocks: tuple[int, ...]
    base_channels: int
    width_factor: int
    reduction_width_factor: int
    image_size: int
    classes: int
    family: str = "wide_resnet"
    sequential: bool = False
    least_sequence: int = 1

    @property
    def least_operators(self) -> int:
        """Ten a block."""
        return 10 * sum(self.blocks)

    def graph(self, batch: int, sequence: int, dtype: str) -> OperatorGraph:
        """The operators of `batch` pictures."""
        del sequence
        return wide_resnet_graph(
            batch, blocks=self.blocks, channels=self.base_channels, width_factor=self.width_factor,
            reduction_width_factor=self.reduction_width_factor, classes=self.classes, image=self.image_size, dtype=dtype,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class EncoderDecoder:
    """An encoder and a decoder that attends to it; `sequence` is the source's, the target's default."""

    encoder: Transformer
    decoder: Transformer
    target_length: int | None
    relative_positions: int
    family: str = "encoder_decoder"
    sequential: bool = True
    least_sequence: int = 1

    @property
    def least_operators(self) -> int:
        """Nine a layer."""
        return 9 * (self.encoder.layers + self.decoder.layers)

    def graph(self, batch: int, sequence: int, dtype: str) -> OperatorGraph:
        """The operators of `batch` pairs."""
        source, target = Shape(batch, sequence, causal=False), Shape(batch, self.target_length or sequence)
        return encoder_decoder_graph(
            self.encoder, self.decoder, source, target, buckets=self.relative_positions, dtype=dtype
        )


@dataclass(frozen=True, slots=True)
class VisionDecoder:
    """A vision tower before a decoder. `images` a sequence; `cross`: attended to, else in the sequence before the text."""

    vision: VisionTower
    projector: Projector
    decoder: Transformer
    images: int
    cross: bool
    family: str = "vision_decoder"
    sequential: bool = True

    @property
    def prefix(self) -> int:
        """Tokens of the decoder's sequence that are the pictures'."""
        return 0 if self.cross else self.images * (self.vision.side // self.projector.merge) ** 2

    @property
    def least_sequence(self) -> int:
        """One token of text."""
        return self.prefix + 1

    @property
    def least_operators(self) -> int:
        """Eight a layer."""
        return 8 * (self.vision.model.layers + self.decoder.layers)

    def graph(self, batch: int, sequence: int, dtype: str) -> OperatorGraph:
        """The operators of `batch` sequences of `sequence` tokens, pictures' and text's."""
        if sequence <= self.prefix:
            raise GraphError(
                f"a sequence of {sequence:,} tokens holds no text beside the {self.prefix:,} of its pictures",
                remedy=f"'workload.sequence_length' counts both: state {self.prefix + 1:,} or more.",
                code="input.graph.sequence",
            )  # fmt: skip
        return vision_graph(
            self.vision, batch * self.images, decoder=self.decoder, shape=Shape(batch, sequence), projector=self.projector,
            cross=self.cross, dtype=dtype,
        )  # fmt: skip
