"""Augmentations as this project and its peers declare them, for the groups that compare their speed."""
