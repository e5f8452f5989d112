//! `headway watch`: the flows of our controllers as they are now.

use crate::error::usage;
use crate::plan::time;
use crate::sys::out;
use crate::watch::filter::{Filter, FilterArgs};
use crate::watch::follow::{self, History};
use crate::watch::groups::Groups;
use crate::watch::look::{Looker, Seen};
use crate::watch::screen::{self, Extent, Sort};
use anyhow::{Result, anyhow, ensure};
use clap::Args;
use serde::Serialize;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

#[derive(Args)]
pub struct WatchArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Sockets of other controllers, too
    ///
    /// Those of this network namespace; what only our controllers know is missing.
    #[arg(long)]
    all: bool,
    /// Order, the largest first
    #[arg(long, value_enum, value_name = "COLUMN", default_value = "rate", hide_possible_values = true)]
    sort: Sort,
    /// One flow, with a chart of what it does over time
    ///
    /// By its peer's address and port as the table shows them, or its own.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "all")]
    follow: Option<SocketAddr>,
    /// Time between two looks [default: 1s]
    ///
    /// With --follow it is 200ms by default.
    #[arg(long, value_name = "TIME", value_parser = time::ms)]
    every: Option<u64>,
    /// Look once
    #[arg(long)]
    once: bool,
    /// Print JSON, a line for each flow in each look
    #[arg(long)]
    json: bool,
}

/// Looks may not take all of a CPU.
const LEAST_MS: u64 = 50;

pub fn run(args: WatchArgs) -> Result<ExitCode> {
    let filter = usage(args.filter.read())?;
    let every = args.every.unwrap_or(if args.follow.is_some() { 200 } else { 1000 });
    usage(check(every))?;
    let mut watch = Watch {
        looker: Looker::new(args.all)?,
        groups: Groups::default(),
        filter,
        sort: args.sort,
        own_netns: std::fs::metadata("/proc/self/ns/net").map_or(0, |m| m.ino()),
        history: History::new(Duration::from_millis(every)),
        screen: (!args.once && !args.json).then(out::Screen::open).flatten(),
    };
    loop {
        let began = Instant::now();
        let shown = watch.look()?;
        match (args.follow, args.json) {
            (Some(end), json) => {
                let Some(seen) = follow::find(&shown, end) else {
                    drop(watch.screen.take());
                    return ended(end, watch.history.is_empty());
                };
                if json {
                    print_json(std::slice::from_ref(seen), &mut watch.groups)?
                } else {
                    watch.show_one(seen)?
                }
            }
            (None, true) => print_json(&shown, &mut watch.groups)?,
            (None, false) => watch.show(&shown)?,
        }
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_millis(every).saturating_sub(began.elapsed()));
    }
}

fn check(every: u64) -> Result<()> {
    ensure!(every >= LEAST_MS, "--every {every}ms is too often\nhint: {LEAST_MS}ms is the least");
    Ok(())
}

fn ended(end: SocketAddr, is_unknown: bool) -> Result<ExitCode> {
    if is_unknown {
        return Err(anyhow!(
            "no flow of our controllers has {end} at either end\nhint: `headway watch` shows them"
        ));
    }
    out::say(format_args!("the flow with {end} has ended"))?;
    Ok(ExitCode::SUCCESS)
}

struct Watch {
    looker: Looker,
    groups: Groups,
    filter: Filter,
    sort: Sort,
    own_netns: u64,
    history: History,
    /// Where standard output is a terminal that is painted anew with each look.
    screen: Option<out::Screen>,
}

impl Watch {
    fn look(&mut self) -> Result<Vec<Seen>> {
        let Watch { looker, groups, filter, .. } = self;
        looker.look(|seen| {
            let cgroup = if filter.asks_cgroup() { groups.path(seen.socket.cgroup) } else { "" };
            filter.takes(seen, cgroup)
        })
    }

