"""Measured runs: read, priced by the product's own cost model, compared, and fitted to. Knows no rule and no search."""
