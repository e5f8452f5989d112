//! Reads a path text into a [`Path`], word by word from left to right. Every error names the word that is to blame
//! and what was expected there.

use super::units::{
    BDP, COUNT, DELAY, INTERVAL, Kind, MOMENT, PACKETS, PERIOD, RATE, SHARE, SIZE, SPAN, STEP_RATE, Word,
};
use super::{KEYS, Limit, Path, PathError, synthetic};
use crate::link::{
    CodelSpec, Jitter, LinkSpec, Loss, LossTrace, Policer, Reorder, Step, TRACE_SLOT_BYTES, Trace, UNLIMITED,
};
use crate::names::nearest;

/// CoDel's defaults (RFC 8289, sections 4.2 and 4.3): 5 ms and 100 ms.
pub(super) const CODEL: CodelSpec = CodelSpec { target_ns: 5_000_000, interval_ns: 100_000_000 };

pub(super) fn path(text: &str) -> Result<Path, PathError> {
    let words = split(text)?;
    let whole = Word { text, at: 0 };
    let [rate, rtt, rest @ ..] = words.as_slice() else {
        let Some(only) = words.first() else {
            return whole.fail("empty; expected a path like `100mbit 40ms queue=1bdp`");
        };
        first_word(*only)?;
        return only.fail("the base RTT is missing; expected a path like `100mbit 40ms queue=1bdp`");
    };
    let (rate_bps, trace) = first_word(*rate)?;
    let (down_ns, up_ns) = round_trip(*rtt)?;
    let down = LinkSpec { rate_bps, trace, delay_ns: down_ns, ..LinkSpec::default() };
    let up = LinkSpec { delay_ns: up_ns, random_stream: 1, ..LinkSpec::default() };
    let mut path = Path { down, up, queue: None, up_queue: None };
    let steps_at = rest.iter().position(|w| w.text.starts_with('@')).unwrap_or(rest.len());
    let (options, steps) = rest.split_at(steps_at);
    read_options(&mut path, options)?;
    read_steps(&mut path, steps)?;
    check(&path, options)?;
    if path.down.reorder == Some(JITTER_REORDERS) && path.up.jitter.is_some() {
        path.up.reorder = path.down.reorder;
    }
    path.resolve_queues();
    Ok(path)
}

fn split(text: &str) -> Result<Vec<Word<'_>>, PathError> {
    let mut words = Vec::new();
    let mut at = 0;
    for piece in text.split(' ') {
        let word = Word { text: piece, at };
        at += piece.len() + 1;
        if piece.bytes().any(|b| !b.is_ascii_graphic()) {
            return word.fail("only printable ASCII characters and single words between spaces are allowed");
        }
        if !piece.is_empty() {
            words.push(word);
        }
    }
    Ok(words)
}

fn first_word(word: Word) -> Result<(u64, Option<Trace>), PathError> {
    if word.text == "unlimited" {
        return Ok((UNLIMITED, None));
    }
    if let Some((_, file)) = word.cut('=').filter(|(key, _)| key.text == "trace") {
        return Ok((UNLIMITED, Some(rate_trace(file)?)));
    }
    match RATE.read(word) {
        Err(_) if !word.text.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
            word.fail("expected the rate first: one like 100mbit, `trace=FILE` or `unlimited`")
        }
        rate => Ok((rate?, None)),
    }
}

/// Reads the delays down and up, in nanoseconds, from `40ms`, which is split in halves, or from `10ms/30ms`.
fn round_trip(word: Word) -> Result<(u64, u64), PathError> {
    match word.parts()[..] {
        [both] => DELAY.read(both).map(|ns| (ns - ns / 2, ns / 2)),
        [down, up] => Ok((DELAY.read(down)?, DELAY.read(up)?)),
        _ => word.fail("expected a time like 40ms, or two like 10ms/30ms for down and up"),
    }
}

fn read_options(path: &mut Path, words: &[Word]) -> Result<(), PathError> {
    let mut seen: Vec<&str> = Vec::new();
    for word in words {
        let (key, value) = match word.cut('=') {
            Some((key, value)) => (key, Some(value)),
            None => (*word, None),
        };
        if seen.contains(&key.text) {
            return word.fail(format!("`{}` is given twice", key.text));
        }
        seen.push(key.text);
        read_option(path, key, value)?;
    }
    Ok(())
}

