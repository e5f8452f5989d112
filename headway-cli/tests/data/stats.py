"""Prints stats.txt, the golden values of the statistics. Needs NumPy and SciPy: python3 stats.py > stats.txt"""

import math

import numpy as np
import scipy
from scipy import stats


def signed_rank():
    rng = np.random.default_rng(7)
    cases = [np.round(rng.standard_t(3, n) * 0.05 + shift, 6) for n in (4, 5, 6, 7, 8, 10, 13, 16) for shift in (0.0, 0.06)]
    cases += [np.array(c) for c in ([0.0] * 6, [0.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.1, 0.1, 0.1, -0.1, 0.2, 0.2, 0.2, 0.2],
                                    [0.01] * 6, [-0.3, 0.0, 0.3, 0.3, -0.1, 0.1, 0.5, 0.5, 0.5, 0.0])]
    every_sign = stats.PermutationMethod(n_resamples=np.inf)

    def p(x):
        return stats.wilcoxon(x, zero_method="pratt", method=every_sign).pvalue if np.any(x) else 1.0

    def interval(x, level):  # invert the test without ties between neighbouring Walsh averages
        i, j = np.triu_indices(len(x))
        w = np.sort((x[i] + x[j]) / 2)
        gaps = [w[0] - 1, *((w[1:] + w[:-1]) / 2), w[-1] + 1]
        keep = [k for k, c in enumerate(gaps)
                if (k == 0 or k == len(w) or w[k] > w[k - 1]) and stats.wilcoxon(x - c, method="exact").pvalue > 1 - level]
        lo, hi = keep[0], keep[-1]
        return (-np.inf if lo == 0 else w[lo - 1]), (np.inf if hi == len(w) else w[hi])

    print("# signed-rank: differences | hodges_lehmann low95 high95 low90 high90 p")
    for x in cases:
        i, j = np.triu_indices(len(x))
        tied = len(set(np.abs(x))) < len(x) or 0.0 in x
        ci = ["-"] * 4 if tied else [repr(float(v)) for level in (.95, .90) for v in interval(x, level)]
        print(*map(repr, map(float, x)), "|", repr(float(np.median((x[i] + x[j]) / 2))), *ci, repr(float(p(x))))


def fisher():
    print("# fisher: a b c d | p")
    for t in ([10, 0, 5, 5], [3, 7, 3, 7], [8, 2, 1, 5], [0, 6, 6, 0], [100, 3, 95, 12]):
        print(*t, "|", repr(float(stats.fisher_exact([t[:2], t[2:]])[1])))


def distributions():
    print("# normal: x | p")
    for x in (-30.0, -8.0, -3.0, -1.96, -1.0, -0.1, 0.0, 0.5, 1.0, 1.7, 2.5, 6.0):
        print(x, "|", repr(float(stats.norm.cdf(x))))
    print("# normal-quantile: p | x")
    for p in (1e-12, 0.001, 0.025, 0.3, 0.5, 0.7, 0.975, 0.9999):
        print(p, "|", repr(float(stats.norm.ppf(p))))
    print("# student: t df level | two_sided_p quantile")
    for df in (1.0, 2.0, 3.7, 9.0, 18.4, 200.0, 5000.5):
        for t, level in ((0.0, 0.5), (0.1, 0.9), (1.0, 0.95), (2.5, 0.99), (7.0, 0.999), (40.0, 0.2)):
            print(t, df, level, "|", repr(float(2 * stats.t.sf(t, df))), repr(float(stats.t.ppf((1 + level) / 2, df))))


def welch():
    print("# welch: base_mean base_sd base_n cand_mean cand_sd cand_n | center low95 high95 low90 high90 p")
    for m1, s1, n1, m2, s2, n2 in ((26.85, 2.63, 10, 24.65, 2.59, 10), (94.66, 0.46, 10, 96.09, 0.39, 10), (19.5, 4.04, 10, 22.9, 3.58, 10),
                                   (2.78, 1.36, 6, 12.45, 1.08, 6), (8.46, 2.82, 6, 18.19, 1.32, 5), (1.83, 0.07, 6, 1.82, 0.001, 4),
                                   (10.0, 0.5, 3, 10.0, 0.5, 3), (5.0, 1e-6, 30, 5.1, 2.0, 4)):
        v1, v2 = (math.log1p((s / m) ** 2) for m, s in ((m1, s1), (m2, s2)))
        l1, l2 = math.log(m1) - v1 / 2, math.log(m2) - v2 / 2
        p = stats.ttest_ind_from_stats(l2, math.sqrt(v2), n2, l1, math.sqrt(v1), n1, equal_var=False).pvalue
        a, b = v1 / n1, v2 / n2
        df = (a + b) ** 2 / (a * a / (n1 - 1) + b * b / (n2 - 1))
        ends = [end for level in (.95, .90) for end in stats.t.interval(level, df, l2 - l1, math.sqrt(a + b))]
        print(m1, s1, n1, m2, s2, n2, "|", *(repr(float(v)) for v in (l2 - l1, *ends, p)))


class Xoshiro:
    """headway_cc::rand::Rng::new(1, 0), so that SciPy draws the very blocks that the program draws."""

    def __init__(self):
        def word(seed, index):
            mask = 2**64 - 1
            x = (seed + (index + 1) * 0x9E3779B97F4A7C15) & mask
            x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
            x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
            return x ^ (x >> 31)

        base = word(1, 0)
        self.s = [word(base, 1), word(base, 2), word(base, 3), word(base, 4) | 1]

    def below(self, n):
        def rotate(x, k):
            return ((x << k) | (x >> (64 - k))) & (2**64 - 1)

        a, b, c, d = self.s
        out = (rotate((b * 5) & (2**64 - 1), 7) * 9) & (2**64 - 1)
        c, d = c ^ a, d ^ b
        self.s = [a ^ d, b ^ c, (c ^ (b << 17)) & (2**64 - 1), rotate(d, 45)]
        return (out * n) >> 64


def bca():
    rng = np.random.default_rng(11)
    cases = [np.round(1000 * np.exp(rng.normal(0, sd, n))) for n in (10, 15, 30) for sd in (0.1, 1.0)]
    # Whole numbers: the order of summing must not decide whether a draw equals the estimate.
    print("# bca: values | mean low95 high95")
    for x in cases:
        ours = Xoshiro()
        scipy.stats._resampling.rng_integers = lambda _, low, high, shape: np.array(
            [ours.below(high - low) for _ in range(math.prod(shape))]).reshape(shape)
        ci = stats.bootstrap((x,), np.mean, n_resamples=10_000, method="BCa").confidence_interval
        print(*map(repr, map(float, x)), "|", *(repr(float(v)) for v in (np.mean(x), ci.low, ci.high)))


print(f"# Golden values from SciPy {scipy.__version__} and NumPy {np.__version__}, made by stats.py.")
for section in (signed_rank, fisher, distributions, welch, bca):
    section()
