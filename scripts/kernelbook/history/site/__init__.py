"""The published site of the nights: static pages that link to each other relatively and load nothing from elsewhere."""
