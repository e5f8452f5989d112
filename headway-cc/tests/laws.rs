//! Laws of the link, checked with random specs, traffic and times of calling; and laws of the controllers, checked
//! with random events.
//!
//! Every run prints its seed on failure; `HEADWAY_SEED` in the environment of the test repeats one.

use headway_cc::cc::row::Word;
use headway_cc::cc::{self, Ack, CONTROLLERS, CaState, Control, Event, NO_RTT};
use headway_cc::link::*;
use headway_cc::path::Path;
use headway_cc::rand::Rng;

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

/// What a random run saw.
struct Seen {
    seed: u64,
    /// Time, bytes and ECT of each pushed packet.
    pushed: Vec<(u64, u32, bool)>,
    popped: Vec<Out<usize>>,
    /// Largest queue after any push.
    queue_bytes_max: u64,
    queue_packets_max: u64,
    stats: LinkStats,
}

impl Seen {
    /// Pops what is due. A caller that comes when the link says must get every packet at exactly its time.
    fn take(&mut self, link: &mut Link<usize>, now_ns: u64, is_late: bool) {
        while let Some(out) = link.pop(now_ns) {
            assert!(
                out.at_ns == now_ns || (is_late && out.at_ns < now_ns),
                "seed {}: {out:?} at {now_ns}",
                self.seed
            );
            self.popped.push(out);
        }
    }
}

fn seeds(n: u64) -> std::ops::Range<u64> {
    #[expect(clippy::disallowed_methods, reason = "a failing seed is repeated from outside")]
    match std::env::var("HEADWAY_SEED").ok().and_then(|s| s.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..n,
    }
}

/// Pushes a random load for `length_ns`, popping at every due time (`is_late`: only at pushes), then drains.
fn drive(spec: &LinkSpec, seed: u64, length_ns: u64, is_late: bool) -> Seen {
    let mut link = Link::new(spec, seed);
    let mut rng = Rng::new(seed, 1000);
    let mut seen = Seen {
        seed,
        pushed: Vec::new(),
        popped: Vec::new(),
        queue_bytes_max: 0,
        queue_packets_max: 0,
        stats: LinkStats::default(),
    };
    let mut now_ns = 0;
    while now_ns < length_ns {
        let bytes = [40, 60, 1500, 1500, 1500, 9000][rng.below(6) as usize];
        let ect = rng.below(2) == 0;
        link.push(now_ns, bytes, ect, seen.pushed.len());
        seen.pushed.push((now_ns, bytes, ect));
        seen.queue_bytes_max = seen.queue_bytes_max.max(link.stats().queue_bytes);
        seen.queue_packets_max = seen.queue_packets_max.max(link.stats().queue_packets);
        // Bursts and pauses, so that the queue both fills and runs empty.
        let gap_ns = match rng.below(50) {
            0 => rng.below(40 * MS),
            1..20 => 0,
            _ => rng.below(MS),
        };
        let next_ns = now_ns + gap_ns;
        while let Some(due_ns) = link.next_ns().filter(|due| *due < next_ns && !is_late) {
            now_ns = now_ns.max(due_ns);
            seen.take(&mut link, now_ns, is_late);
        }
        now_ns = next_ns;
        seen.take(&mut link, now_ns, is_late);
        conserve(&link, seed);
    }
    for _ in 0..10 * seen.pushed.len() {
        let Some(due_ns) = link.next_ns() else { break };
        now_ns = now_ns.max(due_ns);
        seen.take(&mut link, now_ns, is_late);
    }
    conserve(&link, seed);
    seen.stats = *link.stats();
    seen
}

fn conserve(link: &Link<usize>, seed: u64) {
    let (s, inside) = (link.stats(), link.inside());
    assert_eq!(
        s.in_packets,
        s.out_packets + s.drop_packets + s.lost_packets + inside.0,
        "seed {seed}: {s:?}"
    );
    assert_eq!(s.in_bytes, s.out_bytes + s.drop_bytes + s.lost_bytes + inside.1, "seed {seed}: {s:?}");
}

