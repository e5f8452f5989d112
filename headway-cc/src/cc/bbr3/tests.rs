//! BBRv3 as a whole, fed with made-up ACKs; each file has the tests of its own steps.

use super::*;
use crate::cc::CaState;

pub(super) const MSS: u64 = 1200;

/// Calls `f` with a connection that has just begun: bytes, ten segments, 40 ms.
pub(super) fn with<R>(f: impl FnOnce(&mut Conn) -> R) -> R {
    let ack = start();
    let (mut bbr, mut out) = (Bbr3State::default(), Control::default());
    bbr3_on_event(&mut bbr, &Bbr3Params::default(), &ack, &mut out);
    let p = &Bbr3Params::default();
    f(&mut Conn { bbr: &mut bbr, p, ack: &ack, out: &mut out, delivery_rate: 0 })
}

fn start() -> Ack {
    Ack {
        event: Event::Init,
        now_us: 1_000_000,
        unit_bytes: 1,
        smss: MSS,
        cwnd: 10 * MSS,
        cwnd_clamp: u64::MAX,
        max_pacing_rate: u64::MAX,
        srtt_us: 40_000,
        min_rtt_us: 40_000,
        has_selective_acks: true,
        is_cwnd_limited: true,
        rs_rtt_us: NO_RTT,
        ..Ack::default()
    }
}

/// A connection that is fed ACKs of one segment, each the first of a round unless told otherwise.
struct Feed {
    cc: Bbr3,
    ack: Ack,
}

impl Feed {
    fn new() -> Self {
        let mut cc = Bbr3::new(Bbr3Params::default());
        let control = cc.on_event(&start());
        let ack = Ack { pacing_rate: control.pacing_rate, ..start() };
        Self { cc, ack }
    }

    /// An ACK 40 ms later that measures `rate` bytes/s, changed by `with`.
    fn ack(&mut self, rate: u64, with: impl FnOnce(&mut Ack)) -> Control {
        let a = &mut self.ack;
        a.event = Event::Ack;
        a.now_us += 40_000;
        a.rs_prior_delivered = a.delivered;
        a.newly_acked = MSS;
        a.delivered += MSS;
        (a.rs_delivered, a.rs_interval_us, a.rs_rtt_us) = (rate / 25, 40_000, 40_000);
        a.rs_tx_in_flight = a.inflight;
        let mut ack = self.ack;
        with(&mut ack);
        self.give(&ack)
    }

    fn give(&mut self, ack: &Ack) -> Control {
        let control = self.cc.on_event(ack);
        (self.ack.cwnd, self.ack.pacing_rate) = (control.cwnd, control.pacing_rate);
        control
    }

    /// `segments` are lost of a packet that left with `tx_in_flight`.
    fn lose(&mut self, segments: u64, tx_in_flight: u64) {
        let mut ack = Ack { event: Event::Lost, rs_starts_lost_range: true, ..self.ack };
        (ack.newly_lost, ack.rs_lost, ack.rs_tx_in_flight) = (MSS, segments * MSS, tx_in_flight);
        self.give(&ack);
    }

    /// Three flat rounds at 1 MB/s end Startup, small inflight ends Drain, and the wait ends with a probe.
    fn go_up(&mut self) {
        self.ack.inflight = 40_000;
        for _ in 0..200 {
            self.ack(1_000_000, |_| {});
            if self.s().state == Mode::ProbeBwUp {
                return;
            }
        }
        panic!("no probe: {:?}", self.s());
    }

    fn s(&self) -> &Bbr3State {
        self.cc.state_row()
    }
}

#[test]
fn a_connection_starts_with_the_transport_s_window_paced_by_its_rtt() {
    let f = Feed::new();
    assert!(f.ack.pacing_rate.abs_diff(831_000) <= 10, "2.77 * 12000 / 40 ms: {}", f.ack.pacing_rate);
    assert_eq!((f.ack.cwnd, f.s().state, f.s().min_rtt_us), (12_000, Mode::Startup, 40_000));
    assert_eq!((f.s().inflight_longterm, f.s().bw_shortterm), (BBR3_INFINITY, BBR3_INFINITY));
}

