//! Writes a [`Path`] as its canonical text. The same path always gives the same text, because raw files identify a
//! path by it.

use super::parse::CODEL;
use super::units::{BDP, COUNT, DELAY, MOMENT, PACKETS, RATE, SHARE, SIZE, STEP_RATE};
use super::{Limit, Path};
use crate::link::{CodelSpec, Jitter, LinkSpec, Loss, UNLIMITED};
use std::fmt;

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = vec![rate(&self.down), round_trip(self.down.delay_ns, self.up.delay_ns)];
        down_words(self, &mut words);
        up_words(self, &mut words);
        if let Some(period_ns) = self.down.repeat_ns {
            words.push(format!("repeat={}", MOMENT.show(period_ns)));
        }
        step_words(self, &mut words);
        f.write_str(&words.join(" "))
    }
}

fn down_words(path: &Path, words: &mut Vec<String>) {
    let spec = &path.down;
    words.extend(queue(spec, path.queue).map(|q| format!("queue={q}")));
    if spec.ecn {
        words.push("ecn".to_string());
    }
    words.extend(spec.ce_ns.map(|ns| format!("ce={}", DELAY.show(ns))));
    words.extend(
        spec.policer.map(|p| format!("policer={}/{}", RATE.show(p.rate_bps), SIZE.show(p.burst_bytes))),
    );
    words.extend(loss(&spec.loss).map(|l| format!("loss={l}")));
    words.extend(spec.jitter.map(|j| format!("jitter={}", jitter(j))));
    words.extend(spec.reorder.map(|r| match r.ppb {
        0 => "reorder".to_string(),
        ppb => format!("reorder={}/{}", SHARE.show(ppb.into()), DELAY.show(r.extra_ns)),
    }));
}

fn up_words(path: &Path, words: &mut Vec<String>) {
    let spec = &path.up;
    if let Some(trace) = &spec.trace {
        words.push(format!("uptrace={}", trace.name));
    } else if spec.rate_bps != UNLIMITED {
        words.push(format!("up={}", RATE.show(spec.rate_bps)));
    }
    words.extend(queue(spec, path.up_queue).map(|q| format!("upqueue={q}")));
    words.extend(loss(&spec.loss).map(|l| format!("uploss={l}")));
    words.extend(spec.jitter.map(|j| format!("upjitter={}", jitter(j))));
    if spec.release_ns > 0 {
        words.push(format!("ackagg={}", DELAY.show(spec.release_ns)));
    }
}

fn step_words(path: &Path, words: &mut Vec<String>) {
    for step in &path.down.steps {
        words.push(format!("@{}", MOMENT.show(step.at_ns)));
        words.extend(step.rate_bps.map(|r| STEP_RATE.show(r)));
        let up = path.up.steps.iter().find(|up| up.at_ns == step.at_ns).and_then(|up| up.delay_ns);
        words.extend(step.delay_ns.zip(up).map(|(down, up)| round_trip(down, up)));
        words.extend(step.loss.as_ref().map(|l| format!("loss={}", loss(l).unwrap_or("0%".to_string()))));
    }
}

fn rate(spec: &LinkSpec) -> String {
    match &spec.trace {
        Some(trace) => format!("trace={}", trace.name),
        None if spec.rate_bps == UNLIMITED => "unlimited".to_string(),
        None => RATE.show(spec.rate_bps),
    }
}

/// One number if halving it gives both delays back, else the two delays.
fn round_trip(down_ns: u64, up_ns: u64) -> String {
    let sum_ns = down_ns + up_ns;
    let is_half = (down_ns, up_ns) == (sum_ns - sum_ns / 2, sum_ns / 2) && sum_ns <= DELAY.max;
    if is_half { DELAY.show(sum_ns) } else { format!("{}/{}", DELAY.show(down_ns), DELAY.show(up_ns)) }
}

/// The value of `queue=`; none for a link that cannot queue and has no limit.
fn queue(spec: &LinkSpec, limit: Option<Limit>) -> Option<String> {
    let size = match limit.unwrap_or(Limit::Infinite) {
        Limit::Infinite => None,
        Limit::Bytes(n) => Some(SIZE.show(n)),
        Limit::Packets(n) => Some(PACKETS.show(n)),
        Limit::Ns(n) => Some(DELAY.show(n)),
        Limit::MicroBdp(n) => Some(BDP.show(n)),
    };
    match (spec.codel, size) {
        (Some(codel), size) => Some(codel_text(codel, size)),
        (None, None) if spec.rate_bps == UNLIMITED && spec.trace.is_none() => None,
        (None, None) => Some("infinite".to_string()),
        (None, size) => size,
    }
}

fn codel_text(codel: CodelSpec, size: Option<String>) -> String {
    if codel == CODEL && size.is_none() {
        return "codel".to_string();
    }
    let size = size.map_or(String::new(), |s| format!("/{s}"));
    format!("codel:{}/{}{size}", DELAY.show(codel.target_ns), DELAY.show(codel.interval_ns))
}

fn loss(loss: &Loss) -> Option<String> {
    let share = |ppb: u32| SHARE.show(ppb.into());
    Some(match loss {
        Loss::None => return None,
        Loss::Random { ppb, max_run: 0 } => share(*ppb),
        Loss::Random { ppb, max_run } => format!("{}/{max_run}", share(*ppb)),
        Loss::Elliott { to_bad_ppb, to_good_ppb, good_ppb: 0, bad_ppb: 1_000_000_000 } => {
            format!("ge:{}/{}", share(*to_bad_ppb), share(*to_good_ppb))
        }
        Loss::Elliott { to_bad_ppb, to_good_ppb, good_ppb, bad_ppb } => {
            let (good, bad) = (share(*good_ppb), share(*bad_ppb));
            format!("ge:{}/{}/{good}/{bad}", share(*to_bad_ppb), share(*to_good_ppb))
        }
        Loss::Burst { ppb, run } => format!("burst:{}/{}", share(*ppb), COUNT.show((*run).into())),
        Loss::Square { first_ppb, second_ppb, period_ns } => {
            format!("square:{}/{}/{}", share(*first_ppb), share(*second_ppb), DELAY.show(*period_ns))
        }
        Loss::Trace(trace) => format!("trace:{}", trace.name),
    })
}

fn jitter(jitter: Jitter) -> String {
    let kind = if jitter.normal { "normal:" } else { "" };
    let hold = if jitter.hold_ns > 0 { format!("/{}", DELAY.show(jitter.hold_ns)) } else { String::new() };
    format!("{kind}{}{hold}", DELAY.show(jitter.size_ns))
}
