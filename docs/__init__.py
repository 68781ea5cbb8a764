"""The pages, and the programs that draw and compute for them."""