#[test]
fn the_first_rtt_replaces_the_nominal_one() {
    let mut cc = Bbr3::new(Bbr3Params::default());
    let init = Ack { srtt_us: 0, ..start() };
    assert!(cc.on_event(&init).pacing_rate.abs_diff(33_240_000) <= 400);
    let ack = Ack { event: Event::Ack, srtt_us: 100_000, newly_acked: MSS, pacing_rate: 33_240_000, ..init };
    assert!(cc.on_event(&ack).pacing_rate.abs_diff(332_400) <= 10);
}

#[test]
fn an_ack_that_delivers_nothing_changes_nothing() {
    let mut f = Feed::new();
    f.ack(1_000_000, |_| {});
    let before = *f.s();
    let control = f.ack(2_000_000, |a| a.newly_acked = 0);
    assert_eq!((*f.s(), control.cwnd), (before, f.ack.cwnd));
}

#[test]
fn a_probe_ends_at_loss_and_the_next_is_cautious() {
    let mut f = Feed::new();
    f.go_up();
    f.lose(1, 60_000);
    assert_eq!(f.s().state, Mode::ProbeBwUp, "1200 is exactly 2 % of 60000");
    f.lose(2, 60_000);
    assert_eq!((f.s().state, f.s().undo_state), (Mode::ProbeBwDown, Mode::ProbeBwUp));
    assert_eq!((f.s().prev_probe_too_high, f.s().is_bw_probe_sample), (true, false));
    assert_eq!(f.s().inflight_longterm, 58_800, "what was in flight before the packet");
    let longterm = f.s().inflight_longterm;
    f.lose(30, 60_000);
    assert_eq!(f.s().inflight_longterm, longterm, "one reaction a probe");
    f.ack.inflight = 40_000;
    f.go_up();
    f.ack(1_000_000, |a| a.inflight = longterm);
    assert_eq!((f.s().state, f.s().prev_probe_precautionary), (Mode::ProbeBwDown, true));
    f.ack(1_000_000, |_| {});
    assert_eq!(f.s().state, Mode::ProbeBwRefill, "nothing was lost: on at once");
}

#[test]
fn the_filter_advances_once_a_cycle() {
    let mut f = Feed::new();
    f.go_up();
    f.ack.inflight = 15_000; // little enough for ProbeRTT
    let (cycles, mut ups, mut probe_rtts) = (f.s().cycle_count, 0, 0);
    for _ in 0..2000 {
        let before = f.s().state;
        f.ack(1_000_000, |_| {});
        ups += u64::from(before == Mode::ProbeBwUp && f.s().state == Mode::ProbeBwDown);
        probe_rtts += u64::from(before == Mode::ProbeRtt && f.s().state != Mode::ProbeRtt);
    }
    assert!(ups >= 10 && probe_rtts >= 10, "{ups} {probe_rtts}");
    // Every exit of ProbeRTT starts a cycle too; here its samples are not application-limited.
    assert!((f.s().cycle_count - cycles).abs_diff(ups + probe_rtts) <= 1, "{:?}", f.s());
}

#[test]
fn a_spurious_recovery_is_undone() {
    let mut f = Feed::new();
    f.go_up();
    let (cwnd, longterm) = (f.ack.cwnd, f.s().inflight_longterm);
    f.lose(9, 60_000);
    f.give(&Ack { event: Event::Ssthresh, ..f.ack });
    for _ in 0..3 {
        f.ack.ca_state = CaState::Recovery;
        f.lose(1, 60_000);
        f.ack(500_000, |_| {});
    }
    assert!(f.s().bw_shortterm < BBR3_INFINITY && f.ack.cwnd < cwnd, "{:?}", f.s());
    f.ack.ca_state = CaState::Open;
    let control = f.give(&Ack { event: Event::Undo, ..f.ack });
    assert_eq!((control.cwnd, f.s().inflight_longterm), (cwnd, longterm));
    assert_eq!((f.s().state, f.s().bw_shortterm), (Mode::ProbeBwRefill, BBR3_INFINITY));
    assert_eq!(f.s().undo_state, Mode::None);
}

