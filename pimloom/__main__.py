"""`python -m pimloom`."""

from pimloom.cli import main

main()
