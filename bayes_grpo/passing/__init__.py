"""pass@1 and pass@k of completions over a training, and the errors of the verifier that grades them."""
