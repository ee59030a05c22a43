"""Stiffness of an update, measured from its gradients and not from any reward curve."""