    fn show(&mut self, shown: &[Seen]) -> Result<()> {
        let width = out::width().unwrap_or(usize::MAX);
        let height = self.screen.as_ref().and_then(|_| out::height());
        let extent = Extent { width, height, sort: self.sort };
        let text = screen::text(shown, &mut self.groups, self.own_netns, extent);
        self.put(&text)
    }

    fn show_one(&mut self, seen: &Seen) -> Result<()> {
        self.history.add(seen);
        let mut text = follow::sentence(seen, &mut self.groups, out::width().unwrap_or(usize::MAX));
        if self.screen.is_some() {
            text += &self.history.chart(out::width().unwrap_or(80));
        }
        self.put(&text)
    }

    fn put(&mut self, text: &str) -> Result<()> {
        match &self.screen {
            Some(screen) => screen.paint(text),
            None => out::print(text),
        }
    }
}

/// A flow in one look, as JSON has it. What is not known is left out.
#[derive(Serialize)]
struct Line<'a> {
    /// Seconds since 1970.
    time: f64,
    cc: &'a str,
    local: SocketAddr,
    peer: SocketAddr,
    /// Of the TCP connection, as `ss` spells it.
    connection: &'a str,
    /// The number by which `ss -e` knows the socket; hexadecimal, as there.
    cookie: String,
    netns: u64,
    uid: u32,
    #[serde(skip_serializing_if = "str::is_empty")]
    cgroup: &'a str,
    mss_bytes: u64,
    cwnd_segments: u64,
    inflight_segments: u64,
    acked_bytes: u64,
    sent_bytes: u64,
    retransmitted_bytes: u64,
    lost_segments: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pacing_bps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    srtt_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_rtt_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    age_ms: Option<u64>,
    #[serde(flatten)]
    model: Option<ModelLine>,
}

/// What the controller keeps.
#[derive(Serialize)]
struct ModelLine {
    state: &'static str,
    bandwidth_bps: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bbr_min_rtt_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inflight_longterm_segments: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inflight_shortterm_segments: Option<u64>,
    brake: &'static str,
    brake_entries: u64,
    app_limited: bool,
    idle_ms: u64,
}

fn print_json(shown: &[Seen], groups: &mut Groups) -> Result<()> {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let mut text = String::new();
    for seen in shown {
        text += &serde_json::to_string(&line(seen, (time * 1e3).round() / 1e3, groups))?;
        text += "\n";
    }
    out::print(text)
}

fn line<'a>(seen: &'a Seen, time: f64, groups: &'a mut Groups) -> Line<'a> {
    let socket = &seen.socket;
    let bytes = seen.bytes();
    let us = |time: Duration| time.as_micros() as u64;
    let model = seen.model().map(|m| ModelLine {
        state: m.phase,
        bandwidth_bps: m.bandwidth.saturating_mul(8),
        bbr_min_rtt_us: m.min_rtt.map(us),
        inflight_longterm_segments: m.inflight_longterm,
        inflight_shortterm_segments: m.inflight_shortterm,
        brake: m.brake.word(),
        brake_entries: m.brake_entries,
        app_limited: m.is_app_limited,
        idle_ms: m.idle.as_millis() as u64,
    });
    Line {
        time,
        cc: &socket.name,
        local: socket.local,
        peer: socket.peer,
        connection: socket.state,
        cookie: format!("{:x}", socket.cookie),
        netns: socket.netns,
        uid: socket.uid,
        cgroup: groups.path(socket.cgroup),
        mss_bytes: socket.mss,
        cwnd_segments: socket.cwnd,
        inflight_segments: socket.inflight,
        acked_bytes: bytes.acked,
        sent_bytes: bytes.sent,
        retransmitted_bytes: bytes.retransmitted,
        lost_segments: socket.lost,
        rate_bps: seen.rate.map(|rate| rate.saturating_mul(8)),
        pacing_bps: socket.pacing_rate.map(|rate| rate.saturating_mul(8)),
        srtt_us: socket.srtt.map(us),
        min_rtt_us: socket.min_rtt.map(us),
        age_ms: seen.ours.as_ref().and_then(|o| o.age).map(|age| age.as_millis() as u64),
        model,
    }
}
