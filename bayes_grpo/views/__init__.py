"""Results as documents, and documents on a terminal, in a notebook and as a page."""
