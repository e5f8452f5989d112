//! The earliest of N deadlines: a tournament tree, one leaf a flow.
//!
//! A deadline kept here may be too early, never too late: a flow that is woken too early finds nothing due and states
//! its next deadline. So a timer that every ACK pushes back costs nothing until it would have fired.

#[derive(Clone, Debug)]
pub(crate) struct Timers {
    /// `tree[1]` is the root; node `i` is the minimum of `2i` and `2i + 1`; the leaves fill the second half.
    tree: Vec<u64>,
    leaves: usize,
}

impl Timers {
    pub(crate) fn new(flows: usize) -> Self {
        let leaves = flows.max(1).next_power_of_two();
        Self { tree: vec![u64::MAX; 2 * leaves], leaves }
    }

    /// The earliest deadline; `u64::MAX` when there is none.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.tree[1]
    }

    /// Whose it is; the lowest index when several are equal.
    #[inline]
    pub(crate) fn first(&self) -> usize {
        let mut i = 1;
        while i < self.leaves {
            i = 2 * i + usize::from(self.tree[2 * i] > self.tree[1]);
        }
        i - self.leaves
    }

    /// Moves a deadline forward if `at_ns` is earlier than what is noted.
    #[inline]
    pub(crate) fn lower(&mut self, flow: usize, at_ns: u64) {
        if at_ns < self.tree[self.leaves + flow] {
            self.set(flow, at_ns);
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, flow: usize, at_ns: u64) {
        let mut i = self.leaves + flow;
        self.tree[i] = at_ns;
        while i > 1 {
            i /= 2;
            let min = self.tree[2 * i].min(self.tree[2 * i + 1]);
            if self.tree[i] == min {
                break;
            }
            self.tree[i] = min;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_linear_search() {
        for n in [1, 2, 3, 7, 64, 100] {
            let mut timers = Timers::new(n);
            let mut plain = vec![u64::MAX; n];
            let mut x = 1u64;
            for _ in 0..2000 {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let (i, at) = ((x >> 33) as usize % n, (x >> 20) % 50);
                timers.set(i, at);
                plain[i] = at;
                let min = *plain.iter().min().unwrap();
                assert_eq!(timers.next_ns(), min);
                assert_eq!(timers.first(), plain.iter().position(|&p| p == min).unwrap());
            }
        }
    }

    #[test]
    fn lower_never_raises() {
        let mut timers = Timers::new(3);
        timers.set(1, 10);
        timers.lower(1, 20);
        assert_eq!((timers.next_ns(), timers.first()), (10, 1));
        timers.lower(1, 5);
        assert_eq!(timers.next_ns(), 5);
    }
}
