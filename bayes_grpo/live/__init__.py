"""Many runs at a time, while they grow."""
