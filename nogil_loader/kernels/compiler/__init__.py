"""How kernels are compiled, kept and found again."""
