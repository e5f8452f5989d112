//! The rows of the suites that follow a published list of tests; `docs/explanation/traffic.md` names the sources.

use super::{EMULATED, Row};
use crate::plan::traffic::{Carrier, HostLoad, Pattern, Rival, SAME, Traffic};
use headway_cc::messages::Messages;
use headway_cc::path;

const SIM: &[&str] = &["sim"];
/// The places that have the kernel's own controllers.
const KERNEL: &[&str] = &["lab", "here"];
/// Above this rate a guest of the lab, or a machine that is not idle, measures itself.
const FASTEST_EMULATED_BPS: u64 = 200_000_000;

/// Bulk streams on a path for some seconds, with the usual warm-up (20 round trips, at least 2 s), in the places that
/// keep up with the rate.
fn bulk(path: &str, streams: u32, seconds: u32) -> Row {
    let resolved = path::resolve(path).ok();
    let warmup_ms = resolved.as_ref().map_or(0, |p| 20 * p.base_rtt_us() / 1000).max(2000);
    let is_fast = resolved.is_some_and(|p| p.capacity_bits(0, 1_000_000_000) > FASTEST_EMULATED_BPS);
    let named = path::PRESETS.iter().any(|p| p.name == path);
    let words = if streams == 1 { String::new() } else { format!(" {streams} streams") };
    Row {
        name: if named { format!("{path}{words}") } else { words.trim().into() },
        path: path.into(),
        traffic: Traffic { streams, warmup_ms, ..Traffic::bulk(seconds) },
        places: if is_fast { SIM } else { EMULATED },
    }
}

impl Row {
    /// Puts a name in front of what the row is called so far.
    fn called(self, name: &str) -> Self {
        Self { name: format!("{name} {}", self.name).trim().into(), ..self }
    }

    fn against(mut self, cc: &str) -> Self {
        self.name += &format!(" against {cc}");
        self.traffic.against = Some(Rival { cc: cc.into(), extra_rtt_us: 0 });
        // The simulator has only controllers that exist in Rust.
        let is_simulated = headway_cc::cc::controller(cc).is_ok();
        Self { places: if is_simulated { self.places } else { KERNEL }, ..self }
    }

    fn beside(mut self, bytes: u32, per_second: u32) -> Self {
        let messages = Messages { min_bytes: bytes, max_bytes: bytes, per_second };
        self.traffic.messages = Some(messages);
        self
    }

    /// Each stream begins so much later than the one before it; what counts is what comes after that.
    fn staggered(mut self, stagger_ms: u64) -> Self {
        self.traffic.stagger_ms = stagger_ms;
        self.traffic.warmup_ms += self.traffic.last_start_ms();
        self
    }

    /// Beside as many streams of the candidate itself, whose round trip is longer.
    fn against_itself(mut self, extra_rtt_us: u64) -> Self {
        self.traffic.against = Some(Rival { cc: SAME.into(), extra_rtt_us });
        self
    }

    fn paced(mut self, bps: u64) -> Self {
        self.name += " paced";
        self.traffic.pacing_bps = Some(bps);
        self
    }
}

/// The rows of [`super::FIRST`], each by the name of its preset. The rate of `drop` is low for 4 s and back for 4 s.
pub fn first() -> Vec<Row> {
    let mut drop = bulk("drop", 1, 12);
    drop.traffic.messages = Some(Messages { min_bytes: 64, max_bytes: 1200, per_second: 64 });
    vec![bulk("lossy", 1, 10), drop]
}

/// The paths on which `docs/measurements/bbr3.md` holds BBRv3 against Linux's bbr with one flow.
pub fn bbr3() -> Vec<Row> {
    let bloat =
        |queue: &str| bulk(&format!("20mbit 30ms queue={queue}"), 1, 12).called(&format!("bloat {queue}"));
    let lossy = |loss: &str| {
        bulk(&format!("10mbit 100ms queue=1bdp{loss}"), 1, 15)
            .called(&format!("randloss{}", loss.replace(" loss=", " ")))
    };
    let losses = ["", " loss=0.1%", " loss=1%", " loss=2%", " loss=3%"];
    ["1bdp", "10bdp"].into_iter().map(bloat).chain(losses.into_iter().map(lossy)).collect()
}

