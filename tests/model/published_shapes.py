"""The models that the tests count, stated by their published shapes."""

from __future__ import annotations

from dataclasses import replace

from planproof.model import LatentAttention, MixtureOfExperts, Transformer

GPT2_XL = Transformer(
    layers=48, hidden=1600, heads=25, kv_heads=25, head_dim=64, ffn=6400, vocabulary=50257, gated=False,
    tied_embeddings=True, norm="layer", learned_positions=1024, attention_bias=True, output_bias=True, mlp_bias=True,
)  # fmt: skip
GPT3_175B = replace(
    GPT2_XL, layers=96, hidden=12288, heads=96, kv_heads=96, head_dim=128, ffn=49152, learned_positions=2048
)
LLAMA3_8B = Transformer(
    layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=14336, vocabulary=128256, gated=True,
    tied_embeddings=False, norm="rms",
)  # fmt: skip
LLAMA3_70B = replace(LLAMA3_8B, layers=80, hidden=8192, heads=64, ffn=28672)
LLAMA3_405B = replace(LLAMA3_8B, layers=126, hidden=16384, heads=128, ffn=53248)
MIXTRAL_8X7B = replace(LLAMA3_8B, vocabulary=32000, moe=MixtureOfExperts(experts=8, top_k=2, ffn=14336))
DEEPSEEK_V3 = Transformer(
    layers=61, hidden=7168, heads=128, kv_heads=128, head_dim=192, ffn=18432, vocabulary=129280, gated=True,
    tied_embeddings=False, norm="rms",
    moe=MixtureOfExperts(
        experts=256, top_k=8, ffn=2048, first_dense=3, shared_experts=1, shared_ffn=2048, router_bias=True
    ),
    latent=LatentAttention(kv_rank=512, q_rank=1536, rope_head_dim=64, nope_head_dim=128, value_head_dim=128),
)  # fmt: skip
ALL = (GPT2_XL, GPT3_175B, LLAMA3_8B, LLAMA3_70B, LLAMA3_405B, MIXTRAL_8X7B, DEEPSEEK_V3)