#[test]
fn a_timeout_leaves_room_for_one_segment() {
    let mut f = Feed::new();
    f.go_up();
    let cwnd = f.ack.cwnd;
    f.give(&Ack { event: Event::Ssthresh, ..f.ack });
    let control = f.give(&Ack { event: Event::Loss, cwnd: 2 * MSS, inflight: MSS, ..f.ack });
    assert_eq!((control.cwnd, f.s().prior_cwnd), (2 * MSS, cwnd));
}

/// The same connection counted in packets asks for the same, but for rounding: within 1 % and three segments.
#[test]
fn packets_and_bytes_ask_for_the_same() {
    let mut bytes = Feed::new();
    bytes.ack.inflight = 40_800;
    let (mut states, mut before) = (0, Mode::None);
    let mut packets = Bbr3::new(Bbr3Params { tcp_offload_quanta: 1, ..Bbr3Params::default() });
    let in_packets = |a: &Ack, cwnd, pacing_rate| Ack {
        unit_bytes: MSS,
        smss: 1,
        cwnd,
        pacing_rate,
        delivered: a.delivered / MSS,
        newly_acked: a.newly_acked / MSS,
        newly_lost: a.newly_lost / MSS,
        inflight: a.inflight / MSS,
        rs_delivered: a.rs_delivered / MSS,
        rs_lost: a.rs_lost / MSS,
        rs_prior_delivered: a.rs_prior_delivered / MSS,
        rs_tx_in_flight: a.rs_tx_in_flight / MSS,
        ..*a
    };
    let mut p = packets.on_event(&in_packets(&start(), 10, 0));
    for i in 0..600u64 {
        if i % 97 == 96 {
            bytes.lose(3, 48_000);
            let lost = Ack { event: Event::Lost, newly_lost: MSS, rs_lost: 3 * MSS, ..bytes.ack };
            let lost = Ack { rs_tx_in_flight: 48_000, rs_starts_lost_range: true, ..lost };
            p = packets.on_event(&in_packets(&lost, p.cwnd, p.pacing_rate));
        }
        bytes.ack.inflight = if i % 40 < 20 { 40_800 } else { 12_000 };
        let rate = 40 * MSS * 25; // 40 packets a round
        let mut seen = Ack::default();
        let b = bytes.ack(rate, |a| seen = *a);
        p = packets.on_event(&in_packets(&seen, p.cwnd, p.pacing_rate));
        assert_eq!(packets.state_row().state, bytes.s().state, "ACK {i}");
        assert!((p.cwnd * MSS).abs_diff(b.cwnd) <= b.cwnd / 100 + 3 * MSS, "ACK {i}: {p:?} {b:?}");
        assert!(p.pacing_rate.abs_diff(b.pacing_rate) <= b.pacing_rate / 100, "ACK {i}: {p:?} {b:?}");
        states += u64::from(before != bytes.s().state);
        before = bytes.s().state;
    }
    assert!(states > 20, "{states} changes of state");
}

#[test]
fn ce_marks_count_as_losses_unless_they_have_an_answer() {
    for (ecn, min_rtt_us, is_loss) in [(false, 1_000, true), (true, 40_000, true), (true, 1_000, false)] {
        with(|c| {
            let p = Bbr3Params { ecn, ..Bbr3Params::default() };
            let ack = Ack { delivered_ce: 1, ..*c.ack };
            c.bbr.min_rtt_us = min_rtt_us;
            let c = &mut Conn { bbr: c.bbr, p: &p, ack: &ack, out: c.out, delivery_rate: 0 };
            bbr3_note_ce(c);
            assert_eq!((c.bbr.is_loss_in_round, c.bbr.is_ce_in_round), (is_loss, !is_loss));
        });
    }
}
