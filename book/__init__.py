"""What turns docs/ into the site, a step a folder: stage, finish, and make, which runs them."""
