//! Runs and parses iperf3 and iperf 2; the only place that knows their formats.

use crate::load::iperf2;
use crate::plan::tool::Tool;
use crate::plan::traffic::{Pattern, Traffic};
use crate::sys::interrupt;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where our own servers listen: that of the flows under test, and that of their rival.
pub const PORT: u16 = 5201;
pub const RIVAL_PORT: u16 = 5202;
/// How long a server may take to listen, and a client's output to arrive after it was told to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a client printed, as JSON of iperf3's form; with what the server printed, where the server is ours.
pub fn to_json(tool: Tool, printed: String, server: Option<&str>, seconds: u32) -> String {
    match tool {
        Tool::Iperf3 => printed,
        Tool::Iperf2 => iperf2::to_json(&printed, server, seconds),
    }
}

/// A server for one load.
#[derive(Debug)]
pub struct Server {
    tool: Tool,
    child: Child,
    output: Output,
    _guard: interrupt::Guard,
}

/// One load: the traffic's streams for its seconds.
#[derive(Debug)]
pub struct Job<'a> {
    pub tool: Tool,
    pub to: String,
    pub port: u16,
    /// The name under which the sender's kernel knows the controller.
    pub cc: &'a str,
    pub traffic: &'a Traffic,
}

impl Server {
    /// Starts `command` (the tool in the namespace where it is to listen) and waits until it listens.
    pub fn start(tool: Tool, mut command: Command, port: u16) -> Result<Self> {
        match tool {
            Tool::Iperf3 => command.args(["-s", "-1", "-i", "0.1", "-J"]),
            Tool::Iperf2 => command.arg("-s").args(iperf2::ARGS),
        };
        command.args(["-p", &port.to_string()]);
        let (child, output) = spawn(command)?;
        let pid = child.id();
        let guard = interrupt::guard(move || kill(pid));
        let mut server = Self { tool, child, output, _guard: guard };
        let start = Instant::now();
        while !is_listening(pid, port) {
            if let Some(status) = server.child.try_wait()? {
                bail!("the {tool} server ended at once ({status}): {}", server.output.collect().trim());
            }
            if start.elapsed() > PATIENCE {
                bail!("the {tool} server does not listen on port {port}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Ends the server and returns what it printed.
    pub fn stop(mut self) -> String {
        // What iperf 2 has not printed yet, it prints when it is asked to end.
        if self.tool == Tool::Iperf2 {
            signal(self.child.id(), Signal::TERM);
            let asked = Instant::now();
            while matches!(self.child.try_wait(), Ok(None)) && asked.elapsed() < Duration::from_secs(2) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.output.collect()
    }
}

impl Job<'_> {
    /// Runs it to a server that is not ours and returns its JSON.
    pub fn run_alone(&self, grace: Duration) -> Result<String> {
        let printed = self.run(Command::new(self.tool.program()), grace)?;
        Ok(to_json(self.tool, printed, None, self.traffic.seconds))
    }

    /// Runs `command` (the tool in the sender's namespace) to its end and returns what it printed, for [`to_json`]. The exit
    /// code says nothing (it is 0 on every error in iperf3 3.12 and iperf 2.1): the caller judges the JSON.
    pub fn run(&self, mut command: Command, grace: Duration) -> Result<String> {
        let (tool, traffic) = (self.tool, self.traffic);
        let (port, streams, seconds) =
            (self.port.to_string(), traffic.streams.to_string(), traffic.seconds.to_string());
        command.args(["-c", &self.to, "-p", &port, "-P", &streams, "-t", &seconds]);
        match tool {
            Tool::Iperf3 => command.args(["-C", self.cc, "-i", "0.1", "-J"]).args([
                "--get-server-output",
                "--connect-timeout",
                "5000",
            ]),
            Tool::Iperf2 => command.args(["-Z", self.cc]).args(iperf2::ARGS),
        };
        if let Pattern::Limited { rate_bps } = traffic.pattern {
            let (bytes, _) = Pattern::chunk(rate_bps);
            command.args(["-b", &rate_bps.to_string(), "-l", &bytes.to_string()]);
        }
        if !traffic.direction.is_forward() {
            command.arg("-R");
        }
        if let Some(bps) = traffic.pacing_bps {
            command.args(["--fq-rate", &bps.to_string()]);
        }
        let (mut child, mut output) = spawn(command)?;
        let pid = child.id();
        let _guard = interrupt::guard(move || kill(pid));
        let deadline = Instant::now() + Duration::from_secs(u64::from(traffic.seconds)) + grace;
        let (done, finished) = std::sync::mpsc::channel::<()>();
        let watchdog = std::thread::spawn(move || {
            if finished.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_err() {
                kill(pid);
                return true;
            }
            false
        });
        let status = child.wait();
        let _ = done.send(());
        let timed_out = watchdog.join().unwrap_or(false);
        let text = output.collect();
        if timed_out {
            bail!("{tool} did not end {} s after its time was up", grace.as_secs());
        }
        if text.trim().is_empty() {
            bail!("{tool} printed nothing ({})", status?);
        }
        Ok(text)
    }
}

/// Is this error, iperf3's or ours about it, one of a server that may answer the next time?
pub fn is_worth_retrying(error: &str) -> bool {
    const PASSING: [&str; 8] = [
        "the server is busy",
        "unable to connect",
        "control socket has closed",
        "the server has terminated",
        "iperf3 did not end",
        "iperf2 did not end",
        "tcp connect failed",
        "tcp write failed",
    ];
    PASSING.iter().any(|e| error.contains(e))
}

/// What one client run says, in our units. Intervals that were asked to be left out (`-O`) are left out.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Load {
    /// As iperf3 prints it: `iperf 3.12`; `iperf 2.1.8`.
    pub version: String,
    /// Length that was asked for.
    pub duration_us: u64,
    /// Time over which the receiver counted.
    pub received_us: u64,
    /// Payload handed to the sending sockets, and payload that arrived.
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Retransmitted segments; `None` when the sender does not count them.
    pub retransmits: Option<u64>,
    /// Payload bytes of a full segment; `None` when iperf3 does not tell.
    pub mss_bytes: Option<u64>,
    pub sender_cc: Option<String>,
    /// The server sent (`-R`).
    pub is_reverse: bool,
    /// Share of one CPU that the two iperf3 processes used, in percent.
    pub sender_cpu_percent: Option<f64>,
    pub receiver_cpu_percent: Option<f64>,
    /// The sending side's intervals.
    pub sent: Vec<Interval>,
    /// The receiving side's intervals; empty when the server's output did not come back.
    pub received: Vec<Interval>,
    /// Text around the JSON value, kept as a diagnostic.
    pub rest: String,
}

/// One reporting interval of one side. Times count from the start of the data phase.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Interval {
    pub from_us: u64,
    pub to_us: u64,
    /// Payload bytes of each stream.
    pub stream_bytes: Vec<u64>,
    /// Retransmitted segments of all streams; `None` on the receiving side.
    pub retransmits: Option<u64>,
    /// Smoothed RTT of each stream; empty on the receiving side.
    pub srtt_us: Vec<u64>,
}

impl Interval {
    pub fn bytes(&self) -> u64 {
        self.stream_bytes.iter().sum()
    }
}

impl Load {
    /// Whether the run counts: something arrived, for at least 95 % of the time, and the sockets that sent it
    /// used the controller that was asked for. The exit code of iperf3 says none of this.
    pub fn judge(&self, cc: &str) -> std::result::Result<(), String> {
        if self.received_bytes == 0 {
            return Err("the receiver counted no byte".into());
        }
        if self.received_us * 100 < self.duration_us * 95 {
            let (got, asked) = (self.received_us as f64 / 1e6, self.duration_us as f64 / 1e6);
            return Err(format!("the load ran for {got:.2} s of {asked:.2} s"));
        }
        match self.sender_cc.as_deref() {
            Some(name) if name == cc => Ok(()),
            Some(name) if self.is_reverse => {
                Err(format!("the sender, which is the server, used its own `{name}`, not `{cc}`"))
            }
            Some(name) => Err(format!("the sender used `{name}`, not `{cc}`")),
            None => Err("the tool did not say which controller the sender used".into()),
        }
    }
}

/// Reads the output of `iperf3 -c … -J [--get-server-output]`.
///
/// Some versions print lines before or after the JSON value, some print `nan` in it, and 3.12 exits with 0 on
/// every error: only the value itself counts, and a run with an `error` in it is that error.
pub fn parse_iperf3(text: &str) -> Result<Load, String> {
    let (value, rest) = first_value(text)?;
    if let Some(error) = value["error"].as_str() {
        let is_iperf2 = value["iperf2"].is_object();
        let tool = if is_iperf2 { Tool::Iperf2 } else { Tool::Iperf3 };
        return Err(format!("{}: {}", tool.program(), error.trim().trim_end_matches(':')));
    }
    let (start, end) = (&value["start"], &value["end"]);
    let received = &end["sum_received"];
    if !received.is_object() || !end["sum_sent"].is_object() {
        return Err("iperf3's output has no summary (`end.sum_sent`, `end.sum_received`)".into());
    }
    let is_reverse = start["test_start"]["reverse"] == 1;
    let cpu = |host: &str| end["cpu_utilization_percent"][host].as_f64();
    // The client is one side and the server, whose output comes with it, is the other.
    let mut sides =
        [("host_total", intervals(&value)), ("remote_total", intervals(&value["server_output_json"]))];
    if is_reverse {
        sides.reverse();
    }
    let [(sender, sent), (receiver, received_intervals)] = sides;
    Ok(Load {
        version: text_of(&start["version"]).unwrap_or_default(),
        duration_us: micros(&start["test_start"]["duration"]),
        received_us: micros(&received["end"]),
        sent_bytes: whole(&end["sum_sent"]["bytes"]),
        received_bytes: whole(&received["bytes"]),
        retransmits: end["sum_sent"]["retransmits"].as_u64(),
        mss_bytes: start["tcp_mss_default"].as_u64().filter(|mss| *mss > 0),
        sender_cc: text_of(&end["sender_tcp_congestion"]),
        is_reverse,
        sender_cpu_percent: cpu(sender),
        receiver_cpu_percent: cpu(receiver),
        sent,
        received: received_intervals,
        rest,
    })
}

/// The events of `--json-stream`, one a line, as the one value of `-J`; any other text as it is.
pub fn unstreamed(text: &str) -> String {
    let events: Vec<Value> = text.lines().map_while(|l| serde_json::from_str(l).ok()).collect();
    if !events.first().is_some_and(|e| e["event"].is_string()) {
        return text.to_string();
    }
    let mut value = serde_json::json!({ "intervals": [] });
    for event in events {
        match event["event"].as_str() {
            Some("interval") => {
                value["intervals"].as_array_mut().into_iter().for_each(|i| i.push(event["data"].clone()))
            }
            Some(part) => value[part] = event["data"].clone(),
            None => {}
        }
    }
    value.to_string()
}

fn intervals(value: &Value) -> Vec<Interval> {
    let counted = |i: &&Value| i["sum"]["omitted"].as_bool() != Some(true);
    rows(&value["intervals"]).filter(counted).map(interval).collect()
}

fn interval(value: &Value) -> Interval {
    let streams = || rows(&value["streams"]);
    Interval {
        from_us: micros(&value["sum"]["start"]),
        to_us: micros(&value["sum"]["end"]),
        stream_bytes: streams().map(|s| whole(&s["bytes"])).collect(),
        retransmits: value["sum"]["retransmits"].as_u64(),
        // A reverse run prints 0 where it knows nothing.
        srtt_us: streams().filter_map(|s| s["rtt"].as_u64()).filter(|rtt| *rtt > 0).collect(),
    }
}

/// The first JSON value in `text`, and what stands around it.
fn first_value(text: &str) -> Result<(Value, String), String> {
    let at = text.find('{').ok_or_else(|| match text.trim() {
        "" => "iperf3 printed nothing".to_string(),
        other => format!("iperf3 printed no JSON but: {}", other.lines().next().unwrap_or_default()),
    })?;
    let (before, json) = text.split_at(at);
    let (value, used) = match one_value(json) {
        Ok(found) => found,
        Err(_) => one_value(&without_nan(json)).map_err(|e| format!("iperf3's JSON is broken: {e}"))?,
    };
    let after = json.get(used..).unwrap_or_default();
    Ok((value, format!("{}\n{}", before.trim(), after.trim()).trim().to_string()))
}

fn one_value(json: &str) -> Result<(Value, usize), serde_json::Error> {
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let value = values.next().unwrap_or(Ok(Value::Null))?;
    Ok((value, values.byte_offset()))
}

/// `nan` and `inf`, which C prints and JSON does not know, become a `0` of the same length.
fn without_nan(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        let word = ["-nan", "-inf", "nan", "inf"].into_iter().find(|w| rest.starts_with(w));
        if let Some(word) = word.filter(|_| !in_string) {
            out.push_str(&format!("{:<1$}", "0", word.len()));
            rest = &rest[word.len()..];
            continue;
        }
        (in_string, escaped) = match c {
            '"' if !escaped => (!in_string, false),
            '\\' => (in_string, !escaped),
            _ => (in_string, false),
        };
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

fn rows(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_string)
}

fn whole(value: &Value) -> u64 {
    value.as_f64().unwrap_or(0.0).max(0.0) as u64
}

/// Seconds as iperf3 prints them, in microseconds.
fn micros(value: &Value) -> u64 {
    (value.as_f64().unwrap_or(0.0).max(0.0) * 1e6).round() as u64
}

/// A child's stdout and stderr, read while it runs so that it never blocks on a full pipe.
#[derive(Debug)]
struct Output(Vec<std::thread::JoinHandle<String>>);

impl Output {
    fn collect(&mut self) -> String {
        self.0.drain(..).map(|t| t.join().unwrap_or_default()).collect()
    }
}

fn spawn(mut command: Command) -> Result<(Child, Output)> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| {
        format!("cannot run `{name}`\nhint: `apt-get install {name}`; `headway doctor` shows what is missing")
    })?;
    fn reader(mut from: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<String> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    }
    let mut readers = Vec::new();
    readers.extend(child.stdout.take().map(reader));
    readers.extend(child.stderr.take().map(reader));
    Ok((child, Output(readers)))
}

fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, signal);
    }
}

/// Does a socket in the network namespace of process `pid` listen on `port`?
fn is_listening(pid: u32, port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    ["tcp", "tcp6"].iter().any(|table| {
        let mut text = String::new();
        let file = std::fs::File::open(format!("/proc/{pid}/net/{table}"));
        let _ = file.and_then(|mut f| f.read_to_string(&mut text));
        text.lines().any(|line| {
            let mut words = line.split_whitespace().skip(1);
            words.next().is_some_and(|local| local.ends_with(&wanted)) && words.nth(1) == Some("0A")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Recorded from Debian's iperf3 3.12 over the loopback of a network namespace of its own.
    macro_rules! recorded {
        ($name:literal) => {
            include_str!(concat!("../../tests/data/iperf3/3.12-", $name, ".json"))
        };
    }

    #[test]
    fn a_good_run_is_read_from_both_sides() {
        let load = parse_iperf3(recorded!("ok")).unwrap();
        assert_eq!(load.version, "iperf 3.12");
        assert_eq!(load.duration_us, 2_000_000);
        assert_eq!((load.sent.len(), load.received.len()), (20, 20));
        assert_eq!(load.retransmits, Some(0));
        assert_eq!(load.mss_bytes, Some(32768));
        assert_eq!(load.sender_cc.as_deref(), Some("cubic"));
        assert!(load.sender_cpu_percent.unwrap() > 0.0);
        assert_eq!(load.judge("cubic"), Ok(()));
        assert_eq!(load.rest, "");
        for side in [&load.sent, &load.received] {
            assert!(side.iter().all(|i| i.stream_bytes.len() == 2));
            assert!(side.windows(2).all(|w| w[0].to_us == w[1].from_us), "the intervals are seamless");
        }
        assert!(load.sent.iter().all(|i| i.srtt_us.len() == 2));
        let total: u64 = load.received.iter().map(Interval::bytes).sum();
        assert!(total <= load.received_bytes && total * 10 > load.received_bytes * 9, "{total}");
    }

    #[test]
    fn an_error_is_an_error_whatever_the_exit_code_was() {
        let error = |text| parse_iperf3(text).unwrap_err();
        assert_eq!(error(recorded!("refused")), "iperf3: unable to connect to server: Connection refused");
        assert_eq!(error(recorded!("busy")), "iperf3: the server is busy running a test. try again later");
        assert!(error(recorded!("unknown_cc")).contains("congestion control algorithm not supported"));
        assert_eq!(error(recorded!("server_kill")), "iperf3: control socket has closed unexpectedly");
        assert_eq!(error(recorded!("server_term")), "iperf3: the server has terminated");
        assert_eq!(error(recorded!("client_term")), "iperf3: interrupt - the client has terminated");
        let newer = r#"{"start":{"connected":[]},"intervals":[],"end":{},
            "error":"unable to connect to server - server may have stopped running: Connection refused:"}"#;
        assert!(error(newer).ends_with("Connection refused"));
    }

    /// Built from the tags, recorded in the same way; `ok` is one second of two streams at 200 Mbit/s each.
    const VERSIONS: [(&str, [&str; 6]); 4] = {
        macro_rules! recorded {
            ($v:literal, $($case:literal),*) => {
                ($v, [$(include_str!(concat!("../../tests/data/iperf3/", $v, "-", $case, ".json"))),*])
            };
        }
        [
            recorded!("3.14", "ok", "refused", "busy", "server_kill", "server_term", "client_term"),
            recorded!("3.16", "ok", "refused", "busy", "server_kill", "server_term", "client_term"),
            recorded!("3.18", "ok", "refused", "busy", "server_kill", "server_term", "client_term"),
            recorded!("3.21", "ok", "refused", "busy", "server_kill", "server_term", "client_term"),
        ]
    };

    #[test]
    fn every_version_is_read_and_every_fault_named() {
        for (version, [ok, faults @ ..]) in VERSIONS {
            let load = parse_iperf3(ok).unwrap();
            assert_eq!(load.version, format!("iperf {version}"));
            assert_eq!(load.judge("cubic"), Ok(()), "{version}");
            assert_eq!(load.duration_us, 1_000_000, "{version}");
            assert!(
                (4..=6).contains(&load.sent.len()) && load.sent.len() == load.received.len(),
                "{version}"
            );
            assert!(load.sent.iter().all(|i| i.stream_bytes.len() == 2 && i.srtt_us.len() == 2), "{version}");
            let rate = load.received_bytes as f64 * 8e6 / load.received_us as f64;
            assert!((380e6..420e6).contains(&rate), "{version}: {rate}");
            assert!(load.retransmits.is_some() && load.mss_bytes == Some(32768), "{version}");
            let said = [
                "unable to connect to server",
                "iperf3: the server is busy running a test. try again later",
                "iperf3: control socket has closed unexpectedly",
                "iperf3: the server has terminated",
                "iperf3: interrupt - the client has terminated",
            ];
            for (text, said) in faults.into_iter().zip(said) {
                let fault = parse_iperf3(text).unwrap_err();
                assert!(fault.contains(said), "{version}: `{fault}` does not say `{said}`");
            }
            assert!(faults.into_iter().take(4).all(is_worth_retrying), "{version}");
        }
    }

    #[test]
    fn what_is_not_a_result_is_told_apart() {
        assert_eq!(parse_iperf3("").unwrap_err(), "iperf3 printed nothing");
        let text = parse_iperf3("iperf3: error - unable to connect\n").unwrap_err();
        assert_eq!(text, "iperf3 printed no JSON but: iperf3: error - unable to connect");
        let cut = &recorded!("ok")[..9000];
        assert!(parse_iperf3(cut).unwrap_err().starts_with("iperf3's JSON is broken: EOF"));
        assert!(parse_iperf3("{}").unwrap_err().contains("no summary"));
    }

    #[test]
    fn the_first_value_counts_and_the_rest_is_kept() {
        let text = format!("warning: something\n{}\niperf3: late line\n", recorded!("ok"));
        let load = parse_iperf3(&text).unwrap();
        assert_eq!(load.rest, "warning: something\niperf3: late line");
        assert_eq!(Load { rest: String::new(), ..load }, parse_iperf3(recorded!("ok")).unwrap());
    }

    #[test]
    fn nan_is_zero_outside_of_strings_only() {
        assert_eq!(without_nan(r#"{"a":-nan,"nan \" nan":inf}"#), r#"{"a":0   ,"nan \" nan":0  }"#);
        let text =
            recorded!("ok").replacen("\"bits_per_second\":\t", "\"bits_per_second\":\t-nan,\"x\":\t", 1);
        assert_eq!(parse_iperf3(&text).unwrap().judge("cubic"), Ok(()));
    }

    #[test]
    fn omitted_intervals_do_not_count() {
        let load = parse_iperf3(recorded!("omit")).unwrap();
        assert_eq!(load.sent.len(), 4);
        assert!(load.sent[0].from_us < 100, "the clock restarts after the omitted part");
        assert_eq!(load.judge("reno"), Ok(()));
    }

    #[test]
    fn a_run_is_judged_by_what_arrived() {
        let load = parse_iperf3(recorded!("ok")).unwrap();
        assert_eq!(load.judge("bbr").unwrap_err(), "the sender used `cubic`, not `bbr`");
        let short = Load { received_us: 1_890_000, ..load.clone() };
        assert_eq!(short.judge("cubic").unwrap_err(), "the load ran for 1.89 s of 2.00 s");
        let silent = Load { received_bytes: 0, ..load.clone() };
        assert_eq!(silent.judge("cubic").unwrap_err(), "the receiver counted no byte");
        let mute = Load { sender_cc: None, ..load };
        assert!(mute.judge("cubic").unwrap_err().contains("did not say"));
    }

    #[test]
    fn in_a_reverse_run_the_server_is_the_sender() {
        let load = parse_iperf3(recorded!("reverse")).unwrap();
        let forward = parse_iperf3(recorded!("ok")).unwrap();
        assert!(load.is_reverse && !forward.is_reverse);
        let value: Value = serde_json::from_str(recorded!("reverse")).unwrap();
        let cpu = &value["end"]["cpu_utilization_percent"];
        assert_eq!(load.receiver_cpu_percent, cpu["host_total"].as_f64());
        assert_eq!(load.sender_cpu_percent, cpu["remote_total"].as_f64());
        // The client's own intervals are the receiver's, and know nothing of the sender's windows.
        assert_eq!(load.received.len(), value["intervals"].as_array().unwrap().len());
        assert!(load.received.iter().all(|i| i.srtt_us.is_empty() && i.retransmits.is_none()));
        let error = load.judge("nosuch").unwrap_err();
        assert!(error.contains("which is the server") && error.contains("not `nosuch`"), "{error}");
    }
}
