"""Networks behind signatures that take images as users have them."""
