"""Episodes drawn by compiled code, to the last bit as numpy's `default_rng([seed, i])` and `Generator.choice` draw them.

Making a generator and asking it a dozen times for a few numbers costs more than what is done with them; here it is one
call. What numpy does, step by step: SeedSequence hashes the words of the seed into a pool, PCG64 starts from the pool,
and `choice` without replacement is Floyd's algorithm followed by a shuffle.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

compiled = numba.njit(cache=True)
MOST = 10_000  # from more, `choice` may shuffle a tail instead: not done here

LOW = np.uint64(0xFFFFFFFF)
MULTIPLIER = (np.uint64(2549297995355413924), np.uint64(4865540595714422341))  # high and low word
ONE, HALF, TOP, ROTATE, WORD = np.uint64(1), np.uint64(32), np.uint64(63), np.uint64(58), np.uint64(64)
N_POOL = 4


@compiled
def hashed(value: Any, constant: Any, multiplier: Any) -> Any:
    """A word stirred by SeedSequence, and the constant for the next one."""
    value ^= constant
    constant = constant * multiplier & LOW
    value = value * constant & LOW
    return value ^ value >> np.uint64(16), constant


@compiled
def mixed(x: Any, y: Any) -> Any:
    value = (np.uint64(0xCA01F9DD) * x - np.uint64(0x4973F715) * y) & LOW
    return value ^ value >> np.uint64(16)


@compiled
def seeded(words: Any, state: Any) -> None:
    """PCG64(SeedSequence(words)). `state`: the high and low word of its number and of its increment, whether half a word is
    left over, and that half."""
    first, second = np.uint64(0x931E8875), np.uint64(0x58F38DED)
    pool = np.zeros(N_POOL, np.uint64)
    constant = np.uint64(0x43B0D7E5)
    for i in range(N_POOL):
        pool[i], constant = hashed(words[i] if i < len(words) else np.uint64(0), constant, first)
    for i in range(max(N_POOL, len(words))):
        for j in range(N_POOL):
            if i != j:
                value, constant = hashed(pool[i] if i < N_POOL else words[i], constant, first)
                pool[j] = mixed(pool[j], value)
    constant = np.uint64(0x8B51F9DD)
    wide = np.empty(4, np.uint64)
    for i in range(4):
        low, constant = hashed(pool[2 * i % N_POOL], constant, second)
        high, constant = hashed(pool[(2 * i + 1) % N_POOL], constant, second)
        wide[i] = low | high << HALF
    state[2], state[3] = wide[2] << ONE | wide[3] >> TOP, wide[3] << ONE | ONE
    state[0], state[1] = state[2], state[3]  # a step from nought
    state[1] += wide[1]
    state[0] += wide[0] + (ONE if state[1] < wide[1] else np.uint64(0))
    step(state)
    state[4], state[5] = np.uint64(0), np.uint64(0)


@compiled
def step(state: Any) -> None:
    """number = number * multiplier + increment, in 128 bits."""
    high, low = state[0], state[1]
    a, b = low >> HALF, low & LOW
    c, d = MULTIPLIER[1] >> HALF, MULTIPLIER[1] & LOW
    middle = a * d + (b * d >> HALF)
    carried = b * c + (middle & LOW)
    product = a * c + (middle >> HALF) + (carried >> HALF)  # the high word of low * MULTIPLIER[1]
    high = high * MULTIPLIER[1] + low * MULTIPLIER[0] + product
    low = low * MULTIPLIER[1]
    state[1] = low + state[3]
    state[0] = high + state[2] + (ONE if state[1] < low else np.uint64(0))


@compiled
def half_word(state: Any) -> Any:
    """32 random bits: first the low half of a word, then its high half."""
    if state[4]:
        state[4] = np.uint64(0)
        return state[5]
    step(state)
    value, turn = state[0] ^ state[1], state[0] >> ROTATE
    value = value >> turn | value << (WORD - turn & TOP)
    state[4], state[5] = ONE, value >> HALF
    return value & LOW


@compiled
def below(state: Any, n: Any) -> Any:
    """A number from 0 to n - 1, each as likely (Lemire's multiplication)."""
    if n == 1:
        return np.int64(0)
    n = np.uint64(n)
    product = half_word(state) * n
    if product & LOW < n:
        least = (LOW - n + ONE) % n
        while product & LOW < least:
            product = half_word(state) * n
    return np.int64(product >> HALF)


@compiled
def choose(state: Any, n: int, drawn: Any) -> None:
    """len(drawn) of the numbers 0 .. n - 1, none twice, in random order."""
    k = len(drawn)
    for i in range(k):
        last = n - k + i
        value = below(state, last + 1)
        for j in range(i):
            if drawn[j] == value:
                value = last
                break
        drawn[i] = value
    for i in range(k - 1, 0, -1):
        j = below(state, i + 1)
        drawn[i], drawn[j] = drawn[j], drawn[i]


@compiled
def take(state: Any, rows: Any, starts: Any, c: int, into: Any) -> None:
    """Some rows of class c, none twice."""
    choose(state, starts[c + 1] - starts[c], into)
    for i in range(len(into)):
        into[i] = rows[starts[c] + into[i]]


@compiled
def draw(words, labeled, starts, unlabeled, unlabeled_starts, n_shot, n_query, at_once, support, query, free):  # type: ignore[no-untyped-def]
    """Episodes in a row, into `support` [n, N, K], `query` [n, N, Q] and `free` [n, N + C, H]: rows of the store. The last of
    `words` is the number of the first one. `at_once`: a class is one list, of which all its images are drawn together."""
    n_classes, n_way, n_junk = len(starts) - 1, support.shape[1], free.shape[1] - support.shape[1]
    n_known = n_shot + n_query
    key, state = words.copy(), np.empty(6, np.uint64)
    ways, junk = np.empty(n_way, np.int64), np.empty(n_junk, np.int64)
    mine = np.empty(n_known + (free.shape[2] if at_once else 0), np.int64)
    for e in range(len(support)):
        key[-1] = words[-1] + np.uint64(e)
        seeded(key, state)
        choose(state, n_classes, ways)
        for w in range(n_way):
            take(state, labeled, starts, ways[w], mine)
            support[e, w], query[e, w] = mine[:n_shot], mine[n_shot:n_known]
            if at_once:
                free[e, w] = mine[n_known:]
            else:
                take(state, unlabeled, unlabeled_starts, ways[w], free[e, w])
        if n_junk:
            choose(state, n_classes - n_way, junk)
            ways.sort()
            for j in range(n_junk):
                c = junk[j]
                for way in ways:  # it counts the classes that are no way
                    c += way <= c
                take(state, unlabeled, unlabeled_starts, c, free[e, n_way + j])