pub fn smoke() -> Vec<Row> {
    let coexist =
        |queue: &str| bulk(&format!("50mbit 30ms queue={queue}"), 1, 8).called(&format!("coexist {queue}"));
    vec![
        bulk("lan-100", 1, 8),
        bulk("50mbit 30ms queue=1bdp", 1, 8).called("bloat 1bdp"),
        coexist("1bdp").against("cubic"),
        coexist("4bdp").against("cubic"),
        bulk("100mbit 100ms queue=1bdp", 1, 8).called("randloss 0%"),
        bulk("100mbit 100ms queue=1bdp loss=1%", 1, 8).called("randloss 1%"),
        bulk("us-cn-200", 1, 8),
    ]
}

pub fn blog() -> Vec<Row> {
    let mut rows = Vec::new();
    for rate in ["100mbit", "20mbit"] {
        for rtt in ["6ms", "30ms"] {
            rows.extend(["1bdp", "4bdp"].map(|queue| {
                let row = bulk(&format!("{rate} {rtt} queue={queue}"), 4, 30);
                row.called(&format!("game {rate} {rtt} {queue}")).beside(100, 50)
            }));
        }
    }
    rows
}

pub fn esnet() -> Vec<Row> {
    let mut rows = coexist(&["cubic"], 60);
    for rtt in ["1ms", "40ms", "150ms"] {
        for loss in ["0%", "0.01%"] {
            for (mtu, streams) in [576, 1280, 1500, 9000].into_iter().flat_map(|mtu| [(mtu, 1), (mtu, 8)]) {
                let mut row = bulk(&format!("100mbit {rtt} queue=1bdp loss={loss}"), streams, 30);
                row.traffic.mtu = mtu;
                rows.push(row.called(&format!("mtu-{mtu} {rtt} {loss}")));
            }
        }
    }
    for rtt in ["45ms", "70ms", "150ms"] {
        for (queue, streams) in [("0.05bdp", 1), ("0.05bdp", 8), ("1bdp", 1), ("1bdp", 8)] {
            let row = bulk(&format!("100mbit {rtt} queue={queue}"), streams, 60);
            let row = row.called(&format!("speed-mismatch {rtt} {queue}"));
            // Each stream is paced at 1.25 times its share of the path.
            rows.extend([row.clone(), row.paced(125_000_000 / u64::from(streams))]);
        }
    }
    rows
}

/// The controller under test beside each rival, over the range of buffers that tests for RFC 9743 use.
fn coexist(rivals: &[&str], seconds: u32) -> Vec<Row> {
    let mut rows = Vec::new();
    for queue in ["0.1bdp", "1bdp", "2bdp", "4bdp", "8bdp", "16bdp"] {
        let row = bulk(&format!("50mbit 30ms queue={queue}"), 1, seconds).called(&format!("coexist {queue}"));
        rows.extend(rivals.iter().map(|cc| row.clone().against(cc)));
    }
    rows
}

pub fn ietf() -> Vec<Row> {
    let mut rows = coexist(&["cubic", "reno"], 60);
    rows.push(bulk("coexist", 2, 60));
    for name in ["wifi-var", "leo"] {
        rows.extend([1, 4].map(|streams| bulk(name, streams, 60)));
    }
    for (rate, rtt) in [("20mbit", "20ms"), ("20mbit", "80ms"), ("100mbit", "20ms"), ("100mbit", "80ms")] {
        for aqm in ["codel", "codel ecn"] {
            let row =
                bulk(&format!("{rate} {rtt} queue={aqm}"), 1, 60).called(&format!("aqm {rate} {rtt} {aqm}"));
            rows.extend([row.clone(), row.against("cubic")]);
        }
    }
    rows.extend(["1%", "5%", "20%"].map(|share| {
        let path = format!("50mbit 50ms queue=1bdp reorder={share}/10ms");
        bulk(&path, 1, 60).called(&format!("reorder {share}"))
    }));
    rows.extend(["20ms", "300ms", "1s"].map(|queue| {
        let row = bulk(&format!("2mbit 100ms queue={queue}"), 1, 60);
        row.called(&format!("rt-mix {queue}")).beside(160, 50)
    }));
    let mut limited = bulk("coexist", 1, 60).against("cubic").called("limited");
    limited.traffic.pattern = Pattern::Limited { rate_bps: 10_000_000 };
    rows.push(limited);
    rows.extend([bulk("step", 1, 100), bulk("step-1m", 1, 100), bulk("outage", 1, 60)]);
    rows.push(bulk("longrtt-1500", 1, 120));
    rows
}

