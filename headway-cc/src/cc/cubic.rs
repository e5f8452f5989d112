//! CUBIC. (stub: being written)
use super::{Ack, Control, Controller, row};
row! {
/// Tunables.
pub struct CubicParams { beta }
}
row! {
/// State.
pub struct CubicState { w_max }
}
#[derive(Debug)]
pub struct Cubic {
    state: CubicState,
}
impl Cubic {
    pub fn new(_params: CubicParams) -> Self {
        Self { state: CubicState::default() }
    }
}
impl Controller for Cubic {
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
        CubicState::FIELDS
    }
}
