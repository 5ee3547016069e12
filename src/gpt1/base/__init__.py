"""Ground floor: what every room needs and no room owns."""
