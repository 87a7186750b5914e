"""Measured runs: what they say of the cost model's few parameters, and how far its predictions are from them.

Reads tables of measured rows, turns each row into a case that the product's own cost model prices, or leaves it out with a
reason. Knows models, plans, hardware and cost; no proposal, no rule, no search.
"""
