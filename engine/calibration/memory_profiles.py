from .memory_case import Kind

KIND=METIS=Kind("x",frozenset({"zzz"}),lambda t: iter(()))
GALVATRON=METIS
