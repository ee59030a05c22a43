"""The latent path of every logged signal, and what is asked of it: level, change, best, loss, onset."""
