"""The published site of the nights: static pages with relative links that load nothing from other sites."""
