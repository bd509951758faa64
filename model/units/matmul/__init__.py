"""The matrix unit: its configuration, what travels over its streams, its register map."""
