//! The signals of a stock kernel: with [`Signals::Kernel`](super::Signals) a flow hands its controller what the BPF
//! glue can reconstruct (`headway-cli/bpf/lost.bpf.h`, whose steps these are) instead of what the sampler knows.

use super::flow::Flow;
use crate::cc::{Ack, EVENT_ACK, EVENT_INIT, EVENT_LOSS, EVENT_LOST, NO_RTT};
use crate::rand;
use crate::reconstruct::Ring;

/// What the glue keeps for a socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    ring: Ring,
    sample_is_app_limited: bool,
    /// Lost data that the controller has heard of.
    told: u64,
}

impl Record {
    /// Replaces what the sampler knows of a packet's transmission by what the ring has.
    fn fill_transmission(&self, ack: &mut Ack, key: u32) {
        let entry = self.ring.find(key).map(|at| self.ring.entry(at)).filter(|e| e.inflight > 0);
        ack.rs_prior_delivered = ack.delivered - u64::from((ack.delivered as u32).wrapping_sub(key));
        ack.rs_tx_in_flight = entry.map_or(0, |e| u64::from(e.inflight));
        ack.rs_lost = entry.map_or(0, |e| u64::from((ack.lost as u32).wrapping_sub(e.lost)));
    }
}

impl Flow {
    /// Before an event is put together: what the ring needs of an ACK, then the losses since the last event.
    pub(crate) fn prepare_signals(&mut self, event: u64, now_ns: u64) {
        let Some(record) = &mut self.record else { return };
        if event == EVENT_INIT {
            return;
        }
        if event == EVENT_ACK {
            let mut ack = Ack::default();
            self.sampler.fill(&mut ack, self.rtt.min_us);
            record.ring.raise(ack.prior_inflight as u32);
            if ack.newly_acked > 0 {
                record.ring.sample = ack.rs_prior_delivered as u32;
                record.sample_is_app_limited = ack.rs_is_app_limited != 0;
            }
        }
        self.tell_losses(now_ns, 0);
    }

    /// The sample of an ACK as the kernel's glue has it.
    pub(crate) fn degrade_sample(&self, ack: &mut Ack) {
        if let Some(record) = &self.record
            && ack.newly_acked > 0
        {
            record.fill_transmission(ack, ack.rs_prior_delivered as u32);
        }
    }

    /// After an event.
    pub(crate) fn keep_record(&mut self, event: u64) {
        if let Some(record) = &mut self.record
            && matches!(event, EVENT_INIT | EVENT_ACK | EVENT_LOSS)
        {
            let s = &self.sampler;
            record.ring.note(s.delivered() as u32, s.lost() as u32, s.inflight() as u32);
        }
    }

    /// One event for all that was marked lost since the last, or for so many `repaired` bytes that never were.
    pub(crate) fn tell_losses(&mut self, now_ns: u64, repaired: u64) {
        let Some(record) = &self.record else { return };
        let burst = self.sampler.lost() - record.told + repaired;
        if burst == 0 {
            return;
        }
        let mut ack = self.event(EVENT_LOST, now_ns, NO_RTT);
        ack.rand = rand::hash(self.random_seed(), !self.sampler.lost()) >> 32;
        self.sampler.fill_counters(&mut ack);
        record.fill_transmission(&mut ack, record.ring.sample);
        ack.rs_lost += if ack.rs_tx_in_flight > 0 { repaired } else { 0 };
        ack.newly_lost = burst;
        ack.rs_is_app_limited = u64::from(record.sample_is_app_limited);
        ack.rs_starts_lost_range = 1;
        if let Some(record) = &mut self.record {
            record.told = self.sampler.lost();
        }
        self.tell(&ack);
    }
}
