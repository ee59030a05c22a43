"""What happened to others when their settings changed: how probably a run fails at settings nobody has tried here."""
