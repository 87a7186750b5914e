"""Quantiles of Student's t distribution for an even number of degrees of freedom, where it is a finite sum."""

from __future__ import annotations

from math import atan, cos, inf, pi, sin, sqrt, tan


def within(t: float, freedom: int) -> float:
    """P(|T| <= t): with theta = arctan(t / sqrt(freedom)), sin(theta) times the sum over k below freedom / 2 of
    cos(theta)^2k (1 3 ... 2k-1) / (2 4 ... 2k) (Abramowitz and Stegun, 26.7.4). Even `freedom` of at least 2."""
    theta = atan(t / sqrt(freedom)) if t < inf else pi / 2
    part, whole = 1.0, 1.0
    for k in range(1, freedom // 2):
        part *= cos(theta) ** 2 * (2 * k - 1) / (2 * k)
        whole += part
    return sin(theta) * whole


def quantile(probability: float, freedom: int) -> float:
    """The t that a T of `freedom` degrees stays below with `probability`, from 0.5 to below 1."""
    low, high = 0.0, pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        if within(sqrt(freedom) * tan(middle), freedom) < 2 * probability - 1:
            low = middle
        else:
            high = middle
    return sqrt(freedom) * tan(low)
