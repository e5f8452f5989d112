//! Runs the clients and servers of iperf3 and iperf 2 and returns what they print. It judges nothing: `raw/load.rs`
//! reads the JSON. `cell` calls this, for emulated and for real paths.

use crate::load::iperf2;
use crate::plan::tool::Tool;
use crate::plan::traffic::{Pattern, Traffic};
use crate::sys::{interrupt, process};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The port on which the program's own server for the flows under test listens.
pub const PORT: u16 = 5201;
/// The port of the server for the rival's flows.
pub const RIVAL_PORT: u16 = 5202;
/// How long a server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(10);

/// Turns what a client printed into JSON of iperf3's form. `server` is what the server printed, where this program
/// started it: iperf3's client prints its server's output too, but iperf 2's client does not.
pub fn to_json(tool: Tool, printed: String, server: Option<&str>, seconds: u32) -> String {
    match tool {
        Tool::Iperf3 => printed,
        Tool::Iperf2 => iperf2::to_json(&printed, server, seconds),
    }
}

/// A server that this program started, for one load.
#[derive(Debug)]
pub struct Server {
    tool: Tool,
    child: Child,
    output: Output,
    _guard: interrupt::Guard,
}

/// A client that makes one load: all streams of the traffic, for as many seconds as the traffic says.
#[derive(Debug)]
pub struct Client<'a> {
    pub tool: Tool,
    pub to: String,
    pub port: u16,
    /// The name under which the sender's kernel knows the controller.
    pub cc: &'a str,
    pub traffic: &'a Traffic,
}

impl Server {
    /// Starts `command`, which runs the tool in the namespace where it is to listen, and waits until it listens on
    /// `port`.
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
        // iperf 2 prints its last rows only when it is asked to end, so SIGKILL alone would lose them.
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

impl Client<'_> {
    /// Runs the client to a server that this program did not start, and returns its JSON.
    pub fn run_alone(&self, grace: Duration) -> Result<String> {
        let mut command = Command::new(self.tool.program());
        // Otherwise a client outlives a `kill -9` of this program, and keeps a CPU busy once its path is gone.
        process::die_with_parent(&mut command);
        let printed = self.run(command, grace)?;
        Ok(to_json(self.tool, printed, None, self.traffic.seconds))
    }

    /// Runs `command`, which is the tool in the sender's namespace, to its end and returns what it printed, for
    /// [`to_json`]. The caller must judge the JSON, because the exit code says nothing: it is 0 on every error in
    /// iperf3 3.12 and iperf 2.1. A client that runs `grace` longer than its traffic is killed, which is an error.
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

/// Can the load succeed at another attempt? True for an error, of the tool or of this program about it, that comes
/// from a server which was busy or away, or with which a test did not end.
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

/// Threads that read a child's stdout and stderr while it runs, so that it never blocks on a full pipe.
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

    #[test]
    fn an_error_that_may_pass_is_worth_another_try() {
        macro_rules! recorded {
            ($($version:literal),*) => {
                [$(
                    include_str!(concat!("../../tests/data/iperf3/", $version, "-refused.json")),
                    include_str!(concat!("../../tests/data/iperf3/", $version, "-busy.json")),
                    include_str!(concat!("../../tests/data/iperf3/", $version, "-server_kill.json")),
                    include_str!(concat!("../../tests/data/iperf3/", $version, "-server_term.json")),
                )*]
            };
        }
        for fault in recorded!("3.14", "3.16", "3.18", "3.21") {
            assert!(is_worth_retrying(fault), "{fault}");
        }
    }
}
