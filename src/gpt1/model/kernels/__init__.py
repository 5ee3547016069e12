"""Fused twins of plain functions, for GPUs; imported only where they run, because they need Triton."""
