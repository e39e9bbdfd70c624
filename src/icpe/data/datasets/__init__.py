"""The catalogue of public data sets and how to get them."""
