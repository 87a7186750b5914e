"""The search: the declared space of plans, exact solvers, candidates in the order of their step time. Knows no rule."""