/// A random spec from random path words, so that the text form is exercised too.
#[expect(clippy::too_many_lines, reason = "one draw for each word of a path")]
fn random_path(seed: u64) -> Path {
    let mut rng = Rng::new(seed, 2000);
    let mut pick = |choices: &[&str]| choices[rng.below(choices.len() as u64) as usize].to_string();
    let words = [
        pick(&["1mbit", "7mbit", "20mbit", "70mbit", "333.333333mbit", "1gbit", "unlimited", "trace=t"]),
        pick(&["0ms", "10ms", "33.333ms", "1us/100ms"]),
        pick(&[
            "queue=20kB",
            "queue=100pkt",
            "queue=1pkt",
            "queue=infinite",
            "queue=codel",
            "queue=codel:1ms/10ms/50pkt",
        ]),
        pick(&["", "", "ce=1ms"]),
        pick(&["", "", "policer=10mbit/20kB"]),
        pick(&[
            "",
            "",
            "loss=5%",
            "loss=10%/2",
            "loss=ge:2%/20%",
            "loss=burst:3%/4",
            "loss=square:0%/20%/100ms",
        ]),
        pick(&["", "", "jitter=3ms", "jitter=normal:1ms", "jitter=5ms/10ms"]),
        pick(&["", "", "", "reorder", "reorder=5%/10ms"]),
        pick(&["", "repeat=800ms"]),
        pick(&["", "@100ms 5ms", "@100ms 40ms loss=50% @300ms 5ms loss=0%"]),
    ];
    let mut text = words.iter().filter(|w| !w.is_empty()).cloned().collect::<Vec<_>>().join(" ");
    if !text.contains("trace=") && rng.below(2) == 0 {
        text += " @400ms 0mbit @500ms 3.3mbit @600ms 50mbit";
    }
    if !text.contains('@') {
        text = text.replace(" repeat=800ms", "");
    }
    let mut path: Path = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    if path.down.trace.is_some() {
        path.load("t", "0\n1\n1\n1\n4\n9\n20\n20\n").unwrap();
    }
    path
}

#[test]
fn packets_and_bytes_are_conserved_whatever_the_link() {
    for seed in seeds(400) {
        let path = random_path(seed);
        let seen = drive(&path.down, seed, S, seed % 2 == 0);
        let mut ids: Vec<usize> = seen.popped.iter().map(|o| o.packet).collect();
        ids.sort_unstable();
        assert!(ids.windows(2).all(|w| w[0] < w[1]), "seed {seed} {path}: a packet came out twice");
        let gone = seen.stats.drop_packets + seen.stats.lost_packets;
        assert_eq!(seen.pushed.len() as u64, ids.len() as u64 + gone, "seed {seed} {path}: not drained");
        for out in &seen.popped {
            let (in_ns, bytes, ect) = seen.pushed[out.packet];
            assert_eq!((out.in_ns, out.bytes), (in_ns, bytes), "seed {seed} {path}");
            assert!(ect || !out.ce, "seed {seed} {path}: marked without ECT");
        }
        let marks = seen.popped.iter().filter(|o| o.ce).count() as u64;
        assert_eq!(marks, seen.stats.mark_packets, "seed {seed} {path}");
    }
}

#[test]
fn order_is_kept_unless_the_path_says_reorder() {
    let mut overtakings = 0;
    for seed in seeds(400) {
        let path = random_path(seed);
        let seen = drive(&path.down, seed, S, seed % 2 == 0);
        assert!(
            seen.popped.windows(2).all(|w| w[0].at_ns <= w[1].at_ns),
            "seed {seed} {path}: arrival times"
        );
        let swaps = seen.popped.windows(2).filter(|w| w[0].packet > w[1].packet).count();
        assert!(swaps == 0 || path.down.reorder.is_some(), "seed {seed} {path}: {swaps} out of order");
        overtakings += swaps;
    }
    assert!(overtakings > 100, "reordering never happened");
}