fn read_option(path: &mut Path, key: Word, value: Option<Word>) -> Result<(), PathError> {
    let need = || match value {
        Some(value) if !value.text.is_empty() => Ok(value),
        _ => key.fail(format!("needs a value, like `{}`", example(key.text))),
    };
    match key.text {
        "queue" => (path.queue, path.down.codel) = queue(need()?)?,
        "ecn" if value.is_none() => path.down.ecn = true,
        "ce" => path.down.ce_ns = Some(SPAN.read(need()?)?),
        "policer" => path.down.policer = Some(policer(need()?)?),
        "loss" => path.down.loss = loss(need()?)?,
        "jitter" => path.down.jitter = Some(jitter(need()?)?),
        "reorder" => path.down.reorder = Some(reorder(value)?),
        "up" => path.up.rate_bps = RATE.read(need()?)?,
        "uptrace" => path.up.trace = Some(rate_trace(need()?)?),
        "upqueue" => (path.up_queue, path.up.codel) = queue(need()?)?,
        "uploss" => path.up.loss = loss(need()?)?,
        "upjitter" => path.up.jitter = Some(jitter(need()?)?),
        "ackagg" => path.up.release_ns = SPAN.read(need()?)?,
        "repeat" => {
            let period_ns = Some(PERIOD.read(need()?)?);
            (path.down.repeat_ns, path.up.repeat_ns) = (period_ns, period_ns);
        }
        "ecn" => return key.fail("takes no value"),
        _ => return unknown(key, value),
    }
    Ok(())
}

fn example(key: &str) -> &'static str {
    KEYS.iter().find(|k| k.name == key).map_or("", |k| k.example)
}

fn unknown(key: Word, value: Option<Word>) -> Result<(), PathError> {
    let is_value = value.is_none() && key.text.starts_with(|c: char| c.is_ascii_digit());
    if is_value {
        return key.fail(
            "a second value without a name; rate and round-trip time come once, changes follow an @TIME",
        );
    }
    let names = KEYS.iter().map(|k| k.name);
    match nearest(key.text, names) {
        Some(name) => key.fail(format!("unknown word; did you mean `{name}`?")),
        None => {
            let all: Vec<&str> = KEYS.iter().map(|k| k.name).collect();
            key.fail(format!("unknown word; known are {}", all.join(", ")))
        }
    }
}

/// Reads a queue's limit and its CoDel from `1bdp`, `150kB`, `100pkt`, `200ms`, `infinite`, `codel` or
/// `codel:5ms/100ms[/1000pkt]`.
fn queue(word: Word) -> Result<(Option<Limit>, Option<CodelSpec>), PathError> {
    if word.text == "codel" {
        return Ok((Some(Limit::Infinite), Some(CODEL)));
    }
    let Some((_, rest)) = word.cut(':').filter(|(kind, _)| kind.text == "codel") else {
        return Ok((Some(limit(word)?), None));
    };
    let (target, interval, size) =
        match rest.parts()[..] {
            [target, interval] => (target, interval, Limit::Infinite),
            [target, interval, size] => (target, interval, limit(size)?),
            _ => return rest.fail(
                "expected target/interval like `codel:5ms/100ms`, or with a limit `codel:5ms/100ms/1000pkt`",
            ),
        };
    let codel = CodelSpec { target_ns: SPAN.read(target)?, interval_ns: INTERVAL.read(interval)? };
    Ok((Some(size), Some(codel)))
}

pub(super) fn limit(word: Word) -> Result<Limit, PathError> {
    let unit = word.text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let is_in = |kind: &Kind| kind.units.iter().any(|u| u.0 == unit);
    if word.text == "infinite" {
        Ok(Limit::Infinite)
    } else if is_in(&BDP) {
        BDP.read(word).map(Limit::MicroBdp)
    } else if is_in(&SIZE) {
        SIZE.read(word).map(Limit::Bytes)
    } else if is_in(&PACKETS) {
        PACKETS.read(word).map(Limit::Packets)
    } else if is_in(&SPAN) {
        SPAN.read(word).map(Limit::Ns)
    } else {
        word.fail("expected a queue like 1bdp, 150kB, 100pkt, 200ms, infinite or codel")
    }
}

