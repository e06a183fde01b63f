"""Assets of the pipeline: one folder a layer, and what SQL cannot say of them."""
