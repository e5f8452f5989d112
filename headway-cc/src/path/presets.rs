//! Named paths.
//!
//! Sources, in brackets at the end of each row: `tcpeval` draft-irtf-iccrg-tcpeval-01 · `nsperf` the BBRv3 authors'
//! test script · `pantheon` the Pantheon calibrated and pathological paths · `rmcat` RFC 8867 · `9743` RFC 9743 ·
//! `interop` QUIC interop runner · `mahimahi` the mean rates of its traces · `quic-bbr` a published discussion of
//! BBRv3 over QUIC · `own`. Where a source names a range, one value of it is used here and `about` says so. Jitter
//! only adds delay in this simulator, so jitter around a mean is written as the smallest delay and what is added to
//! it.
//!
//! Not here: rows that need another topology, cross traffic or a round-trip time per flow (parking-lot, reverse-cong,
//! udp-transient, ramp, rttfair, impact, speed-mismatch). Recorded traces are not ours to ship, so the cellular rows
//! are made by formula (`path/synthetic.rs`) with the mean rates of the recordings; give a recording as `trace=FILE`.
//!
//! Drops of the rate by name (`drop-2x-50mbit-40ms-4bdp-5s`) are made by formula too (`path/drops.rs`) and have no
//! rows here.

/// A named path.
#[derive(Debug)]
pub struct Preset {
    /// The name that [`resolve`](super::resolve) knows it by: lower case, digits, hyphens.
    pub name: &'static str,
    /// Canonical path text.
    pub text: &'static str,
    /// What kind of path it models, and its source in brackets.
    pub about: &'static str,
}

const fn row(name: &'static str, text: &'static str, about: &'static str) -> Preset {
    Preset { name, text, about }
}

