"""Screen source: pictures of displays, monitors and windows."""