/// The loss of `us-cn-200` alternates between 3.3 and 5.6 %. Rows with a constant loss of 3, 4 and 6 % stand beside
/// it, to tell the effect of the amount from that of the change.
pub fn quinn() -> Vec<Row> {
    let mut paths: Vec<(String, String, u32)> = [
        ("lan-100", 20),
        ("wifi-var", 40),
        ("lte-att", 40),
        ("lte-tmo", 40),
        ("oceanic", 30),
        ("geo-sat", 60),
        ("netem-100j", 30),
        ("netem-100j-ordered", 30),
        ("us-cn-200", 40),
        ("vps-225", 40),
    ]
    .map(|(name, seconds)| (name.into(), name.into(), seconds))
    .into();
    paths.extend(["3%", "4%", "6%"].map(|loss| {
        let path = format!("100mbit 180ms queue=2.5MB loss={loss} jitter=40ms/100ms");
        (format!("us-cn-200 loss={loss}"), path, 40)
    }));
    let row = |(name, path, seconds): &(String, String, u32), streams| {
        let row = bulk(path, streams, *seconds);
        if name == path { row } else { row.called(name) }
    };
    paths.iter().flat_map(|path| [1, 4, 8, 16].map(|streams| row(path, streams))).collect()
}

pub fn bbr() -> Vec<Row> {
    let mut rows: Vec<Row> = [1, 4, 10, 40, 100].map(|streams| bulk("dc-ecn", streams, 10)).into();
    rows.extend(
        ["1bdp", "10bdp", "50bdp", "100bdp"].map(|queue| {
            bulk(&format!("50mbit 30ms queue={queue}"), 2, 120).called(&format!("bloat {queue}"))
        }),
    );
    rows.extend(coexist(&["cubic", "reno", "bbr"], 180));
    rows.extend([1, 10, 30, 60, 100].map(|streams| bulk("shallow", streams, 300)));
    let losses = ["0.001%", "0.01%", "0.1%", "0.2%", "0.5%", "1%", "2%", "3%", "10%", "15%", "20%"];
    rows.extend(losses.map(|loss| {
        bulk(&format!("100mbit 100ms queue=1bdp loss={loss}"), 1, 60).called(&format!("randloss {loss}"))
    }));
    rows
}

pub fn pantheon() -> Vec<Row> {
    let calibrated = ["cal-nepal", "cal-mx-cell", "cal-co-cell", "cal-india", "cal-kr-cn", "cal-mx"];
    let mut rows: Vec<Row> = calibrated.map(|name| bulk(name, 1, 30)).into();
    for rate in ["12mbit", "60mbit", "108mbit"] {
        for (rtt, streams) in [("20ms", 1), ("20ms", 3), ("100ms", 1), ("100ms", 3)] {
            let row = bulk(&format!("{rate} {rtt} queue=1pkt"), streams, 30);
            rows.push(row.called(&format!("policer-1pkt {rate} {rtt}")));
        }
    }
    rows.extend(["policer", "ackagg", "ackagg-200"].map(|name| bulk(name, 1, 30)));
    for queue in ["9kB", "30kB", "45kB", "90kB"] {
        let row = |streams| bulk(&format!("12mbit 60ms queue={queue}"), streams, 30);
        rows.extend([1, 3].map(|streams| row(streams).called(&format!("tinybuf {queue}"))));
    }
    rows
}

