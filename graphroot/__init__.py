"""What the installation is called by, the command ``graphroot``, and how our packages share names with a program's."""

#: The version of the package.
__version__ = "0.1.0"
