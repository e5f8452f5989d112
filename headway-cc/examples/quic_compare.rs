//! Our controllers in noq and quinn beside the stacks' own, over the rows of the suite `quinn`, in virtual time:
//! `cargo run --release --example quic_compare --features noq,quinn -- [SECONDS [ROW|all [STREAMS]]]`.
//!
//! One line a cell: the row, streams of the one connection, stack and controller, goodput after the first quarter,
//! mean and 95th percentile of the time in the bottleneck's queue, share of the data packets that were dropped or lost.

// The same text compiled against each stack: their types have the same names and are different types.
#![allow(clippy::duplicate_mod)]

#[allow(dead_code)]
#[path = "../tests/quic/noq.rs"]
mod noq;
#[allow(dead_code)]
#[path = "../tests/quic/quinn.rs"]
mod quinn;

use headway_cc::quic::Factory;
use std::env::args;

/// The rows that need no real host (`lo-ctl` is a loopback): presets, and what is lost in addition.
const ROWS: &[(&str, &str)] = &[
    ("lan-100", ""),
    ("netem-100j", ""),
    ("netem-100j-ordered", ""),
    ("us-cn-200", ""),
    ("vps-225", ""),
    ("vps-225", "loss=0.1%"),
];
const STREAMS: [usize; 4] = [1, 4, 8, 16];

/// Runs one cell of a stack and prints its line.
macro_rules! cell {
    ($stack:ident, $cc:literal, $factory:expr, $path:expr, $streams:expr, $seconds:expr) => {{
        let mut spec = $stack::net::Spec::new($path, $factory);
        spec.streams = $streams;
        let mut net = $stack::net::Net::new(&spec);
        net.run_until($seconds * 250_000);
        let (received, queued) = (net.received, net.queued_us.len());
        net.run_until($seconds * 1_000_000);
        let mbit = (net.received - received) as f64 * 8.0 / ($seconds as f64 * 0.75e6);
        let mut queued = net.queued_us.split_off(queued);
        queued.sort_unstable();
        let mean = queued.iter().map(|us| u64::from(*us)).sum::<u64>() as f64 / queued.len().max(1) as f64;
        let p95 = queued.get(queued.len() * 95 / 100).copied().unwrap_or(0);
        let link = net.down_stats();
        let lost = (link.drop_packets + link.lost_packets) as f64 * 100.0 / link.in_packets.max(1) as f64;
        let (stack, cc) = (stringify!($stack), $cc);
        println!(
            "{} {} {stack} {cc} {mbit:.1} {:.1} {:.1} {lost:.2}",
            $path,
            $streams,
            mean / 1e3,
            f64::from(p95) / 1e3
        );
    }};
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    use ::noq_proto::congestion as of_noq;
    use ::quinn_proto::congestion as of_quinn;
    let seconds: u64 = args().nth(1).map_or(Ok(20), |s| s.parse())?;
    let wanted = args().nth(2).filter(|row| row != "all");
    let only: Option<usize> = args().nth(3).map(|s| s.parse()).transpose()?;
    println!("# path; streams stack cc goodput_mbit queue_mean_ms queue_p95_ms lost_percent");
    for (name, more) in ROWS.iter().filter(|r| wanted.as_ref().is_none_or(|w| w == r.0)) {
        let preset = headway_cc::path::PRESETS.iter().find(|p| p.name == *name).ok_or("no such preset")?;
        let path = &[preset.text, more].join(" ");
        for streams in STREAMS.into_iter().filter(|n| only.is_none_or(|only| only == *n)) {
            cell!(noq, "headway-bbr3", Factory::named("bbr3")?, path, streams, seconds);
            cell!(noq, "headway-bbr1", Factory::named("bbr1")?, path, streams, seconds);
            cell!(noq, "headway-cubic", Factory::named("cubic")?, path, streams, seconds);
            cell!(noq, "own-bbr3", of_noq::Bbr3Config::default(), path, streams, seconds);
            cell!(noq, "own-cubic", of_noq::CubicConfig::default(), path, streams, seconds);
            cell!(quinn, "headway-bbr3", Factory::named("bbr3")?, path, streams, seconds);
            cell!(quinn, "headway-bbr1", Factory::named("bbr1")?, path, streams, seconds);
            cell!(quinn, "own-bbr", of_quinn::BbrConfig::default(), path, streams, seconds);
            cell!(quinn, "own-cubic", of_quinn::CubicConfig::default(), path, streams, seconds);
        }
    }
    Ok(())
}
