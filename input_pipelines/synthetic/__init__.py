"""The default data: an impression log whose truth is known."""
