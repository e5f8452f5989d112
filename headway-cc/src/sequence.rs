//! A buffer of consecutively numbered items of which only the latest are kept, such as a sender's outstanding segments
//! or the packets inside a link. It grows by doubling, so that nothing is allocated for an item.

use std::ops::{Index, IndexMut};

/// Holds the items numbered `start()..end()`.
#[derive(Clone, Debug)]
pub(crate) struct SequenceBuffer<T> {
    items: Vec<T>,
    start: u64,
    end: u64,
}

impl<T: Default> SequenceBuffer<T> {
    /// `capacity` is a power of two.
    pub(crate) fn new(capacity: usize) -> Self {
        debug_assert!(capacity.is_power_of_two());
        let items = std::iter::repeat_with(T::default).take(capacity).collect();
        Self { items, start: 0, end: 0 }
    }

    #[inline]
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        if self.end - self.start == self.items.len() as u64 {
            self.grow();
        }
        let slot = self.slot(self.end);
        self.items[slot] = item;
        self.end += 1;
    }

    /// Puts an item before the first, in the place of one that was forgotten.
    pub(crate) fn put_before(&mut self, item: T) {
        if self.end - self.start == self.items.len() as u64 {
            self.grow();
        }
        self.start -= 1;
        let slot = self.slot(self.start);
        self.items[slot] = item;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<&T> {
        (!self.is_empty()).then(|| &self[self.start])
    }

    /// The items in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (self.start..self.end).map(|number| &self[number])
    }

    /// Forgets the items before number `to`.
    #[inline]
    pub(crate) fn forget_before(&mut self, to: u64) {
        debug_assert!((self.start..=self.end).contains(&to));
        self.start = to;
    }

    /// Forgets everything; the next item gets the number `start`.
    pub(crate) fn restart(&mut self, start: u64) {
        (self.start, self.end) = (start, start);
    }

    #[inline]
    fn slot(&self, number: u64) -> usize {
        number as usize & (self.items.len() - 1)
    }

    #[cold]
    fn grow(&mut self) {
        let mut bigger = Self::new(self.items.len() * 2);
        (bigger.start, bigger.end) = (self.start, self.start);
        (self.start..self.end).for_each(|i| bigger.push(std::mem::take(&mut self[i])));
        *self = bigger;
    }
}

impl<T: Default> Index<u64> for SequenceBuffer<T> {
    type Output = T;
    #[inline]
    fn index(&self, number: u64) -> &T {
        debug_assert!((self.start..self.end).contains(&number));
        &self.items[self.slot(number)]
    }
}

impl<T: Default> IndexMut<u64> for SequenceBuffer<T> {
    #[inline]
    fn index_mut(&mut self, number: u64) -> &mut T {
        debug_assert!((self.start..self.end).contains(&number));
        let slot = self.slot(number);
        &mut self.items[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_growth_and_wrapping() {
        let mut r = SequenceBuffer::new(2);
        for i in 0..1000u64 {
            r.push(i * 7);
            if i % 3 == 0 {
                r.forget_before(r.start() + 1);
            }
            assert!((r.start()..r.end()).all(|n| r[n] == n * 7));
        }
    }

    #[test]
    fn an_item_comes_back_to_the_place_before_the_first() {
        let mut r = SequenceBuffer::new(2);
        (0..2).for_each(|i| r.push(i));
        r.forget_before(1);
        r.push(2);
        r.put_before(9);
        assert_eq!((r.start(), r.iter().copied().collect::<Vec<u64>>()), (0, vec![9, 1, 2]));
    }
}