/// Reads a policer's rate and burst; the burst is given in bytes, or as a time at that rate.
fn policer(word: Word) -> Result<Policer, PathError> {
    let [rate, burst] = word.parts()[..] else {
        return word.fail("expected rate/burst like `10mbit/100kB` or `10mbit/50ms`");
    };
    let rate_bps = RATE.read(rate)?;
    let burst_bytes = match limit(burst) {
        Ok(Limit::Bytes(bytes)) => bytes,
        Ok(Limit::Ns(ns)) => (u128::from(rate_bps) * u128::from(ns) / 8_000_000_000) as u64,
        _ => return burst.fail("expected a burst like 100kB or 50ms"),
    };
    if !(TRACE_SLOT_BYTES..=SIZE.max).contains(&burst_bytes) {
        return burst.fail("the burst must hold at least one packet of 1500B, and at most 1GB");
    }
    Ok(Policer { rate_bps, burst_bytes })
}

fn loss(word: Word) -> Result<Loss, PathError> {
    let share = |w: Word| SHARE.read(w).map(|n| n as u32);
    let Some((kind, rest)) = word.cut(':') else {
        return match word.parts()[..] {
            [p] => Ok(Loss::Random { ppb: share(p)?, max_run: 0 }),
            [p, run] => Ok(Loss::Random { ppb: share(p)?, max_run: COUNT.read(run)? as u32 }),
            _ => word.fail("expected a share like 1%, or 30%/3 for never more than 3 in a row"),
        };
    };
    match (kind.text, &rest.parts()[..]) {
        ("ge", [p, r]) => elliott(share(*p)?, share(*r)?, 0, BILLION_PPB),
        ("ge", [p, r, good, bad]) => elliott(share(*p)?, share(*r)?, share(*good)?, share(*bad)?),
        ("ge", _) => rest
            .fail("expected to-bad/to-good like `ge:1%/30%`, or with the loss in each, `ge:1%/30%/0%/50%`"),
        ("burst", [p, run]) => Ok(Loss::Burst { ppb: share(*p)?, run: COUNT.read(*run)? as u32 }),
        ("burst", _) => rest.fail("expected share/length like `burst:1%/5`"),
        ("square", [a, b, period]) => {
            Ok(Loss::Square { first_ppb: share(*a)?, second_ppb: share(*b)?, period_ns: SPAN.read(*period)? })
        }
        ("square", _) => rest.fail("expected two shares and a period like `square:3.3%/5.6%/2s`"),
        ("trace", _) if rest.text.is_empty() => word.fail("expected a file like `trace:loss.csv`"),
        ("trace", _) => Ok(Loss::Trace(LossTrace { name: rest.text.to_string(), rows: [].into() })),
        _ => kind.fail("unknown kind of loss; expected a share like 1%, or ge:, burst:, square: or trace:"),
    }
}

const BILLION_PPB: u32 = 1_000_000_000;

fn elliott(to_bad_ppb: u32, to_good_ppb: u32, good_ppb: u32, bad_ppb: u32) -> Result<Loss, PathError> {
    Ok(Loss::Elliott { to_bad_ppb, to_good_ppb, good_ppb, bad_ppb })
}

/// Reads jitter from `2ms` or `normal:2ms`; `/50ms` after either says for how long a draw holds.
fn jitter(word: Word) -> Result<Jitter, PathError> {
    let (normal, rest) = match word.cut(':') {
        Some((kind, rest)) if kind.text == "normal" => (true, rest),
        Some((kind, _)) => return kind.fail("unknown kind of jitter; expected 2ms or normal:2ms"),
        None => (false, word),
    };
    match rest.parts()[..] {
        [size] => Ok(Jitter { size_ns: SPAN.read(size)?, normal, hold_ns: 0 }),
        [size, hold] => Ok(Jitter { size_ns: SPAN.read(size)?, normal, hold_ns: SPAN.read(hold)? }),
        _ => rest.fail("expected a time like 2ms, or 2ms/50ms for a new draw every 50ms"),
    }
}

/// What `reorder` without a value means: jitter may reorder packets, in both directions.
const JITTER_REORDERS: Reorder = Reorder { ppb: 0, extra_ns: 0 };

/// Reads `reorder`, which lets jitter reorder packets, or `reorder=5%/10ms`, which delivers this share of the data
/// packets this much later.
fn reorder(word: Option<Word>) -> Result<Reorder, PathError> {
    let Some(word) = word else { return Ok(JITTER_REORDERS) };
    let [share, extra] = word.parts()[..] else {
        return word.fail("expected share/time like `5%/10ms`, or `reorder` alone");
    };
    match SHARE.read(share)? {
        0 => share.fail("must not be 0%; write `reorder` alone to let jitter reorder"),
        ppb => Ok(Reorder { ppb: ppb as u32, extra_ns: SPAN.read(extra)? }),
    }
}

