"""Declared augmentations that become kernels."""