#[test]
fn no_packet_is_faster_than_delay_and_serialisation() {
    for seed in seeds(400) {
        let path = random_path(seed);
        let spec = &path.down;
        let changes = spec.steps.iter().filter_map(|s| s.rate_bps).chain([spec.rate_bps]);
        let top_bps = changes.max().unwrap_or(UNLIMITED);
        let min_ns = spec.steps.iter().filter_map(|s| s.delay_ns).chain([spec.delay_ns]).min().unwrap_or(0);
        for out in drive(spec, seed, S, false).popped {
            let serial_ns = match top_bps {
                UNLIMITED => 0,
                bps => (u64::from(out.bytes) * 8 * S).div_ceil(bps),
            };
            assert!(out.sent_ns >= out.in_ns + serial_ns, "seed {seed} {path}: {out:?}");
            assert!(out.at_ns >= out.sent_ns + min_ns, "seed {seed} {path}: {out:?}");
        }
    }
}

#[test]
fn the_rate_never_exceeds_the_schedule() {
    for seed in seeds(400) {
        let mut path = random_path(seed);
        (path.down.loss, path.down.codel) = (Loss::None, None);
        path.down.steps.iter_mut().for_each(|s| s.loss = None);
        path.down.policer = None;
        if path.capacity_bits(0, 1) == u64::MAX {
            continue;
        }
        let mut popped = drive(&path.down, seed, S, false).popped;
        popped.sort_by_key(|o| o.packet);
        // The law must hold over every span from one departure to a later one. The packet that ends a span may have
        // started before it.
        for step in [1, 7, 50, 1000] {
            for span in popped.windows(step + 1).step_by(step) {
                let bits: u64 = span[1..].iter().map(|o| u64::from(o.bytes) * 8).sum();
                let slot = if path.down.trace.is_some() { 12_000 } else { 1 };
                let capacity = path.capacity_bits(span[0].sent_ns, span[step].sent_ns + 1) + slot;
                assert!(bits <= capacity, "seed {seed} {path}: {bits} bits where {capacity} fit");
            }
        }
    }
}

#[test]
fn a_busy_link_reaches_its_rate_exactly() {
    for text in
        ["70mbit 10ms queue=infinite", "9mbit 10ms queue=infinite @1s 0mbit @1.5s 333.333333mbit @2s 7mbit"]
    {
        let path: Path = text.parse().unwrap();
        let mut link = Link::new(&path.down, 1);
        (0..200_000).for_each(|i| link.push(0, 1500, false, i));
        let mut bits = 0;
        while let Some(out) = link.pop(3 * S + 5 * MS) {
            bits += u64::from(out.bytes) * 8;
        }
        assert_eq!(bits / 12_000, path.capacity_bits(0, 3 * S) / 12_000, "{text}");
    }
}

#[test]
fn late_calls_change_nothing() {
    for seed in seeds(200) {
        let path = random_path(seed);
        let (prompt, late) = (drive(&path.down, seed, S, false), drive(&path.down, seed, S, true));
        assert_eq!(prompt.popped, late.popped, "seed {seed} {path}");
        assert_eq!(prompt.stats, late.stats, "seed {seed} {path}");
    }
}

#[test]
fn next_is_exact_where_nothing_is_lost_or_reordered() {
    for seed in seeds(200) {
        let mut path = random_path(seed);
        (path.down.loss, path.down.reorder) = (Loss::None, None);
        path.down.steps.iter_mut().for_each(|s| s.loss = None);
        let mut link = Link::new(&path.down, seed);
        let mut rng = Rng::new(seed, 3000);
        // This is the link's own time, so nothing can be due before it.
        let (mut now_ns, mut last_ns) = (0, 0);
        for i in 0..2000 {
            now_ns += rng.below(MS);
            while let Some(due_ns) = link.next_ns().filter(|due| *due <= now_ns) {
                assert!(due_ns == last_ns || link.pop(due_ns - 1).is_none(), "seed {seed} {path}");
                assert_eq!(link.pop(due_ns).map(|o| o.at_ns), Some(due_ns), "seed {seed} {path}");
                last_ns = due_ns;
            }
            link.push(now_ns, 1500, false, i);
            last_ns = now_ns;
        }
    }
}

