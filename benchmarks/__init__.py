"""Benchmarks against other loaders: ``python -m benchmarks``, or ``./dev bench`` with the peers installed."""
