"""Loading more than memory holds: ragged samples, the loaders that are tried, and processes that run them."""