#[test]
fn drop_tail_never_exceeds_its_limit_and_drops_only_at_it() {
    for seed in seeds(400) {
        let mut path = random_path(seed);
        path.down.policer = None;
        let seen = drive(&path.down, seed, S, false);
        assert!(seen.queue_bytes_max <= path.down.limit_bytes, "seed {seed} {path}");
        assert!(seen.queue_packets_max <= path.down.limit_packets, "seed {seed} {path}");
        if path.down.codel.is_none() && seen.stats.drop_packets > 0 {
            let is_near = seen.queue_bytes_max + 9000 > path.down.limit_bytes
                || seen.queue_packets_max == path.down.limit_packets;
            assert!(is_near, "seed {seed} {path}: dropped below the limit");
        }
    }
}

#[test]
fn a_queue_limit_does_not_count_the_packet_being_sent() {
    let path: Path = "12mbit 0ms queue=3kB".parse().unwrap();
    let mut link = Link::new(&path.down, 1);
    (0..5).for_each(|i| link.push(0, 1500, false, i));
    assert_eq!((link.stats().queue_packets, link.stats().drop_packets), (2, 2));
    link.push(MS - 1, 1500, false, 5);
    assert_eq!(link.stats().drop_packets, 3, "the first packet is not yet through");
    link.push(MS, 1500, false, 6);
    assert_eq!((link.stats().queue_packets, link.stats().drop_packets), (2, 3));
    let out: Vec<_> = std::iter::from_fn(|| link.pop(9 * MS)).map(|o| (o.packet, o.at_ns / MS)).collect();
    assert_eq!(out, [(0, 1), (1, 2), (2, 3), (6, 4)]);
}

#[test]
fn codel_controls_an_overload() {
    let run = |text: &str, ect: bool| {
        let path: Path = text.parse().unwrap();
        let mut link = Link::new(&path.down, 1);
        let mut drops = Vec::new();
        let mut waits = Vec::new();
        // Packets arrive at 1.1 times the rate.
        for i in 0..20_000u64 {
            let now_ns = i * 909_091;
            let before = link.stats().drop_packets;
            link.push(now_ns, 1500, ect, i);
            drops.extend((link.stats().drop_packets > before).then_some(now_ns));
            waits.extend(std::iter::from_fn(|| link.pop(now_ns)).map(|o| o.sent_ns - o.in_ns));
        }
        (drops, waits, *link.stats())
    };
    let (drops, waits, stats) = run("12mbit 0ms queue=codel", true);
    assert!(stats.drop_packets > 300 && stats.mark_packets == 0, "{stats:?}");
    let gaps: Vec<u64> = drops.windows(2).map(|w| w[1] - w[0]).take(30).collect();
    // Drops happen when a packet leaves, so the gaps are only as exact as a packet's serialisation.
    assert!(gaps.windows(2).all(|w| w[1] <= w[0] + 2 * MS), "{gaps:?}");
    assert!(gaps[29] < gaps[0] / 4, "{gaps:?}");
    assert!(waits[waits.len() - 1000..].iter().all(|w| *w < 100 * MS));
    let (_, _, marked) = run("12mbit 0ms queue=codel ecn", true);
    assert!(marked.drop_packets == 0 && marked.mark_packets > 300, "{marked:?}");
    let (_, _, not_ect) = run("12mbit 0ms queue=codel ecn", false);
    assert_eq!(not_ect, stats);
}

#[test]
fn ect_packets_that_waited_are_marked() {
    let path: Path = "12mbit 0ms queue=infinite ce=2.5ms".parse().unwrap();
    let mut link = Link::new(&path.down, 1);
    (0..10).for_each(|i| link.push(0, 1500, i != 6, i));
    let marked: Vec<_> = std::iter::from_fn(|| link.pop(S)).filter(|o| o.ce).map(|o| o.packet).collect();
    assert_eq!(marked, [3, 4, 5, 7, 8, 9]);
}

