"""A model that a proposal names by its family under `model.graph`: checked, completed by documented defaults, and counted."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Final

from ..document import Document, pointer_to
from ..errors import InputError
from ..frozen import dataclass
from ..model import Transformer
from ..model.builders_vision import Projector, VisionTower
from ..model.families import DEPTHS, EncoderDecoder, Family, VisionDecoder, WideResNet
from ..model.graph import OPERATOR_LIMIT, GraphError
from ..model.graph_model import REFERENCE
from ..model.transformer import problems
from .collector import Collector
from .load import validate_part
from .resolve_graph import DOCS, GraphCase, graph_case
from .resolve_model import transformer_of
from .schema_families import FAMILIES, EncoderDecoderForm, TowerForm, VisionDecoderForm, VisionTowerForm, WideResNetForm

_PAPER: Final = "the model's configuration or its paper"
#: What is wrong between shapes, by the code of the problem.
_WORDS: Final = {
    "exceeds": "is above what bounds it", "indivisible": "does not divide what it must", "odd": "must be even",
    "mismatch": "must be equal", "empty": "leaves no layer", "too_large": "is too large",
}  # fmt: skip


def family_graph(
    data: dict[str, Any], document: Document, base: str, path: str, sequence: int | None, collect: Collector
) -> GraphCase | None:
    """The graph of the family at the pointer `base` of a document, or None with what is missing noted. Raises InputError."""
    name = data["family"]
    form = FAMILIES.get(name) if isinstance(name, str) else None
    if form is None:
        near = get_close_matches(str(name), FAMILIES, n=1, cutoff=0.5)
        raise InputError(
            f"'{str(name)[:60]}' is no family" + (f"; did you mean '{near[0]}'?" if near else ""),
            place=document.place(base + "/family"), code="input.graph.family",
            remedy=f"Families are {', '.join(FAMILIES)}; any other model is given by its operators. {DOCS}",
        )  # fmt: skip
    stated = validate_part(form, data, document, base)
    reading = _Reading(document, base, path, sequence, collect)
    family: Family | None
    if isinstance(stated, WideResNetForm):
        family = reading.wide_resnet(stated)
    elif isinstance(stated, EncoderDecoderForm):
        family = reading.encoder_decoder(stated)
    else:
        family = reading.vision_decoder(stated)
    return None if family is None else reading.case(family)


@dataclass(slots=True)
class _Reading:
    """One family on its way. `at`: where its depth stands, for a graph that is too large."""

    document: Document
    base: str
    path: str
    sequence: int | None
    collect: Collector
    depth: str = ""

    def case(self, family: Family) -> GraphCase:
        """The graph with what it counts; of the least length where none is stated."""
        if family.least_operators > OPERATOR_LIMIT:
            raise InputError(
                f"the graph has more than {OPERATOR_LIMIT:,} operators", place=self.document.place(self.base + self.depth),
                code="input.graph.size", remedy="State the layers of one stage, or of each kind.",
            )  # fmt: skip
        try:
            graph = family.graph(REFERENCE, self.sequence or family.least_sequence, "bf16")
        except GraphError as error:
            place = self.document.place(self.base + self.depth)
            if error.code == "input.graph.sequence":
                place = self.collect.place("/workload/sequence_length")
            raise InputError(error.message, place=place, code=error.code, remedy=error.remedy) from None
        return graph_case(family, graph, self.path, None if self.base else self.document.name)

    def wrong(self, key: str, message: str, remedy: str) -> InputError:
        """An error at a key of the family."""
        named = ("model.graph" + key).replace("/", ".")
        return InputError(
            f"{named}: {message}", place=self.document.place(self.base + key), code="input.graph.family", remedy=remedy
        )

    def lacks(self, section: object, keys: tuple[str, ...], under: str = "") -> bool:
        """Whether keys of a section are missing; each is noted."""
        gaps = [key for key in keys if section is None or getattr(section, key) is None]
        for key in gaps:
            pointer = self.path + under + pointer_to(key)
            self.collect.lacks("shapes", pointer, f"'{pointer.strip('/').replace('/', '.')}'", _PAPER)
        return bool(gaps)

    def default(self, key: str, value: Any, default: Any, why: str) -> Any:
        """A value, or its documented default, which is noted."""
        if value is not None:
            return value
        pointer = self.path + key
        self.collect.assume(pointer.strip("/").replace("/", "."), pointer, str(default).lower(), why)
        return default

    def wide_resnet(self, form: WideResNetForm) -> WideResNet | None:
        """The shapes of a residual network."""
        if form.layers is not None and form.blocks is not None:
            raise self.wrong("/blocks", "'layers' says the blocks of each group, too", "Keep one of them.")
        if form.layers is not None and form.layers not in DEPTHS:
            known = ", ".join(map(str, DEPTHS))
            raise self.wrong(
                "/layers", f"{form.layers} is not a depth of the family: {known}",
                "Write one of them, or the blocks of each group, as in blocks: [3, 4, 6, 3].",
            )  # fmt: skip
        missing = self.lacks(form, ("image_size",))
        if form.blocks is None:
            missing |= self.lacks(form, ("layers",))
        if missing:
            return None
        assert form.image_size is not None
        blocks = tuple(form.blocks or DEPTHS[form.layers or 0])
        self.depth = "/blocks" if form.blocks else "/layers"
        least = 2 ** (len(blocks) + 1)
        if form.image_size < least:
            raise self.wrong(
                "/image_size", f"a picture of {form.image_size} pixels is halved {len(blocks) + 1} times",
                f"{least} pixels or more leave one.",
            )  # fmt: skip
        channels = self.default("/base_channels", form.base_channels, 64, "ResNet (He et al. 2015)")
        factor = self.default("/width_factor", form.width_factor, 1, "ResNet (He et al. 2015)")
        if form.reduction_width_factor is None and factor > 1:
            self.default("/reduction_width_factor", None, factor, "as wide as the 3 x 3 convolution, as in torchvision")
        classes = self.default("/classes", form.classes, 1000, "ImageNet")
        return WideResNet(blocks, channels, factor, form.reduction_width_factor or factor, form.image_size, classes)

    def encoder_decoder(self, form: EncoderDecoderForm) -> EncoderDecoder | None:
        """The shapes of an encoder and a decoder."""
        missing = self.lacks(form, ("encoder", "vocabulary"))
        if form.encoder is None or missing:
            return None
        assert form.vocabulary is not None
        tied = self.default("/tied_embeddings", form.tied_embeddings, True, "T5 (Raffel et al. 2019)")
        towers = []
        for key, one in (("/encoder", form.encoder), ("/decoder", form.decoder or form.encoder)):
            towers.append(self.tower(one, key, form.vocabulary, tied, norm="rms", biases=False))
        encoder, decoder = towers
        if encoder is None or decoder is None:
            return None
        if encoder.hidden != decoder.hidden:
            raise self.wrong(
                "/decoder/hidden", f"the decoder is {decoder.hidden} wide and the encoder {encoder.hidden}",
                "They share one table of tokens: write the same width.",
            )  # fmt: skip
        self.depth = "/decoder/layers" if form.decoder and decoder.layers > encoder.layers else "/encoder/layers"
        relative = self.default("/relative_positions", form.relative_positions, 32, "T5 (Raffel et al. 2019)")
        if form.target_length is None and self.sequence is not None:
            self.default("/target_length", None, self.sequence, "as long as the source")
        return EncoderDecoder(encoder, decoder, form.target_length, relative)

    def vision_decoder(self, form: VisionDecoderForm) -> VisionDecoder | None:
        """The shapes of a vision tower and its decoder."""
        if self.lacks(form, ("vision", "decoder")):
            return None
        assert form.vision is not None
        assert form.decoder is not None
        tower = self.vision(form.vision)
        decoder = transformer_of(form.decoder, self.sequence, self.collect, self.path + "/decoder")
        if tower is None or decoder is None:
            return None
        self.check(decoder, "/decoder")
        stated = form.projector
        projector = Projector(
            (stated.layers if stated else None) or 1, (stated.merge if stated else None) or 1, bool(stated and stated.norm)
        )
        if stated is None:
            self.default("/projector", None, "one product", "nothing else is stated")
        if tower.side % projector.merge:
            raise self.wrong(
                "/projector/merge", f"{tower.side} patches along an edge do not divide into {projector.merge}",
                "Write a divisor of image_size / patch_size.",
            )  # fmt: skip
        cross = self.default("/fusion", form.fusion, "prefix", "LLaVA (Liu et al. 2023)") == "cross_attention"
        if cross and (decoder.moe is not None or decoder.latent is not None):
            part = "moe" if decoder.moe is not None else "mla"
            raise self.wrong(
                f"/decoder/{part}", "cross attention is built for layers with an MLP and full keys and values",
                "Write fusion: prefix, or give the model by its operators.",
            )  # fmt: skip
        images = self.default("/images", form.images, 1, "one picture a sequence")
        self.depth = "/decoder/layers" if decoder.layers > tower.model.layers else "/vision/layers"
        return VisionDecoder(tower, projector, decoder, images, cross)

    def vision(self, form: VisionTowerForm) -> VisionTower | None:
        """The shapes of a vision transformer."""
        missing = self.lacks(form, ("image_size", "patch_size"), "/vision")
        biases = True if form.biases is None else form.biases
        model = self.tower(
            form, "/vision", 1, True, norm="layer", biases=biases, qkv_bias=form.qkv_bias, qk_norm=bool(form.qk_norm),
            final_norm=self.default("/vision/final_norm", form.final_norm, True, "ViT (Dosovitskiy et al. 2020)"),
        )  # fmt: skip
        if missing or model is None:
            return None
        assert form.image_size is not None
        assert form.patch_size is not None
        if form.image_size % form.patch_size:
            whole = form.image_size // form.patch_size * form.patch_size
            raise self.wrong(
                "/vision/patch_size", f"{form.image_size} pixels do not divide into patches of {form.patch_size}",
                f"Write the size that the tower sees: {whole}, say." if whole else "A patch is at most as large as its picture.",
            )  # fmt: skip
        token = self.default("/vision/class_token", form.class_token, True, "ViT (Dosovitskiy et al. 2020)")
        return VisionTower(
            model, form.image_size, form.patch_size, token, True if form.patch_bias is None else form.patch_bias,
            bool(form.input_norm), bool(form.layer_scale),
        )  # fmt: skip

    def tower(
        self, form: TowerForm, key: str, vocabulary: int, tied: bool, *, norm: str, biases: bool, qkv_bias: bool | None = None,
        qk_norm: bool = False, final_norm: bool = True,
    ) -> Transformer | None:  # fmt: skip
        """The layers of a tower."""
        if self.lacks(form, ("layers", "hidden", "heads", "ffn"), key):
            return None
        assert form.layers
        assert form.hidden
        assert form.heads
        assert form.ffn
        if form.head_dim is None and form.hidden % form.heads:
            raise self.wrong(
                key + "/heads", f"hidden {form.hidden} is not divisible by {form.heads} heads",
                "State 'head_dim', or a number of heads that divides hidden.",
            )  # fmt: skip
        biased = biases if form.biases is None else form.biases
        model = Transformer(
            layers=form.layers, hidden=form.hidden, heads=form.heads, kv_heads=form.kv_heads or form.heads,
            head_dim=form.head_dim or form.hidden // form.heads, ffn=form.ffn, vocabulary=vocabulary, gated=bool(form.gated),
            tied_embeddings=tied, norm=form.norm or norm, attention_bias=biased if qkv_bias is None else qkv_bias,
            output_bias=biased, mlp_bias=biased, wide_qk_norm=qk_norm, final_norm=final_norm,
        )  # fmt: skip
        self.check(model, key)
        return model

    def check(self, model: Transformer, key: str) -> None:
        """Raise InputError for shapes that cannot be."""
        for one in problems(model):
            said = ", ".join(f"{name} {value}" for name, value in one.detail)
            field = one.field.replace("latent.", "mla.").replace(".", "/")
            raise self.wrong(f"{key}/{field}", f"{_WORDS.get(one.code, one.code)} ({said})", "Check the model's configuration.")
