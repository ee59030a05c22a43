"""Pure JAX mathematics of the model: no NumPyro, no ArviZ, no pandas in here."""