/// At 12 Mbit/s a packet of 1500 bytes takes 1 ms, so the fourth waits exactly as long as the threshold: not longer.
#[test]
fn a_packet_that_waited_as_long_as_the_threshold_is_not_marked() {
    let path: Path = "12mbit 0ms queue=infinite ce=3ms".parse().unwrap();
    let mut link = Link::new(&path.down, 1);
    (0..6).for_each(|i| link.push(0, 1500, true, i));
    let marked: Vec<_> = std::iter::from_fn(|| link.pop(S)).filter(|o| o.ce).map(|o| o.packet).collect();
    assert_eq!(marked, [4, 5]);
}

/// RFC 8289 §5.5: no packet is dropped while no more than one packet's bytes wait behind it, or the link would idle.
#[test]
fn codel_leaves_one_packet_in_the_queue() {
    let dropped = |backlog: u64| {
        let path: Path = "1.2mbit 0ms queue=codel:5ms/100ms".parse().unwrap();
        let mut link = Link::new(&path.down, 1);
        // A packet takes 10 ms, so each of a standing queue waits for longer than the target of 5 ms.
        (0..backlog).for_each(|i| link.push(0, 1500, false, i));
        for i in 1..100 {
            link.push(i * 10 * MS, 1500, false, backlog + i);
            while link.pop(i * 10 * MS).is_some() {}
        }
        link.stats().drop_packets
    };
    // One is on the wire and one at the head; the others wait behind it.
    assert_eq!((dropped(3), dropped(4) > 0), (0, true), "one behind the head, two behind the head");
}

#[test]
fn a_policer_admits_its_burst_at_one_instant() {
    let path: Path = "unlimited 0ms policer=12mbit/15kB".parse().unwrap();
    let mut link = Link::new(&path.down, 1);
    (0..30).for_each(|i| link.push(5 * S, 1500, false, i));
    assert_eq!(link.stats().drop_packets, 20, "15 kB are ten packets, and rest earns no more");
    // Half a millisecond earns half a packet, the other half completes it.
    link.push(5 * S + MS / 2, 1500, false, 30);
    assert_eq!(link.stats().drop_packets, 21);
    link.push(5 * S + MS, 1500, false, 31);
    link.push(5 * S + MS, 1, false, 32);
    assert_eq!(link.stats().drop_packets, 22, "what was earned is spent");
}

#[test]
fn a_policer_admits_burst_and_rate_and_no_more() {
    let path: Path = "unlimited 0ms policer=12mbit/15kB".parse().unwrap();
    let mut link = Link::new(&path.down, 1);
    // Packets arrive at ten times the rate for 10 s, so the bucket is never full again.
    (0..100_000u64).for_each(|i| link.push(i * 100_000, 1500, false, i));
    let through = 100_000 - link.stats().drop_packets;
    assert_eq!(through, 10 + 9_999, "10 of burst, one each whole millisecond after the first");
    assert_eq!(link.stats().drop_bytes, link.stats().drop_packets * 1500);
    // Packets at exactly the rate pass for ever; a packet larger than the burst never does.
    let mut link = Link::new(&path.down, 1);
    (0..20_000u64).for_each(|i| link.push(i * MS, 1500, false, i));
    link.push(100 * S, 15_001, false, 0);
    assert_eq!(link.stats().drop_packets, 1);
}