fn rate_trace(file: Word) -> Result<Trace, PathError> {
    if file.text.is_empty() {
        return file.fail("expected a file like `trace=lte.down`");
    }
    if let Some(trace) = synthetic::trace(file) {
        return trace;
    }
    Ok(Trace { name: file.text.to_string(), at_ms: [].into() })
}

fn read_steps(path: &mut Path, words: &[Word]) -> Result<(), PathError> {
    let mut last: Option<u64> = None;
    let mut rest = words;
    while let [mark, tail @ ..] = rest {
        let at = Word { text: &mark.text[1..], at: mark.at + 1 };
        let at_ns = MOMENT.read(at)?;
        if last.is_some_and(|last| at_ns <= last) {
            return mark.fail("the schedule goes backwards; times after @ must rise");
        }
        if path.down.repeat_ns.is_some_and(|period_ns| at_ns >= period_ns) {
            return mark.fail("is not before the end of the `repeat` period");
        }
        last = Some(at_ns);
        let end = tail.iter().position(|w| w.text.starts_with('@')).unwrap_or(tail.len());
        read_step(path, *mark, at_ns, &tail[..end])?;
        rest = &tail[end..];
    }
    Ok(())
}

/// Reads what follows one `@TIME`: a rate, a delay and a loss, each at most once.
fn read_step(path: &mut Path, mark: Word, at_ns: u64, words: &[Word]) -> Result<(), PathError> {
    if words.is_empty() {
        return mark
            .fail("nothing changes at this time; expected a rate, a delay or a loss, like `@10s 20mbit`");
    }
    let mut down = Step { at_ns, ..Step::default() };
    let mut up = Step { at_ns, ..Step::default() };
    for word in words {
        if let Some((_, value)) = word.cut('=').filter(|(key, _)| key.text == "loss") {
            replace(&mut down.loss, *word, loss(value)?)?;
        } else if word.text.contains('=') || !word.text.starts_with(|c: char| c.is_ascii_digit() || c == '-')
        {
            return word.fail("after an @TIME only a rate, a delay or `loss=` may follow; other words go before the first @");
        } else if word.text.ends_with("bit") {
            if path.down.trace.is_some() {
                return word.fail("the rate comes from the trace; it cannot change on a schedule too");
            }
            replace(&mut down.rate_bps, *word, STEP_RATE.read(*word)?)?;
        } else {
            let (down_ns, up_ns) = step_delay(*word)?;
            replace(&mut down.delay_ns, *word, down_ns)?;
            up.delay_ns = Some(up_ns);
        }
    }
    path.down.steps.push(down);
    if up.delay_ns.is_some() {
        path.up.steps.push(up);
    }
    Ok(())
}

fn step_delay(word: Word) -> Result<(u64, u64), PathError> {
    let unit = word.text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if unit.contains('/') || DELAY.units.iter().any(|u| u.0 == unit) {
        return round_trip(word);
    }
    word.fail("expected a rate like 20mbit or a delay like 65ms")
}

fn replace<T>(slot: &mut Option<T>, word: Word, value: T) -> Result<(), PathError> {
    match slot.replace(value) {
        Some(_) => word.fail("given twice for one time"),
        None => Ok(()),
    }
}

/// Refuses words that make no sense together, and names the one to change.
fn check(path: &Path, options: &[Word]) -> Result<(), PathError> {
    let word = |key: &str| {
        options
            .iter()
            .copied()
            .find(|w| w.text.split('=').next() == Some(key))
            .unwrap_or(Word { text: "", at: 0 })
    };
    if path.down.ecn && path.down.codel.is_none() {
        return word("ecn").fail("needs queue=codel; to mark by waiting time use `ce=1ms`");
    }
    if path.up.trace.is_some() && path.up.rate_bps != UNLIMITED {
        return word("uptrace").fail("`up` and `uptrace` exclude each other");
    }
    if path.down.repeat_ns.is_some() && path.down.steps.is_empty() {
        return word("repeat").fail("there is no schedule to repeat; add one like `@10s 20mbit`");
    }
    for (key, spec, queue) in [("queue", &path.down, path.queue), ("upqueue", &path.up, path.up_queue)] {
        let is_relative = matches!(queue, Some(Limit::MicroBdp(_) | Limit::Ns(_)));
        if is_relative && spec.rate_bps == UNLIMITED && spec.trace.is_none() {
            return word(key).fail("a queue in bdp or time needs a rate; give kB, pkt or infinite");
        }
    }
    Ok(())
}
