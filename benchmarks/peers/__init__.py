"""The contestants of `benchmarks.image_path`: a file each, whose `prepare(task)` makes it ready."""
