"""Readers: one file each; `choice` decides which of them reads a batch."""
