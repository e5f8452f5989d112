//! Nanoseconds per packet through a link: `cargo run --release -p headway-cc --example link_speed`.
//!
//! The fastest of many short rounds, so that a busy machine disturbs little.

#![expect(clippy::disallowed_methods, reason = "measures wall time")]

use headway_cc::link::Link;
use headway_cc::path::Path;
use std::time::Instant;

const PACKETS: u64 = 20_000;
const ROUNDS: usize = 300;

fn main() {
    println!("# ns_per_packet delivered path");
    for text in [
        "100mbit 40ms queue=1bdp",
        "100mbit 40ms queue=1bdp @1s 99mbit repeat=2s",
        "unlimited 40ms",
        "100mbit 40ms queue=codel ecn ce=1ms",
        "100mbit 40ms queue=1bdp policer=90mbit/100kB",
        "100mbit 40ms queue=1bdp loss=1%",
        "100mbit 40ms queue=1bdp jitter=2ms",
        "100mbit 40ms queue=1bdp jitter=normal:2ms reorder",
        "trace=t 40ms queue=1bdp",
    ] {
        let text = match text.split_once(" repeat=2s") {
            Some((head, _)) => head.replace('@', "repeat=2s @"),
            None => text.to_string(),
        };
        let mut path: Path = text.parse().expect("a valid path");
        if path.down.trace.is_some() {
            path.load("t", "0\n0\n0\n0\n0\n0\n0\n0\n1\n").expect("a valid trace");
        }
        let (ns, delivered) = fastest(&path);
        println!("{ns:.1} {delivered:.3} {path}");
    }
}

/// A load of 0.95 to 1.05 times 100 Mbit/s in bursts of four, popped when due, as the simulator does it.
fn fastest(path: &Path) -> (f64, f64) {
    let mut link: Link<[u64; 4]> = Link::new(&path.down, 1);
    let (mut now_ns, mut best_ns) = (0, f64::MAX);
    let mut checksum = 0;
    for round in 0..ROUNDS {
        let gap_ns = if round % 2 == 0 { 456_000 } else { 504_000 };
        let start = Instant::now();
        for i in 0..PACKETS {
            if i % 4 == 0 {
                now_ns += gap_ns;
                while let Some(out) = link.pop(now_ns) {
                    checksum ^= out.at_ns ^ out.packet[0];
                }
            }
            link.push(now_ns, 1500, true, [i; 4]);
        }
        best_ns = f64::min(best_ns, start.elapsed().as_nanos() as f64 / PACKETS as f64);
    }
    std::hint::black_box(checksum);
    (best_ns, link.stats().out_packets as f64 / link.stats().in_packets as f64)
}
