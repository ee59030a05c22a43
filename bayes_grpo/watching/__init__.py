"""A log that grows: one look at it, and looks whenever it has grown."""
