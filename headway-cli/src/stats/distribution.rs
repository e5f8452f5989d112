//! The normal distribution and Student's t distribution, as far as intervals and p values need them.
//!
//! Both come from the regularised incomplete gamma and beta functions (Abramowitz & Stegun 6.5, 26.5), computed by a
//! series or a continued fraction to the last digits of an `f64`. A quantile is found by bisection, down to
//! neighbouring numbers.

/// A series or fraction ends at a term of this relative size: below the last digit of an `f64`.
const TINY: f64 = 1e-16;
/// A bound for the loop, larger than any argument here needs.
const TERMS: u32 = 10_000;

/// P(X ≤ x) of the standard normal distribution.
pub fn normal(x: f64) -> f64 {
    let tail = upper_gamma_half(x * x / 2.0) / 2.0;
    if x > 0.0 { 1.0 - tail } else { tail }
}

/// The x with P(X ≤ x) = p; infinite at 0 and 1.
pub fn normal_quantile(p: f64) -> f64 {
    match p {
        p if p <= 0.0 => f64::NEG_INFINITY,
        p if p >= 1.0 => f64::INFINITY,
        // Near 0 a number has more digits than near 1, so the upper half is the mirror image of the lower.
        p if p > 0.5 => -normal_quantile(1.0 - p),
        p => -halve(|x| normal(-x) <= p),
    }
}

/// P(|T| ≥ |t|) of Student's t with `df` degrees of freedom, which need not be whole.
pub fn student_two_sided(t: f64, df: f64) -> f64 {
    beta(df / (df + t * t), df / 2.0, 0.5)
}

/// The t with P(|T| ≤ t) = `level`.
pub fn student_quantile(level: f64, df: f64) -> f64 {
    halve(|t| student_two_sided(t, df) <= 1.0 - level)
}

/// The smallest x ≥ 0 at which `reached` has become true.
fn halve(reached: impl Fn(f64) -> bool) -> f64 {
    let mut high = 1.0;
    while !reached(high) && high < 1e300 {
        high *= 2.0;
    }
    let mut low = 0.0;
    loop {
        let middle = (low + high) / 2.0;
        match () {
            () if middle <= low || middle >= high => return high,
            () if reached(middle) => high = middle,
            () => low = middle,
        }
    }
}

/// Q(½, x), the upper regularised incomplete gamma function: erfc(√x).
fn upper_gamma_half(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    let front = (-x + 0.5 * x.ln() - ln_gamma(0.5)).exp();
    if x < 1.5 {
        let (mut term, mut sum, mut a) = (2.0, 2.0, 0.5);
        while term > sum * TINY {
            a += 1.0;
            term *= x / a;
            sum += term;
        }
        return 1.0 - front * sum;
    }
    front * fraction(x + 0.5, |i| (-f64::from(i) * (f64::from(i) - 0.5), x + 0.5 + 2.0 * f64::from(i)))
}

/// I_x(a, b), the regularised incomplete beta function.
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(1.0 - x, b, a);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    let numerator = |i: u32| {
        let m = f64::from(i / 2);
        match i % 2 {
            0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        }
    };
    front * fraction(1.0, |i| (numerator(i), 1.0))
}

/// 1 / (b₀ + a₁ / (b₁ + a₂ / (b₂ + …))) by Lentz's method; `term(i)` gives aᵢ and bᵢ.
fn fraction(b0: f64, term: impl Fn(u32) -> (f64, f64)) -> f64 {
    let away_from_zero = |x: f64| if x.abs() < 1e-300 { 1e-300 } else { x };
    let (mut value, mut c, mut d) = (b0, b0, 0.0);
    for i in 1..TERMS {
        let (a, b) = term(i);
        d = 1.0 / away_from_zero(b + a * d);
        c = away_from_zero(b + a / c);
        value *= c * d;
        if (c * d - 1.0).abs() < TINY {
            break;
        }
    }
    1.0 / value
}

/// ln Γ(x) for x > 0 by Stirling's series. It is exact enough from 15 on; a smaller x gets there by Γ(x + 1) = x Γ(x).
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut product) = (x, 1.0);
    while x < 15.0 {
        product *= x;
        x += 1.0;
    }
    // B₂ₖ / (2k (2k − 1) x^(2k−1))
    let series = [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0];
    let rest = series.iter().rev().fold(0.0, |sum, b| sum / (x * x) + b) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + rest - product.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::tests::golden;

    fn near(ours: f64, scipy: f64) -> bool {
        ours == scipy || (ours / scipy - 1.0).abs() < 1e-10
    }

    #[test]
    fn the_normal_distribution_is_that_of_scipy() {
        let cases = golden("normal");
        assert_eq!(cases.len(), 12);
        for (x, expected) in cases {
            let p = normal(x[0]);
            assert!(near(p, expected[0].unwrap()), "normal({}) = {p}", x[0]);
        }
        for (p, expected) in golden("normal-quantile") {
            let x = normal_quantile(p[0]);
            assert!(near(x, expected[0].unwrap()) || x.abs() < 1e-15, "normal_quantile({}) = {x}", p[0]);
        }
        assert_eq!([0.0, 1.0].map(normal_quantile), [f64::NEG_INFINITY, f64::INFINITY]);
    }

    #[test]
    fn students_t_is_that_of_scipy() {
        let cases = golden("student");
        assert_eq!(cases.len(), 42);
        for (x, expected) in cases {
            let (p, t) = (student_two_sided(x[0], x[1]), student_quantile(x[2], x[1]));
            assert!(near(p, expected[0].unwrap()) && near(t, expected[1].unwrap()), "{x:?}: {p} {t}");
        }
    }
}
