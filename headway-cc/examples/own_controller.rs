//! A controller of one's own, compared with cubic in the simulator.

use headway_cc::cc::{Ack, Control, Controller, Event, NO_RTT, controller};
use headway_cc::sim::{FlowSpec, SimSpec, run_with};
use std::error::Error;

/// Keeps about `target_us` of queueing delay: more than that makes the window smaller, less makes it larger.
#[derive(Clone, Debug)]
struct Gentle {
    target_us: u64,
    cwnd: u64,
    last_cut_us: u64,
}

impl Controller for Gentle {
    fn on_event(&mut self, ack: &Ack) -> Control {
        let is_new_round = ack.now_us >= self.last_cut_us + ack.srtt_us;
        match ack.event {
            Event::Init => self.cwnd = ack.cwnd,
            Event::Loss => self.cwnd = 2 * ack.smss,
            Event::Ssthresh if is_new_round => {
                self.cwnd = self.cwnd * 7 / 8;
                self.last_cut_us = ack.now_us;
            }
            Event::Ack if ack.rs_rtt_us != NO_RTT && ack.min_rtt_us != NO_RTT => {
                let queue_us = ack.rs_rtt_us.saturating_sub(ack.min_rtt_us);
                if queue_us > self.target_us && is_new_round {
                    self.cwnd = self.cwnd * 15 / 16;
                    self.last_cut_us = ack.now_us;
                } else if queue_us < self.target_us && ack.is_cwnd_limited {
                    self.cwnd += ack.newly_acked / 4;
                }
            }
            _ => {}
        }
        self.cwnd = self.cwnd.max(4 * ack.smss);
        let rtt_us = if ack.srtt_us == 0 { 100_000 } else { ack.srtt_us };
        let pacing_rate = self.cwnd * ack.unit_bytes * 5 / 4 * 1_000_000 / rtt_us;
        Control { cwnd: self.cwnd, pacing_rate, send_quantum: 2 * ack.smss, mark_app_limited: false }
    }

    fn state(&self) -> Vec<u64> {
        vec![self.cwnd, self.last_cut_us]
    }

    fn state_fields(&self) -> &'static [&'static str] {
        &["cwnd", "last_cut_us"]
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let seconds = 10;
    for path in ["20mbit 40ms queue=4bdp", "10mbit 150ms queue=1bdp loss=1%"] {
        println!("{path}");
        for cc in ["cubic", "gentle"] {
            let spec = SimSpec::new(path.parse()?, vec![FlowSpec::bulk(cc)], seconds * 1_000_000, 1);
            let result = run_with(&spec, &|name| match name {
                "gentle" => Ok(Box::new(Gentle { target_us: 5_000, cwnd: 0, last_cut_us: 0 })),
                other => controller(other),
            })?;
            let flow = &result.flows[0];
            let mbit = flow.delivered_bytes as f64 * 8.0 / 1e6 / seconds as f64;
            println!("  {cc:8} {mbit:5.1} Mbit/s  mean RTT {:5.1} ms", flow.mean_rtt_us as f64 / 1e3);
        }
    }
    Ok(())
}
