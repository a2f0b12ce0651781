"""Kernels of images: rows of pixels, and what is done to them."""
