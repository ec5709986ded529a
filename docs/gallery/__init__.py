"""The pictures of the documentation's gallery, each made by a program that runs here: ``python -m docs.gallery [NAME ...]``.

Each module has ``measure()``, which runs the program and returns what it saw, and ``draw(seen)``, which makes the picture.
"""
