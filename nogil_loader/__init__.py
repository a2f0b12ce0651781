"""A multithreaded data loader that never loses a sample, never hangs and says why it failed."""
