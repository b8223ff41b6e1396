"""The documents that measurements are kept in, and their schemas."""