#[test]
fn a_seed_decides_everything() {
    for seed in seeds(50) {
        let path = random_path(seed);
        let (a, b) = (drive(&path.down, seed, S / 4, false), drive(&path.down, seed, S / 4, false));
        assert_eq!(a.popped, b.popped, "seed {seed} {path}");
    }
    let path: Path = "50mbit 20ms queue=infinite loss=1% jitter=2ms".parse().unwrap();
    let survivors = |text: &str, seed: u64, is_up: bool| {
        let path: Path = text.parse().unwrap();
        let mut link = Link::new(if is_up { &path.up } else { &path.down }, seed);
        (0..10_000).for_each(|i| link.push(0, 1500, false, i));
        std::iter::from_fn(|| link.pop(100 * S)).map(|o| o.packet).collect::<Vec<i32>>()
    };
    let text = path.to_string();
    assert_ne!(survivors(&text, 1, false), survivors(&text, 2, false), "seeds differ");
    let plain = "50mbit 20ms queue=infinite loss=1%";
    assert_eq!(survivors(&text, 1, false), survivors(plain, 1, false), "jitter leaves the losses alone");
    let both = "50mbit 20ms queue=infinite loss=1% up=50mbit upqueue=infinite uploss=1%";
    assert_ne!(survivors(both, 1, false), survivors(both, 1, true), "the directions differ");
}

#[test]
fn jitter_only_adds_and_has_its_shape() {
    let delays = |text: &str| {
        let path: Path = text.parse().unwrap();
        let mut link = Link::new(&path.down, 1);
        // The packets are far apart, so that keeping their order changes nothing.
        let mut delays: Vec<u64> = Vec::new();
        for i in 0..20_000u64 {
            link.push(i * 100 * MS, 100, false, i);
            delays
                .extend(std::iter::from_fn(|| link.pop((i + 1) * 100 * MS - 1)).map(|o| o.at_ns - o.sent_ns));
        }
        let mean = delays.iter().sum::<u64>() / 20_000;
        (*delays.iter().min().unwrap(), mean, *delays.iter().max().unwrap())
    };
    let (min, mean, max) = delays("unlimited 20ms jitter=8ms");
    assert!((10 * MS..10 * MS + MS / 50).contains(&min), "{min}");
    assert!((18 * MS - MS / 50..=18 * MS).contains(&max), "{max}");
    assert!(mean.abs_diff(14 * MS) < MS / 10, "{mean}");
    let (min, mean, max) = delays("unlimited 20ms jitter=normal:2ms");
    assert!(min >= 10 * MS && max <= 22 * MS && max > 20 * MS && min < 12 * MS, "{min} {max}");
    assert!(mean.abs_diff(16 * MS) < MS / 10, "{mean}");
    let (_, mean, max) = delays("unlimited 20ms jitter=8ms/250ms");
    assert!(mean.abs_diff(14 * MS) < MS / 5 && max <= 18 * MS, "{mean}");
}

#[test]
fn acks_are_released_in_bursts() {
    let path: Path = "10mbit 20ms ackagg=4ms".parse().unwrap();
    let mut link = Link::new(&path.up, 1);
    (0..100u64).for_each(|i| link.push(i * MS + 1, 40, false, i));
    let out: Vec<_> = std::iter::from_fn(|| link.pop(S)).collect();
    assert_eq!(out.len(), 100);
    assert!(out.iter().all(|o| o.at_ns % (4 * MS) == 0 && o.at_ns - o.in_ns < 14 * MS));
    assert_eq!(out.iter().filter(|o| o.at_ns == 40 * MS).count(), 4);
}

#[test]
fn a_change_of_delay_and_loss_takes_effect_on_time() {
    let path: Path = "12mbit 20ms queue=infinite @1s 60ms @2s 20ms loss=100%".parse().unwrap();
    let mut link = Link::new(&path.down, 1);
    (0..300u64).for_each(|i| link.push(i * 10 * MS, 1500, false, i));
    let out: Vec<_> = std::iter::from_fn(|| link.pop(10 * S)).collect();
    assert_eq!(out.len(), 200, "everything after 2 s is lost");
    let way_ms = |i: usize| (out[i].at_ns - out[i].sent_ns) / MS;
    assert_eq!((way_ms(0), way_ms(99), way_ms(100), way_ms(199)), (10, 10, 30, 30));
    assert_eq!(link.stats().lost_packets, 100);
    assert_eq!(link.next_ns(), None);
}

