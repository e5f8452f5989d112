//! What noq alone tells.

use crate::noq::net::{Net, Spec};
use crate::trace::{Row, Trace};
use headway_cc::cc::{CaState, Event};

/// Packets overtake each other by more than the stack's threshold of three: each recovery proves spurious.
#[test]
fn undo_a_spurious_loss_is_undone() {
    let (trace, factory) = Trace::of("bbr3");
    let mut net = Net::new(&Spec::new("20mbit 40ms queue=4bdp reorder=0.3%/5ms", factory));
    net.run_until(30_000_000);
    trace.replay("bbr3");
    let rows = trace.rows();
    let undone: Vec<usize> = (1..rows.len()).filter(|i| rows[*i].ack.event == Event::Undo).collect();
    assert!(undone.len() > 20, "{}", undone.len());
    assert!(rows.iter().any(|r| r.ack.event == Event::Lost) && net.down_stats().lost_packets == 0);
    for i in undone {
        let (before, after): (&Row, &Row) = (&rows[i - 1], &rows[i]);
        // UNDO-02 and UNDO-06.
        assert_eq!(after.ack.ca_state, CaState::Open);
        assert!(after.control.cwnd >= before.control.cwnd);
        for limit in ["bw_shortterm", "inflight_shortterm", "inflight_longterm"] {
            assert!(after.state(limit) >= before.state(&format!("undo_{limit}")), "{limit}");
        }
        assert_eq!((after.state("undo_state"), after.state("is_loss_in_round")), (0, 0));
    }
    let mbit = net.received * 8 / 30_000_000;
    assert!(mbit >= 17, "{mbit} Mbit/s");
}
