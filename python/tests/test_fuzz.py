"""Random einsums beside numpy's, and texts with random mistakes."""

import os
import random

import numpy as np

import divvy

# A longer run: DIVVY_FUZZ=20000 python3 -m pytest python/tests/test_fuzz.py
N = int(os.environ.get("DIVVY_FUZZ", "150"))
TYPES = "f8 f4 i8 i4 i2 i1 u4 u1 ?".split()


def random_operand(rng, letters, sizes, types):
    """An array with these dims, which may be transposed, sliced or reversed."""
    shape = [sizes[c] * rng.choice((1, 1, 2)) for c in letters]
    x = np.random.default_rng(rng.randrange(1 << 30)).integers(-3, 4, shape)
    x = x.astype(rng.choice(types))
    order = list(range(len(letters)))
    rng.shuffle(order)
    x = np.array(x.transpose(order), order="C")
    x = x.transpose(np.argsort(order).tolist())
    return x[tuple(slice(None, None, -1) if n == sizes[c] and rng.random() < 0.2
                   else slice(0, n, n // sizes[c]) for c, n in zip(letters, shape))]  # fmt: skip


def random_case(rng):
    letters = rng.sample("abcdefgXY", rng.randint(1, 6))
    sizes = {c: rng.choice((1, 2, 3, 5)) for c in letters}
    terms = [
        [rng.choice(letters) for _ in range(rng.choice((0, 1, 2, 2, 3)))]
        for _ in range(rng.randint(1, 4))
    ]
    used = sorted({c for t in terms for c in t})
    result = rng.sample(used, rng.randint(0, len(used)))
    dots = rng.random() < 0.2
    text = ",".join(("..." if dots else "") + "".join(t) for t in terms)
    if rng.random() < 0.8:
        text += "->" + ("..." if dots else "") + "".join(result)
    if dots:
        sizes["."] = 2
        terms = [["."] + t if rng.random() < 0.7 else t for t in terms]
    # numpy 1 does not count the type of an operand without dims.
    types = TYPES if all(terms) else [rng.choice(TYPES)]
    return text, [random_operand(rng, t, sizes, types) for t in terms]


def outcome(f, *args):
    try:
        return f(*args), None
    except (ValueError, TypeError, IndexError) as e:
        return None, e


def test_random_einsums():
    rng = random.Random(20)
    for _ in range(N):
        text, operands = random_case(rng)
        want, refused = outcome(np.einsum, text, *operands)
        found, error = outcome(divvy.einsum, text, *operands)
        what = (text, [(x.shape, x.strides, x.dtype.str) for x in operands])
        assert (refused is None) == (error is None), (what, refused, error)
        if refused is None:
            assert np.shape(found) == np.shape(want), what
            assert found.dtype == want.dtype, what
            assert (np.asarray(found) == want).all(), what


def test_texts_with_mistakes():
    rng = random.Random(21)
    for _ in range(2 * N):
        text, operands = random_case(rng)
        chars = list(text)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(chars) + 1)
            chars[at : at + rng.randint(0, 2)] = rng.choice(
                ["", ".", ",", "->", "-", ">", "i", "$", " ", "é", "\0", "..."]
            )
        text = "".join(chars)
        if rng.random() < 0.2:
            operands = operands[1:] or operands * 2
        want, refused = outcome(np.einsum, text, *operands)
        found, error = outcome(divvy.einsum, text, *operands)
        assert error is None or isinstance(error, (ValueError, TypeError))
        if refused is None and error is None:
            assert np.shape(found) == np.shape(want), text
            assert (np.asarray(found) == want).all(), text