#[test]
fn an_outage_holds_packets_and_one_without_end_keeps_them() {
    let path: Path = "12mbit 20ms queue=infinite @10ms 0mbit @500ms 12mbit @1s 0mbit".parse().unwrap();
    let mut link = Link::new(&path.down, 1);
    (0..20u64).for_each(|i| link.push(5 * MS, 1500, false, i));
    assert_eq!(link.next_ns(), Some(16 * MS));
    let out: Vec<u64> = std::iter::from_fn(|| link.pop(S)).map(|o| o.sent_ns / MS).collect();
    let expected: Vec<u64> = (6..=10).chain(501..=515).collect();
    assert_eq!(out, expected);
    (0..3u64).for_each(|i| link.push(2 * S, 1500, false, i));
    assert_eq!(link.next_ns(), None);
    assert!(link.pop(u64::MAX / 4).is_none());
    assert_eq!(link.inside(), (3, 4500));
}

#[test]
fn a_trace_that_is_not_loaded_carries_nothing() {
    let path: Path = "trace=t 20ms".parse().unwrap();
    let mut link = Link::new(&path.down, 1);
    link.push(0, 1500, false, ());
    assert_eq!((link.next_ns(), link.inside()), (None, (1, 1500)));
}

#[test]
fn time_that_falls_is_held() {
    let path: Path = "12mbit 0ms queue=infinite".parse().unwrap();
    let mut link = Link::new(&path.down, 1);
    link.push(10 * MS, 1500, false, 0);
    link.push(MS, 1500, false, 1);
    let out: Vec<u64> = std::iter::from_fn(|| link.pop(20 * MS)).map(|o| o.in_ns).collect();
    assert_eq!(out, [10 * MS, 10 * MS]);
}

/// Events that no transport sends in this order, most with plausible values and some with absurd ones. Window and
/// rate in force are what the controller asked for.
struct Events {
    rng: Rng,
    ack: Ack,
    is_hostile: bool,
}

impl Events {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed, 3000);
        let mss = [88, 1200, 8948][rng.below(3) as usize];
        let (unit_bytes, smss) = if rng.below(2) == 0 { (1, mss) } else { (mss, 1) };
        let ack = Ack {
            event: Event::Init,
            now_us: rng.below(1 << 40),
            unit_bytes,
            smss,
            cwnd: (1 + rng.below(20)) * smss,
            cwnd_clamp: u64::MAX,
            max_pacing_rate: u64::MAX,
            srtt_us: rng.below(2) * 30_000,
            min_rtt_us: NO_RTT,
            has_selective_acks: rng.below(4) > 0,
            ..Ack::default()
        };
        let is_hostile = rng.below(3) == 0;
        Self { rng, ack, is_hostile }
    }

    fn next(&mut self, control: &Control) -> Ack {
        let (rng, a) = (&mut self.rng, &mut self.ack);
        a.event = if rng.below(4) > 0 { Event::Ack } else { Event::from_word(1 + rng.below(6)).unwrap() };
        (a.cwnd, a.pacing_rate) = (control.cwnd, control.pacing_rate);
        a.now_us += [0, 100, 20_000, 20_000, 3_000_000][rng.below(5) as usize];
        a.newly_acked = rng.below(4) * a.smss;
        a.delivered += a.newly_acked;
        a.delivered_us = a.now_us;
        a.delivered_ce += if rng.below(9) == 0 { a.newly_acked } else { 0 };
        a.newly_lost = if rng.below(8) == 0 { rng.below(9) * a.smss } else { 0 };
        a.lost += a.newly_lost;
        a.inflight = rng.below(a.cwnd.clamp(1, 1 << 40) * 2);
        a.prior_inflight = a.inflight;
        a.rs_interval_us = rng.below(3).min(1) * (1 + rng.below(60_000));
        a.rs_delivered = rng.below(100) * a.smss;
        a.rs_prior_delivered = a.delivered - rng.below(a.delivered.min(100 * a.smss) + 1);
        a.rs_rtt_us = if rng.below(4) == 0 { NO_RTT } else { 10 + rng.below(60_000) };
        a.rs_tx_in_flight = rng.below(4).min(1) * rng.below(400 * a.smss);
        a.rs_lost = a.newly_lost;
        a.rs_delivered_ce = rng.below(2) * a.newly_acked;
        a.rs_starts_lost_range = rng.below(2) == 1;
        a.rs_is_app_limited = rng.below(5) == 4;
        a.is_app_limited = rng.below(2) == 1;
        a.is_cwnd_limited = rng.below(2) == 1;
        a.ca_state = CaState::ALL[rng.below(5) as usize];
        a.rand = rng.bits() >> 32;
        let mut event = *a;
        if self.is_hostile && self.rng.below(5) == 0 {
            let mut words = event.words();
            let at = 1 + self.rng.below(words.len() as u64 - 1) as usize;
            words[at] = [0, 1, u64::MAX, self.rng.bits()][self.rng.below(4) as usize];
            event = Ack::from_words(&words).unwrap_or(event);
        }
        event
    }
}

