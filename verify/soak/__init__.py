"""A soak: bulk mode with fresh seeds for hours, failures made small and kept as vectors."""
