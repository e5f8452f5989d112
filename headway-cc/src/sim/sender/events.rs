//! What the controller of a sender hears, and what becomes of its answers.
//!
//! With exact signals each event tells all that the sampler knows. With the kernel's signals the `KernelRecord`
//! (`kernel_record.rs`) puts its own account in place of that, and losses are told before the next event.

use super::Sender;
use crate::cc::{Ack, Event};
use crate::driver::Moment;
use crate::rand;
use crate::reconstruct::RingEntry;
use crate::sampler::Sent;
use crate::sim::TraceRow;
use crate::sim::kernel_record::{LostRun, LostSegment};

impl Sender {
    /// Tells the controller of an ACK, by which the sampler's work on it ends, and does what it says. It is apart from
    /// the other events because it is by far the most frequent one.
    #[inline]
    pub(super) fn dispatch_ack(&mut self, now_ns: u64, rs_rtt_us: u64) {
        if self.record.is_some() {
            self.tell_before(Event::Ack, now_ns);
        }
        let at = self.next_moment(now_ns);
        let mut ack = self.driver.ack(&at, &mut self.sampler, rs_rtt_us);
        if let Some(record) = &self.record {
            record.degrade(&mut ack);
        }
        self.tell(&ack);
        self.record_after(Event::Ack);
    }

    /// Tells the controller of any other event and does what it says.
    pub(super) fn dispatch(&mut self, event: Event, now_ns: u64) {
        if self.record.is_some() && event != Event::Init {
            self.tell_before(event, now_ns);
        }
        let at = self.next_moment(now_ns);
        let ack = self.driver.event(event, &at, &self.sampler);
        self.tell(&ack);
        self.record_after(event);
    }

    /// Tells the controller of a segment that was just marked lost. The random number comes from the count of what
    /// was lost, so that the other events get the same numbers whether or not there are losses between them.
    pub(super) fn tell_lost(&mut self, now_us: u64, sent: &Sent, starts_range: bool) {
        let at = self.moment(now_us * 1000, rand::hash(self.random_seed, !self.sampler.lost()) >> 32);
        let ack = self.driver.lost(&at, &self.sampler, sent, starts_range);
        self.tell(&ack);
    }

    /// As a stock kernel's glue does it: what the record needs of an ACK, then the losses since the last event.
    fn tell_before(&mut self, event: Event, now_ns: u64) {
        let Some(record) = &mut self.record else { return };
        if event == Event::Ack {
            let mut ack = Ack::default();
            self.sampler.fill(&mut ack, self.rtt.min_us);
            record.on_ack(&ack);
        }
        let untold = record.untold(self.sampler.lost());
        if untold == 0 {
            return;
        }
        let now_us = now_ns / 1000;
        let (loss, sampler) = (&self.loss, &self.sampler);
        let lost = loss.unrepaired().into_iter().map(|seq| LostSegment {
            seq,
            sent: loss.sent(seq, now_us, sampler),
            is_retransmission: loss.is_retransmission(seq),
        });
        for run in record.runs(lost, untold) {
            self.tell_run(now_ns, &run);
        }
    }

    /// As a stock kernel's glue does it: so many bytes were repaired that nothing had marked lost.
    pub(super) fn tell_repaired(&mut self, now_ns: u64, bytes: u64) {
        let Some(record) = &self.record else { return };
        let run = record.repaired(record.untold(self.sampler.lost()), bytes);
        self.tell_run(now_ns, &run);
    }

    fn tell_run(&mut self, now_ns: u64, run: &LostRun) {
        let mut ack = self.driver.event(Event::Lost, &self.moment(now_ns, 0), &self.sampler);
        let Some(record) = &mut self.record else { return };
        record.fill_lost(&mut ack, run);
        ack.rand = rand::hash(self.random_seed, !ack.lost) >> 32;
        self.tell(&ack);
    }

    #[inline]
    fn record_after(&mut self, event: Event) {
        let Some(record) = &mut self.record else { return };
        let sampler = &self.sampler;
        record.after_event(
            event,
            &RingEntry {
                delivered: sampler.delivered() as u32,
                lost: sampler.lost() as u32,
                inflight: sampler.inflight() as u32,
                outstanding: (sampler.inflight() + self.loss.lost() * self.mss) as u32,
                end: (self.loss.nxt() * self.mss) as u32,
            },
        );
    }

    /// The moment of the next event, with a random number of its own.
    #[inline]
    fn next_moment(&mut self, now_ns: u64) -> Moment {
        self.events += 1;
        self.moment(now_ns, rand::hash(self.random_seed, self.events) >> 32)
    }

    #[inline]
    fn moment(&self, now_ns: u64, rand: u64) -> Moment {
        Moment {
            now_us: now_ns / 1000,
            srtt_us: self.rtt.srtt_us(),
            min_rtt_us: self.rtt.min_us,
            ca_state: self.loss.ca_state(),
            is_cwnd_limited: self.is_cwnd_limited,
            edt_us: self.pacer.wait_ns(now_ns) / 1000,
            rand,
        }
    }

    #[inline]
    fn tell(&mut self, ack: &Ack) {
        let control = self.driver.tell(ack, &mut self.sampler);
        if self.is_traced {
            let state = self.driver.controller().state();
            self.run.trace.push(TraceRow { ack: *ack, control, state });
        }
        self.max_cwnd_bytes = self.max_cwnd_bytes.max(self.driver.cwnd());
        self.pacer.apply(&self.driver.control(), self.rtt.min_us);
    }
}
