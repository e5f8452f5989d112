//! The adapter to quinn 0.11, as published.
//!
//! What quinn does not report, and what the adapter does about it:
//!
//! - the size of each packet: a buffer of packets is one record, which is found again by its time of sending;
//! - which packets were lost: the oldest bytes up to the latest lost packet are taken, because stacks judge packets
//!   by their number;
//! - whether the window is the limit: it is if there is no room for another packet after a sending;
//! - how many packets were CE-marked: all that the ACK delivered count as marked;
//! - a late ACK of a lost packet: nothing can be done, so a spurious loss is undone only if a later 0.11 reports it.
//!
//! quinn's pacer sends 1.25 windows in a round trip and takes no rate. So the window that quinn is given is what the
//! controller's rate sends in a round trip, plus one quantum, but never more than the controller's window. The rate
//! then holds over a round trip, though not within it. `paced_socket.rs` keeps it exactly.

use super::Factory;
use super::flow::Flow;
use super::pacer::SocketPacer;
use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Fewest packets that the window made from the pacing rate has room for. With less, a peer that acknowledges every
/// second packet would stall the sender.
const LEAST_PACKETS: u64 = 4;

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Quinn::new(&self, now, current_mtu, None))
    }
}

/// The name of the controller that runs in a quinn connection, with its settings, as [`Factory::named`] was given it.
/// `None` means that the controller is none of this crate's, such as quinn's own CUBIC.
///
/// `state` is what `quinn::Connection::congestion_state` returns, so the answer comes from the connection itself and
/// not from how it was configured.
pub fn running_in_quinn(state: Box<dyn Controller>) -> Option<String> {
    let ours = state.into_any().downcast::<Quinn>().ok()?;
    Some(ours.shared().name().to_string())
}

/// The lock is needed because `window` and `metrics` have only a shared reference and must first finish the ACK that
/// is being processed.
#[derive(Debug)]
pub(super) struct Quinn {
    flow: Mutex<Flow>,
    /// The pacer of a paced socket, if there is one. The window is then the controller's own, because the socket
    /// keeps the rate.
    pacer: Option<Arc<SocketPacer>>,
}

impl Quinn {
    pub(super) fn new(factory: &Factory, now: Instant, mtu: u16, pacer: Option<Arc<SocketPacer>>) -> Self {
        Self { flow: Mutex::new(Flow::new(factory, now, mtu)), pacer }
    }

    /// The flow, after taking in when the buffers that a paced socket held have really left.
    fn flow(&mut self) -> &mut Flow {
        let flow = self.flow.get_mut().unwrap_or_else(PoisonError::into_inner);
        let released = self.pacer.as_ref().map_or(Vec::new(), |pacer| pacer.released());
        released.into_iter().for_each(|(record, at)| flow.on_released(record, at));
        flow
    }

    fn shared(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The window that makes quinn's pacer keep the controller's rate.
fn paced_window(flow: &mut Flow) -> u64 {
    let (window, control) = (flow.window(), flow.control());
    if control.send_quantum == u64::MAX || flow.srtt_us() == 0 {
        return window;
    }
    let round = u128::from(control.pacing_rate) * u128::from(flow.srtt_us()) / 1_000_000;
    let round = u64::try_from(round).unwrap_or(u64::MAX).saturating_add(control.send_quantum);
    window.min(round.max(LEAST_PACKETS * flow.smss()))
}

impl Controller for Quinn {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        let pacer = self.pacer.clone();
        let flow = self.flow();
        let record = flow.on_sent(now, bytes, last_packet_number);
        if let Some(pacer) = pacer {
            pacer.hold(record, bytes);
        }
        if flow.inflight() + flow.smss() > flow.window() {
            flow.on_cwnd_limited();
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _app_limited: bool, _rtt: &RttEstimator) {
        self.flow().on_acked(now, sent, bytes, None);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _largest_acked: Option<u64>) {
        self.flow().on_end_acks(now, in_flight, app_limited);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let flow = self.flow();
        flow.on_bytes_lost(now, lost_bytes, sent);
        flow.on_congestion(now, sent, lost_bytes == 0, is_persistent_congestion);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.flow().on_mtu(new_mtu);
    }

    /// quinn stops sending one byte short of a window, so one byte more lets all of it be used.
    fn window(&self) -> u64 {
        let mut flow = self.shared();
        let window = match &self.pacer {
            None => paced_window(&mut flow),
            Some(pacer) => {
                let control = flow.control();
                let rate = if control.send_quantum == u64::MAX { u64::MAX } else { control.pacing_rate };
                pacer.set_rate(rate, flow.smss());
                flow.window()
            }
        };
        window.saturating_add(1)
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut flow = self.shared();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = flow.window();
        metrics.pacing_rate = Some(flow.control().pacing_rate.saturating_mul(8));
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { flow: Mutex::new(self.shared().migrated()), pacer: self.pacer.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.shared().initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quinn::congestion::CubicConfig;

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "quinn wants an instant, and nothing here depends on which"
    )]
    fn a_connection_tells_which_controller_runs() {
        let ours: Arc<dyn ControllerFactory + Send + Sync> =
            Arc::new(Factory::named("bbr3:up_pacing_gain=1.1").unwrap());
        let of = |factory: Arc<dyn ControllerFactory + Send + Sync>| {
            running_in_quinn(factory.build(Instant::now(), 1200).clone_box())
        };
        assert_eq!(of(ours).as_deref(), Some("bbr3:up_pacing_gain=1.1"));
        assert_eq!(of(Arc::new(CubicConfig::default())), None);
    }

    /// What a rate sends in no time is nothing, which would leave the least window of four packets.
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a flow wants an instant, and nothing here depends on which"
    )]
    fn before_the_first_round_trip_the_window_is_the_controller_s() {
        let slow = Factory::named("bbr3").unwrap().max_pacing_rate(125_000);
        let mut flow = Flow::new(&slow, Instant::now(), 1200);
        assert!(flow.control().send_quantum <= 2400 && flow.srtt_us() == 0);
        assert_eq!(paced_window(&mut flow), 12_000);
    }
}
