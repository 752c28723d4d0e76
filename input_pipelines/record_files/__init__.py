"""TFRecord files: their form, reading, writing, and what is damaged in them."""
