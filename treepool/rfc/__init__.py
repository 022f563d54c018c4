"""The formats: one module per RFC, text or JSON in, data out, and back. No policy lives here."""
