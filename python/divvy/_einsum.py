"""Calls of einsum that are not a string and operands, brought into that form."""

from . import _divvy


def unusual(*args, **options):
    raise TypeError("einsum: expected a string and operands")
