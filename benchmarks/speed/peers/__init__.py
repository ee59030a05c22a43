"""What the speed of this package is measured against, each written as a competent user would write it."""
