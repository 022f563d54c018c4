"""Pictures of a pool: one model, and its views as text, SVG and HTML."""