/// Every preset. Adding a row here is all that a new one needs.
pub const PRESETS: &[Preset] = &[
    row("clean", "20mbit 40ms queue=1bdp", "nothing but a bottleneck of 1 BDP [own]"),
    row(
        "drop",
        "20mbit 40ms queue=2bdp @4s 6mbit @8s 20mbit",
        "rate falls to 30 % for 4 s and recovers [own]",
    ),
    row("lossy", "10mbit 150ms queue=1bdp loss=1%", "long round trip, 1 % random loss [own]"),
    row(
        "policer",
        "100mbit 20ms queue=1bdp policer=12mbit/75kB",
        "true token bucket, 12 Mbit/s, 50 ms burst, on a faster link [pantheon 7]",
    ),
    row("policer-1pkt", "12mbit 20ms queue=1pkt", "policer as a queue of one packet [pantheon 7]"),
    row(
        "dc-1g",
        "1gbit 200us queue=10ms",
        "data centre at 1 Gbit/s; the source has 0.04 to 0.4 ms [tcpeval 4.4.1]",
    ),
    row("dc-ecn", "1gbit 1ms queue=1000pkt ce=242us", "data centre with a CE threshold [nsperf]"),
    row("lan-100", "100mbit 1ms queue=100pkt", "local network, 150 kB of buffer [quic-bbr]"),
    row("access", "100mbit 100ms queue=100ms", "access link at the mean of 4 to 200 ms [tcpeval 4.4.2]"),
    row("bloat", "50mbit 30ms queue=10bdp", "bloated buffer; also 1, 50, 100 BDP [nsperf]"),
    row(
        "coexist",
        "50mbit 30ms queue=1bdp",
        "two controllers side by side; also 0.1 to 16 BDP [nsperf, 9743]",
    ),
    row("shallow", "100mbit 100ms queue=0.02bdp", "buffer of 2 % of a BDP; the source has 1 Gbit/s [nsperf]"),
    row(
        "randloss",
        "100mbit 100ms queue=1bdp loss=1%",
        "1 % random loss; also 1e-5 to 20 %; the source has 1 Gbit/s [nsperf]",
    ),
    row(
        "wifi-var",
        "24mbit 24ms queue=4bdp loss=ge:1%/10%/0%/0.5% jitter=8ms/20ms ackagg=4ms repeat=10s \
         @1s 36mbit @2s 54mbit @3s 36mbit @4s 24mbit @5s 18mbit @6s 12mbit @7s 6mbit @8s 12mbit @9s 24mbit",
        "Wi-Fi rates as a fixed walk (mean 24.6 Mbit/s) instead of a Markov chain, ACKs in bursts [tcpeval 4.4.5]",
    ),
    row("cal-india", "100.42mbit 54ms queue=173pkt", "calibrated to a path to India [pantheon 4]"),
    row("cal-kr-cn", "77.72mbit 102ms queue=94pkt loss=0.06%", "calibrated Korea to China [pantheon 5]"),
    row("cal-mx", "114.68mbit 90ms queue=450pkt", "calibrated to a path to Mexico [pantheon 6]"),
    row(
        "ackagg",
        "12mbit 20ms queue=infinite up=120kbit upqueue=infinite ackagg=100ms",
        "ACK link with 1500 bytes per 100 ms [pantheon 13]",
    ),
    row(
        "ackagg-200",
        "12mbit 20ms queue=infinite up=600kbit upqueue=infinite ackagg=200ms",
        "ACK link with 15000 bytes per 200 ms [pantheon 14]",
    ),
    row("tinybuf", "12mbit 60ms queue=0.1bdp", "9 kB of buffer; also 30, 45, 90 kB [pantheon 15]"),
    row(
        "netem-100j",
        "200mbit 40ms queue=2.5MB jitter=normal:10ms reorder upjitter=normal:10ms",
        "each way normal(50, 10) ms with reordering, buffer 1 BDP of 100 ms [quic-bbr]",
    ),
    row(
        "netem-100j-ordered",
        "200mbit 40ms queue=2.5MB jitter=normal:10ms upjitter=normal:10ms",
        "the same with the order kept, which bunches packets near the largest delay [quic-bbr]",
    ),
    row(
        "us-cn-200",
        "100mbit 180ms queue=2.5MB loss=square:3.3%/5.6%/2s jitter=40ms/100ms",
        "180 to 220 ms, loss in a square wave; the source has 300 Mbit/s [quic-bbr]",
    ),
    row(
        "vps-225",
        "50mbit 205ms queue=1.40625MB jitter=40ms/100ms",
        "205 to 245 ms; also 0.1 % loss [quic-bbr]",
    ),
    row(
        "oceanic",
        "1gbit 200ms queue=100ms",
        "link across an ocean, for the simulator or fast hosts; also 134 to 330 ms [tcpeval 4.4.3]",
    ),
    row(
        "geo-sat",
        "40mbit 600ms queue=1s up=4mbit upqueue=1s",
        "link over a geostationary satellite; also 100 ms of buffer and 0.1 % loss [tcpeval 4.4.4]",
    ),
    row(
        "leo",
        "100mbit 45ms queue=2bdp loss=0.5% jitter=8ms/20ms up=15mbit upqueue=2bdp repeat=60s \
         @14.9s 0mbit @15s 100mbit 65ms @29.9s 0mbit @30s 100mbit 45ms @44.9s 0mbit @45s 100mbit 25ms @59.9s 0mbit",
        "low orbit: every 15 s a gap of 100 ms and another delay [own, for 9743]",
    ),
    row(
        "dialup",
        "64kbit 10ms queue=1.25s up=64kbit upqueue=1.25s",
        "modem without the delay of the edges [tcpeval 4.4.6]",
    ),
    row(
        "step",
        "20mbit 100ms queue=300ms @40s 50mbit @60s 12mbit @80s 20mbit",
        "the rate steps to 2.5, 0.6 and 1 times 20 Mbit/s [rmcat 5.1]",
    ),
    row(
        "step-1m",
        "1mbit 100ms queue=300ms @40s 2.5mbit @60s 600kbit @80s 1mbit",
        "the rate steps to 2.5, 0.6 and 1 times 1 Mbit/s [rmcat 5.1]",
    ),
    row(
        "step-2",
        "4mbit 100ms queue=300ms @25s 2mbit @50s 3.5mbit @75s 1mbit @100s 2mbit",
        "the rate steps from 4 to 2, 3.5, 1, 2 Mbit/s, for two flows [rmcat 5.2]",
    ),
    row("rt-mix", "2mbit 100ms queue=300ms", "for media beside bulk; also 20 and 1000 ms [rmcat 5.6]"),
    row("short", "20mbit 40ms queue=1bdp", "for short flows; also 1 % loss [9743]"),
    row("aqm", "20mbit 20ms queue=codel", "CoDel; also 100 Mbit/s and 80 ms [9743]"),
    row("aqm-ecn", "20mbit 20ms queue=codel ecn", "CoDel that marks [9743]"),
    row(
        "reorder",
        "50mbit 50ms queue=1bdp reorder=5%/10ms",
        "5 % of packets 10 ms later; also 1, 20 % [9743]",
    ),
    row(
        "outage",
        "10mbit 30ms queue=25pkt repeat=5s @3s loss=100%",
        "the data direction is a black hole 2 s of every 5 s [interop]",
    ),
    row(
        "handshake-loss",
        "10mbit 30ms queue=25pkt loss=30%/3 uploss=30%/3",
        "30 % loss both ways, never more than 3 in a row [interop]",
    ),
    row("longrtt-1500", "10mbit 1.5s queue=25pkt", "a round trip of 1.5 s [interop]"),
    row(
        "noise",
        "trace=poisson:50mbit 40ms queue=4bdp jitter=normal:1ms",
        "the rate never falls: chances to send come at random around a steady mean [own]",
    ),
    row(
        "lte-att",
        "trace=cell:5.17mbit 40ms queue=1.5MB uptrace=cell:830kbit upqueue=1bdp",
        "cellular link with the mean rates of ATT-LTE-driving; also without a limit [mahimahi]",
    ),
    row(
        "lte-tmo",
        "trace=cell:12.8mbit 40ms queue=1.5MB",
        "cellular link with the mean rate of TMobile-LTE-driving down [mahimahi]",
    ),
    row(
        "umts",
        "trace=cell:2.02mbit 40ms queue=1.5MB uptrace=cell:940kbit upqueue=1bdp",
        "cellular link with the mean rates of TMobile-UMTS [mahimahi]",
    ),
    row(
        "evdo",
        "trace=cell:520kbit 40ms queue=1.5MB uptrace=cell:840kbit upqueue=1bdp",
        "cellular link with the mean rates of Verizon-EVDO [mahimahi]",
    ),
    row(
        "cal-nepal",
        "trace=poisson:570kbit 56ms queue=14pkt loss=4.77%",
        "calibrated to a path to Nepal [pantheon 1]",
    ),
    row(
        "cal-mx-cell",
        "trace=poisson:2.64mbit 176ms queue=130pkt",
        "calibrated to a cellular path to Mexico [pantheon 2]",
    ),
    row(
        "cal-co-cell",
        "trace=poisson:3.04mbit 260ms queue=426pkt",
        "calibrated to a cellular path to Colombia [pantheon 3]",
    ),
    row(
        "game",
        "100mbit 6ms queue=1bdp",
        "bulk data beside a latency probe; also 20 Mbit/s, 30 ms, 4 BDP [own]",
    ),
];
