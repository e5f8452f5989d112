//! The adapter to noq 1.x. Its interface reports nearly all that a controller needs (packet numbers, losses, limits),
//! and it takes a pacing rate.
//!
//! What it does not report, and what the adapter does about it:
//!
//! - how many packets were CE-marked: all that the ACK delivered count as marked;
//! - the packet-number space: packets of the handshake with the same number are told apart by the time of sending;
//! - a late ACK of a lost packet: noq only says when all of the lost packets have arrived;
//! - whether flow control or the application stops the sender: nothing can be done.

use super::Factory;
use super::flow::Flow;
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Noq(Mutex::new(Flow::new(&self, now, current_mtu))))
    }
}

/// The lock is needed because `window` and `metrics` have only a shared reference and must first finish the ACK that
/// is being processed.
#[derive(Debug)]
struct Noq(Mutex<Flow>);

impl Noq {
    fn flow(&mut self) -> &mut Flow {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared(&self) -> MutexGuard<'_, Flow> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for Noq {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.flow().on_sent(now, bytes.into(), pn);
    }

    fn on_cwnd_limited(&mut self) {
        self.flow().on_cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        _app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        self.flow().on_acked(now, sent, bytes, Some(pn));
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _largest_acked: Option<u64>) {
        self.flow().on_end_acks(now, in_flight, app_limited);
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.flow().on_packet_lost(now, lost_bytes.into(), pn);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        self.flow().on_congestion(now, sent, is_ecn, is_persistent_congestion);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.flow().on_spurious_loss();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.flow().on_mtu(new_mtu);
    }

    fn on_ack_frequency_update(&mut self, ack_eliciting_threshold: u64, _requested_max_ack_delay: Duration) {
        self.flow().on_ack_threshold(ack_eliciting_threshold);
    }

    fn window(&self) -> u64 {
        self.shared().window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut flow = self.shared();
        let control = flow.control();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = flow.window();
        // With an unlimited quantum the stack spaces packets itself, by the window.
        if control.send_quantum != u64::MAX {
            metrics.pacing_rate = Some(control.pacing_rate);
            metrics.send_quantum = Some(control.send_quantum);
        }
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self(Mutex::new(self.shared().migrated())))
    }

    fn initial_window(&self) -> u64 {
        self.shared().initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
