"""What the installation is called by."""
