"""The definition inside the models of other libraries, one library a module."""
