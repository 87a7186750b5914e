"""The forms of models that `model.graph` names by their family. Loaded where there is one to read, and for the schema."""

from typing import Annotated, Literal

from pydantic import Field

from .schema import TransformerShape
from .section import Section

Layers = Annotated[int, Field(ge=1, le=10**5)]
Width = Annotated[int, Field(ge=1, le=10**7)]
Heads = Annotated[int, Field(ge=1, le=10**5)]
Pixels = Annotated[int, Field(ge=1, le=2**15)]


class WideResNetForm(Section):
    """A residual network of bottlenecks on square pictures of three channels."""

    family: Literal["wide_resnet"]
    layers: Layers | None = Field(None, description="depth: 50, 101, 152 or 200; or state 'blocks'")
    blocks: Annotated[list[Layers], Field(min_length=1, max_length=8)] | None = Field(
        None, description="blocks of each group, in place of 'layers': [3, 4, 6, 3] is depth 50"
    )
    base_channels: Width | None = Field(None, description="of the stem and first group; each later one doubles them; default 64")
    width_factor: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None, description="channels of the 3 x 3 convolution over the group's; default 1 (ResNet)"
    )
    reduction_width_factor: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None, description="the same of the 1 x 1 convolution before it; default: width_factor (torchvision); Alpa's networks: 1"
    )
    image_size: Pixels | None = Field(None, description="pixels along an edge")
    classes: Width | None = Field(None, description="of the classifier; default 1000")


class TowerForm(Section):
    """Layers of an encoder or decoder without embedding and head."""

    layers: Layers | None = Field(None, description="blocks")
    hidden: Width | None = Field(None, description="residual width")
    heads: Heads | None = Field(None, description="query heads")
    kv_heads: Heads | None = Field(None, description="key/value heads; default: heads")
    head_dim: Heads | None = Field(None, description="default: hidden / heads")
    ffn: Annotated[int, Field(ge=1, le=10**8)] | None = Field(None, description="inner width of the MLP")
    gated: bool | None = Field(None, description="three matrices in the MLP instead of two; default false")
    norm: Literal["layer", "rms"] | None = Field(None, description="default: rms of encoder and decoder, layer of a vision tower")
    biases: bool | None = Field(
        None, description="on the attention and MLP projections; default: false of encoder and decoder, true of a vision tower"
    )


class EncoderDecoderForm(Section):
    """An encoder whose output every layer of the decoder attends to, with one table of tokens: T5, say."""

    family: Literal["encoder_decoder"]
    encoder: TowerForm | None = Field(None, description="the layers that read the source, of the workload's sequence length")
    decoder: TowerForm | None = Field(None, description="the layers that write the target; default: as the encoder")
    vocabulary: Annotated[int, Field(ge=1, le=10**8)] | None = Field(None, description="rows of the shared table")
    tied_embeddings: bool | None = Field(None, description="the head is the table; default true")
    relative_positions: Annotated[int, Field(ge=0, le=10**6)] | None = Field(
        None, description="rows of the table of relative positions in the first layer of each tower; 0: rotary; default 32"
    )
    target_length: Annotated[int, Field(ge=1, le=10**8)] | None = Field(
        None, description="tokens of a target; default: the workload's sequence length"
    )


class VisionTowerForm(TowerForm):
    """A vision transformer: square patches of square pictures."""

    image_size: Pixels | None = Field(None, description="pixels along an edge")
    patch_size: Pixels | None = Field(None, description="of a patch; divides image_size")
    class_token: bool | None = Field(None, description="a learned token beside the patches; default true")
    patch_bias: bool | None = Field(None, description="on the product of patches; default true (CLIP: false)")
    qkv_bias: bool | None = Field(None, description="on query, key and value; default: biases")
    qk_norm: bool | None = Field(None, description="a norm of all heads on queries and keys (InternViT-6B); default false")
    input_norm: bool | None = Field(None, description="a norm before the layers (CLIP); default false")
    final_norm: bool | None = Field(None, description="a norm after the layers; default true (InternViT: false)")
    layer_scale: bool | None = Field(None, description="a learned factor a channel on what a layer adds; default false")


class ProjectorForm(Section):
    """From the tower's width to the decoder's."""

    layers: Annotated[int, Field(ge=1, le=16)] | None = Field(None, description="products, with an activation between; default 1")
    merge: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None, description="n: n x n patches become one token of n^2 times the width (InternVL, Qwen2-VL: 2); default 1"
    )
    norm: bool | None = Field(None, description="a layer norm before it; default false")


class VisionDecoderForm(Section):
    """A vision tower before a decoder that reads its patches."""

    family: Literal["vision_decoder"]
    vision: VisionTowerForm | None = Field(None, description="the tower")
    projector: ProjectorForm | None = Field(None, description="from its width to the decoder's; default: one product")
    decoder: TransformerShape | None = Field(None, description="the decoder's shapes, as in model.transformer")
    images: Annotated[int, Field(ge=1, le=10**4)] | None = Field(None, description="pictures (or tiles) a sequence; default 1")
    fusion: Literal["prefix", "cross_attention"] | None = Field(
        None, description="patches stand in the sequence, before the text, or each layer attends to them; default prefix"
    )


#: The forms by the name of their family.
FAMILIES: dict[str, type[WideResNetForm] | type[EncoderDecoderForm] | type[VisionDecoderForm]] = {
    "wide_resnet": WideResNetForm,
    "encoder_decoder": EncoderDecoderForm,
    "vision_decoder": VisionDecoderForm,
}