/// How a controller shares: with itself, when flows begin one after the other, in any number and at any round trip, and with
/// others that come when it has settled.
pub fn rivals() -> Vec<Row> {
    let join = |path: &str, streams: u32, seconds: u32, stagger_ms: u64, name: &str| {
        let row = bulk(path, streams, seconds).staggered(stagger_ms);
        Row { name: format!("join {name}"), ..row }
    };
    let usual = "50mbit 40ms queue=1bdp";
    let mut rows: Vec<Row> =
        ["0.5bdp", "1bdp", "4bdp"].map(|q| join(&format!("50mbit 40ms queue={q}"), 2, 60, 3000, q)).into();
    rows.extend(
        [(100, "0.1 s"), (1000, "1 s"), (10_000, "10 s"), (30_000, "30 s")]
            .map(|(ms, after)| join(usual, 2, 90, ms, &format!("after {after}"))),
    );
    rows.extend(["5ms", "300ms"].map(|rtt| join(&format!("50mbit {rtt} queue=1bdp"), 2, 60, 3000, rtt)));
    rows.push(join("50mbit 40ms queue=1bdp jitter=4ms", 2, 60, 3000, "jitter"));
    rows.push(join(usual, 8, 60, 1000, "8 streams"));
    rows.push(join("200mbit 40ms queue=1bdp", 50, 60, 100, "50 streams"));
    rows.extend(["1bdp", "4bdp", "16bdp"].map(|queue| {
        let row =
            bulk(&format!("20mbit 20ms queue={queue}"), 1, 120).called(&format!("20 and 160 ms {queue}"));
        row.against_itself(140_000)
    }));
    for queue in ["0.5bdp", "2bdp", "8bdp"] {
        let row = bulk(&format!("50mbit 40ms queue={queue}"), 1, 90).called(&format!("settled {queue}"));
        rows.extend(
            ["cubic", "reno", "bbr", "bbr1", "bbr3"].map(|cc| row.clone().against(cc).staggered(10_000)),
        );
    }
    let lossy = bulk("50mbit 40ms queue=1bdp loss=1%", 1, 90).called("settled loss=1%");
    rows.push(lossy.against("cubic").staggered(10_000));
    rows
}

pub fn tcpeval() -> Vec<Row> {
    let mut rows: Vec<Row> = [1, 4, 10, 40, 100].map(|streams| bulk("dc-1g", streams, 10)).into();
    rows.push(bulk("access", 4, 60));
    rows.extend([1, 4].map(|streams| bulk("wifi-var", streams, 60)));
    rows.extend([1, 8].map(|streams| bulk("oceanic", streams, 120)));
    for (queue, loss) in [("100ms", "0%"), ("1s", "0%"), ("100ms", "0.1%"), ("1s", "0.1%")] {
        let path = format!("40mbit 600ms queue={queue} loss={loss} up=4mbit upqueue={queue}");
        rows.extend(
            [1, 4].map(|streams| bulk(&path, streams, 180).called(&format!("geo-sat {queue} {loss}"))),
        );
    }
    rows.push(bulk("dialup", 2, 300));
    rows.into_iter().map(|row| Row { places: SIM, ..row }).collect()
}

/// Loads on wires, in which nothing but the hosts can make a difference. A second of virtual time holds thousands of requests.
pub fn hosts() -> Vec<Row> {
    let requests = |carrier| Some(HostLoad::Requests(carrier));
    let row = |wire: &str, load: &str, host_load: Option<HostLoad>, streams: u32, cpu_load_percent: u32| {
        let busy =
            if cpu_load_percent > 0 { format!(", CPU {cpu_load_percent} % busy") } else { String::new() };
        Row {
            name: format!("{wire} {load}{busy}"),
            path: wire.into(),
            traffic: Traffic { streams, cpu_load_percent, host_load, warmup_ms: 200, ..Traffic::bulk(1) },
            places: if ["loopback", "veth"].contains(&wire) { KERNEL } else { &["lab"] },
        }
    };
    vec![
        row("loopback", "ping", Some(HostLoad::Idle), 1, 0),
        row("virtio", "64 TCP clients", requests(Carrier::Tcp), 64, 0),
        row("e1000", "ping", Some(HostLoad::Idle), 1, 0),
        row("e1000", "1 TCP client", requests(Carrier::Tcp), 1, 0),
        row("e1000", "64 UDP clients", requests(Carrier::Udp), 64, 50),
        row("e1000", "flood", Some(HostLoad::Flood { bytes: 64 }), 1, 0),
        row("e1000", "bulk", None, 1, 0),
        row("e1000", "bulk", None, 4, 90),
    ]
}