/// Only for the controllers that the kernel calls; `cubic` runs in the simulator alone.
#[test]
fn controllers_survive_any_event() {
    for (entry, seed) in
        CONTROLLERS.iter().filter(|e| e.name != "cubic").flat_map(|e| seeds(40).map(move |s| (e, s)))
    {
        println!("{} seed {seed}", entry.name);
        let mut events = Events::new(seed);
        let mut cc = entry.connection().expect("its own parameters");
        let mut control = cc.on_event(&events.ack.clone());
        for _ in 0..3000 {
            control = cc.on_event(&events.next(&control));
            assert_eq!(cc.state().len(), cc.state_fields().len());
        }
    }
}

/// Whatever happens, bbr3 has a pacing rate, keeps the smallest window except after a timeout, and enters its states
/// in a legal order.
#[test]
fn bbr3_keeps_its_bounds() {
    use headway_cc::cc::Controller;
    use headway_cc::cc::bbr3::{AckPhase, Bbr3, Bbr3Params, Mode};
    let mut seen = [0; Mode::ProbeRtt as usize + 1];
    for seed in seeds(60) {
        let mut events = Events::new(seed);
        let mut cc = Bbr3::new(Bbr3Params { ecn: seed % 2 == 1, ..Bbr3Params::default() });
        let mut control = cc.on_event(&events.ack.clone());
        for i in 0..3000 {
            let ack = events.next(&control);
            control = cc.on_event(&ack);
            let s = cc.state_row();
            let at = format!("seed {seed} event {i}: {ack:?} {control:?} {s:?}");
            assert!((Mode::Startup..=Mode::ProbeRtt).contains(&s.state), "{at}");
            assert!(s.ack_phase <= AckPhase::ProbeStopping && s.send_quantum >= 2, "{at}");
            assert!(s.max_bw == s.max_bw_0.max(s.max_bw_1) && s.bw <= s.max_bw, "{at}");
            assert!(s.full_bw_now <= s.full_bw_reached || s.full_bw_count >= 3, "{at}");
            if ack.event == Event::Ack && ack.newly_acked > 0 {
                assert!(control.cwnd >= ack.smss.saturating_mul(4).min(ack.cwnd_clamp), "{at}");
                assert!(control.pacing_rate > 0, "{at}");
            } else if ack.event == Event::Lost {
                assert_eq!((control.cwnd, control.pacing_rate), (ack.cwnd, ack.pacing_rate), "{at}");
            } else if ack.event == Event::Loss {
                assert!(control.cwnd >= ack.smss.min(ack.cwnd_clamp), "{at}");
            }
            seen[s.state as usize] += 1;
        }
    }
    assert!(seen[Mode::Startup as usize..].iter().all(|n| *n > 100), "states seen: {seen:?}");
    assert!(cc::controller("bbr3").is_ok());
}
