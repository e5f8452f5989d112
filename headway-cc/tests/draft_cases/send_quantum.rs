//! QUANT: the send quantum (§5.6.3).

use crate::driver::{Flow, MSS, RATE, assert_near};
use headway_cc::cc::bbr3::*;

#[test]
fn quant_01_a_millisecond_of_the_rate_within_bounds() {
    for (rate, quantum) in [
        (1_000, 2 * MSS),
        (1_000_000, 2 * MSS),
        (2_500_000, 2_500),
        (12_500_000, 12_500),
        (65_536_000, 65_536),
        (100_000_000, 65_536),
        (50_000_000_000, 65_536),
    ] {
        let mut f = Flow::new();
        f.c.pacing_rate = rate;
        let control = f.ack(0);
        assert_eq!((control.pacing_rate, control.send_quantum), (rate, quantum));
    }
}

#[test]
fn quant_02_it_follows_the_rate_of_the_same_ack() {
    let mut f = Flow::new();
    let control = f.ack(10 * RATE);
    assert_near(control.pacing_rate, 27_423_000, 1);
    assert_eq!(control.send_quantum, control.pacing_rate / 1_000);
    let mut f = Flow::at(Mode::ProbeBwCruise);
    let control = f.ack(10 * RATE);
    assert_near(control.send_quantum, 9_900, 1);
}
