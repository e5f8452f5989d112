//! BBRv1. (stub: being written)
use super::{Ack, Control, Controller, row};
row! {
/// Tunables.
pub struct Bbr1Params { high_gain }
}
row! {
/// State.
pub struct Bbr1State { mode }
}
#[derive(Debug)]
pub struct Bbr1 {
    state: Bbr1State,
}
impl Bbr1 {
    pub fn new(_params: Bbr1Params) -> Self {
        Self { state: Bbr1State::default() }
    }
}
impl Controller for Bbr1 {
    fn on_event(&mut self, ack: &Ack) -> Control {
        Control {
            cwnd: ack.cwnd.max(10 * ack.smss),
            pacing_rate: 1 << 40,
            send_quantum: 2 * ack.smss,
            mark_app_limited: 0,
        }
    }
    fn state(&self) -> Vec<u64> {
        self.state.words()
    }
    fn state_fields(&self) -> &'static [&'static str] {
        Bbr1State::FIELDS
    }
}
