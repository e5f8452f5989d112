//! The flags that make a plan, and `headway plan`, which writes a plan's tasks for another program.

use crate::bench::need;
use crate::error::usage;
use crate::interop::pscheduler;
use crate::plan::check::Known;
use crate::plan::matrix::Axes;
use crate::plan::server::{FQ, RemoteOptions};
use crate::plan::time;
use crate::plan::tool::Tool;
use crate::plan::traffic::{self, Carrier, Direction, HostLoad, Pattern, Rival, Traffic};
use crate::plan::transport::Transport;
use crate::plan::{Label, Place, Plan, Request, suite};
use crate::sys::out;
use anyhow::{Result, bail, ensure};
use clap::Args;
use headway_cc::messages::Messages;
use std::path::PathBuf;
use std::process::ExitCode;

/// The paths of the suite [`suite::FIRST`], for whoever names no path and asks for other traffic than the suite brings.
const USUAL_PATHS: [&str; 2] = ["lossy", "drop"];

const WHAT: &str = "What to compare";
const TRAFFIC: &str = "Traffic";
const WHERE: &str = "Where";
const REAL: &str = "Real paths (--in remote)";
const LAB: &str = "Lab (--in lab)";

/// The flags from which a plan is made.
#[derive(Args)]
pub struct PlanArgs {
    /// Candidates, baseline first
    ///
    /// A list of controllers with commas. Every other one is compared with the first. The default is
    /// bbr,bbr3,bbr3_brake,cubic. Where Linux's own bbr is missing, as in the simulator, bbr1 stands for it, which is
    /// the same algorithm; over QUIC the stack's own cubic is the baseline. `headway list` shows all. Settings
    /// follow the name: `bbr3:up_pacing_gain=1.1`. A number makes one controller two candidates: `--cc bbr,bbr#2`
    /// compares bbr with itself, which shows how large a difference noise alone makes.
    ///
    /// A candidate may also differ in where it runs. `bbr@6.1,bbr@6.12` are two kernels of the lab, and a vmlinuz file may
    /// stand for a version. `bbr/qdisc=fq` sends through another qdisc, written as `tc` takes it, and
    /// `cubic/net.ipv4.tcp_notsent_lowat=131072` has another sysctl at both ends (with --in remote at this one). On a wire of network
    /// cards, `cubic/device.threaded=1` writes into a file below /sys/class/net/CARD.
    #[arg(long, value_delimiter = ',', help_heading = WHAT)]
    cc: Vec<Label>,
    /// How many candidates to draw from a range: 64
    ///
    /// For a search. A setting in --cc may have a range in place of a value, as in
    /// `--cc bbr3,bbr3:up_pacing_gain=1.1..1.5:bw_probe_wait_us=500ms..4s --draws 64`, which is compared as 64 candidates of
    /// bbr3 whose values are drawn from the ranges with --seed: at equal distances, or at equal ratios where the upper end
    /// is more than ten times the lower one. More draws of the same seed begin with the same candidates. The report of a
    /// search names the candidates that no other beats both in goodput and in delay, and gives no verdicts.
    #[arg(long, value_name = "N", help_heading = WHAT)]
    draws: Option<u32>,
    /// Presets or path text [default: lossy,drop]
    ///
    /// Names of presets with commas between them, or one path text. A path text is RATE RTT and further words, such
    /// as '100mbit 40ms queue=1bdp loss=1%'; `headway list` explains the words and shows the presets. The flag may be
    /// given several times. Without --path and --suite, the suite `first` is run.
    #[arg(long, help_heading = WHAT)]
    path: Vec<String>,
    /// A named list of paths, each with its own traffic
    ///
    /// `headway list` shows the suites. Paths that are given beside a suite get the traffic that the flags below ask
    /// for.
    #[arg(long, help_heading = WHAT)]
    suite: Option<String>,
    /// How often to repeat everything [default: 8]
    ///
    /// A block runs every controller on every path once, in random order, and runs of one block are compared in
    /// pairs. A confidence interval needs 6 blocks. Verdicts over many paths and controllers need more, and then the
    /// default is as many.
    #[arg(long, help_heading = WHAT)]
    blocks: Option<u32>,
    /// Seed of every random choice
    ///
    /// In sim and lab, the same plan and seed give the same bytes in the run folder; in lab, with the same build of headway.
    #[arg(long, default_value_t = 1, help_heading = WHAT)]
    seed: u64,

    /// Length of each load: 30, 90s or 2m
    ///
    /// A number alone is in seconds.
    #[arg(long, default_value = "10", value_name = "TIME", value_parser = time::seconds, help_heading = TRAFFIC)]
    seconds: u32,
    /// Time not counted [default: 20 RTT, at least 2s]
    ///
    /// The metrics of the summary begin after this much of the load, so that they do not show how a controller
    /// starts. The default is 20 round trips of the longest path and at least 2 s, but at most a third of the load.
    #[arg(long, value_name = "TIME", value_parser = time::ms, help_heading = TRAFFIC)]
    warmup: Option<u64>,
    /// Parallel streams: 1,4,8
    ///
    /// TCP connections, or the streams of one QUIC connection (--transport). Several values, here or in --pacing,
    /// --mtu, --against,
    /// --cpu-load, --direction and --kernel, make a matrix: every path is measured with every combination.
    #[arg(long, value_delimiter = ',', default_value = "1", help_heading = TRAFFIC)]
    streams: Vec<u32>,
    /// Highest rate of a stream: 12gbit
    ///
    /// No stream sends faster than this, whatever its controller asks for (SO_MAX_PACING_RATE; iperf3 --fq-rate). 0
    /// is no limit.
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "RATE", value_parser = traffic::pacing, help_heading = TRAFFIC)]
    pacing: Vec<Option<u64>>,
    /// MTU of the path in bytes
    ///
    /// From 576 to 9000.
    #[arg(long, value_delimiter = ',', default_value = "1500", help_heading = TRAFFIC)]
    mtu: Vec<u32>,
    /// Competing controller: cubic+80ms
    ///
    /// As many streams of this controller as are under test share the path, with a longer round trip where one is
    /// added after `+`. The report then has their goodput and Jain's index of fairness. Where the baseline is that
    /// very controller, what their goodput loses is the harm that the other candidates do. `same` is each candidate
    /// itself, and `none` is nobody.
    #[arg(long, value_delimiter = ',', default_value = "none", value_name = "CC[+RTT]", value_parser = traffic::rival, help_heading = TRAFFIC)]
    against: Vec<Option<Rival>>,
    /// Streams begin one after the other: 3s
    ///
    /// The first stream begins at once and each further one this much later, those of --against after those under test.
    /// The warm-up then ends after the last of them has begun, and the report has the time that they take to share the
    /// path fairly.
    #[arg(long, default_value = "0", hide_default_value = true, value_name = "TIME", value_parser = time::ms, help_heading = TRAFFIC)]
    stagger: u64,
    /// Rate of each stream's application: 2mbit
    ///
    /// A stream is then limited by its application, as a video call is. Without this flag a stream always has data to
    /// send.
    #[arg(long, conflicts_with = "on_off", value_parser = Pattern::limited, help_heading = TRAFFIC)]
    rate: Option<Pattern>,
    /// Send and pause in turns: 1s/500ms
    ///
    /// Each stream has data to send for the first time, has none for the second, and so on.
    #[arg(long, value_name = "ON/OFF", value_parser = Pattern::on_off, help_heading = TRAFFIC)]
    on_off: Option<Pattern>,
    /// Small datagrams beside the load: 200@64
    ///
    /// They are sent as a game server sends, and their one-way delay is measured. 200@64 is 200 bytes 64 times a
    /// second; 64..1200@64 draws each size at random. --messages alone is 64..1200@64. Without the flag there are no
    /// datagrams.
    #[arg(long, value_name = "BYTES@HZ", num_args = 0..=1, default_missing_value = "64..1200@64", help_heading = TRAFFIC)]
    messages: Option<Messages>,
    /// Requests and answers on a wire: tcp or udp
    ///
    /// In place of bulk data each of --streams is a client, which sends a request of 64 bytes, waits for an answer of
    /// 64 bytes and sends the next. For a path that is a wire (loopback, veth, virtio, e1000).
    #[arg(long, value_name = "CARRIER", value_enum, hide_possible_values = true, group = "wire load", conflicts_with_all = ["rate", "on_off"], help_heading = TRAFFIC)]
    requests: Option<Carrier>,
    /// A flood of UDP datagrams on a wire: 64
    ///
    /// In place of bulk data each of --streams sends datagrams with a payload of this many bytes as fast as it can.
    #[arg(long, value_name = "BYTES", group = "wire load", conflicts_with_all = ["rate", "on_off"], help_heading = TRAFFIC)]
    flood: Option<u32>,
    /// Nothing on a wire but the latency probes
    #[arg(long, group = "wire load", conflicts_with_all = ["rate", "on_off"], help_heading = TRAFFIC)]
    idle: bool,
    /// Keep CPUs busy, in percent
    ///
    /// Every CPU of this machine is kept busy for at least this share of the time, as a condition to measure under,
    /// in addition to what the load itself needs. With --in here and --in remote; in the lab only on a wire (loopback,
    /// veth, virtio, e1000), because an emulated path takes no time of the guest's.
    #[arg(long, value_delimiter = ',', default_value = "0", value_name = "PERCENT", value_parser = time::whole_percent, help_heading = TRAFFIC)]
    cpu_load: Vec<u32>,
    /// tcp, noq or quinn
    ///
    /// What carries the data. noq and quinn are QUIC stacks, whose streams share one connection (not with --in
    /// remote). A stack's own controllers (noq-bbr3, quinn-bbr and others) always run in their own stack.
    #[arg(long, default_value_t = Transport::Tcp, help_heading = TRAFFIC)]
    transport: Transport,

    /// sim, lab, here, or remote HOST
    ///
    /// sim is the simulator, in virtual time; it needs nothing.
    ///
    /// lab is a stock kernel in a virtual machine, in virtual time; it needs QEMU and no rights.
    ///
    /// here is this kernel over an emulated path; it needs root and iperf3.
    ///
    /// `remote HOST[:PORT][,HOST...]` is this kernel over the real path to a running `iperf3 -s`. Every server that is
    /// named is tried once before the run, and the whole run goes to the one with the shortest round trip among those
    /// that answer.
    ///
    /// `headway doctor` says which of them this machine can do.
    #[arg(long = "in", num_args = 1..=2, default_value = "lab", value_names = ["PLACE", "HOST"], help_heading = WHERE)]
    place: Vec<String>,
    /// iperf3 or iperf2 [default: iperf3]
    ///
    /// What makes the load with --in here and --in remote. iperf 2 tells less than iperf3: not its use of the CPU,
    /// and in remote only the sender's bytes.
    #[arg(long, value_enum, hide_possible_values = true, help_heading = WHERE)]
    tool: Option<Tool>,
    /// Keep a trace of ACKs
    ///
    /// What our own controllers are told with every ACK, and what they answer. It is acks.txt in the cell's folder,
    /// and `headway replay` checks it.
    #[arg(long, help_heading = WHERE)]
    trace: bool,

    /// Who sends: forward or reverse
    ///
    /// With forward this machine sends, with reverse the server. A server sends with what its own kernel has under
    /// the controller's name, and a run counts only where iperf3 says that it did. With
    /// --ssh it sends with our controllers, too.
    #[arg(long, value_enum, hide_possible_values = true, value_delimiter = ',', default_value = "forward", help_heading = REAL)]
    direction: Vec<Direction>,
    /// Host to measure latency to [default: the server]
    ///
    /// The latency under load is measured with ICMP echoes.
    #[arg(long, value_name = "HOST", default_value = "", hide_default_value = true, help_heading = REAL)]
    probe: String,
    /// Use the fq qdisc during the run
    ///
    /// On the network card through which the route to the server leaves. Its old qdisc comes back however the run
    /// ends. Needs root.
    #[arg(long, help_heading = REAL)]
    fq: bool,
    /// Any other qdisc with its options, for tests
    #[arg(long, hide = true, default_value = "", conflicts_with = "fq")]
    qdisc: String,
    /// Ask the server's machine over ssh
    ///
    /// It is asked for its environment and its use of the CPUs, and it can send with our controllers (--direction
    /// reverse). ssh must need no password; your own configuration of ssh applies. This program is copied there and
    /// removed again.
    #[arg(long, value_name = "[USER@]HOST", default_value = "", hide_default_value = true, help_heading = REAL)]
    ssh: String,

    /// Versions (6.1,6.12) or a vmlinuz file
    ///
    /// `headway doctor` shows the versions that there are; a prefix of one is enough. The default is the newest.
    /// Several versions are a matrix, as the traffic's lists are.
    #[arg(long, value_delimiter = ',', default_value = "", hide_default_value = true, help_heading = LAB)]
    kernel: Vec<String>,
    /// Directory with the modules of a vmlinuz file
    #[arg(long, value_name = "DIR", default_value = "", hide_default_value = true, help_heading = LAB)]
    modules: String,
}

impl PlanArgs {
    /// The plan that these flags ask for, once this machine is known to have its controllers.
    pub fn plan(self) -> Result<Plan> {
        let known = need::known();
        let plan = self.request(&known)?.plan()?;
        plan.check(&known)?;
        Ok(plan)
    }

    /// What the hosts do on a wire, where it is not bulk data.
    fn host_load(&self) -> Option<HostLoad> {
        match (self.requests, self.flood) {
            (Some(carrier), _) => Some(HostLoad::Requests(carrier)),
            (None, Some(bytes)) => Some(HostLoad::Flood { bytes }),
            (None, None) => self.idle.then_some(HostLoad::Idle),
        }
    }

    fn request(self, known: &Known) -> Result<Request> {
        let host_load = self.host_load();
        let place = read_place(&self.place)?;
        ensure!(
            self.tool.is_none() || !place.is_virtual(),
            "--tool: sim and lab make their own streams, with no program\nhint: leave it out, or --in here or remote HOST"
        );
        let axes = Axes {
            streams: self.streams,
            pacing_bps: self.pacing,
            direction: self.direction,
            cpu_load_percent: self.cpu_load,
            mtu: self.mtu,
            against: self.against,
            kernels: self.kernel,
        };
        axes.check()?;
        let traffic = Traffic {
            pattern: self.rate.or(self.on_off).unwrap_or_default(),
            stagger_ms: self.stagger,
            messages: self.messages,
            host_load,
            warmup_ms: self.warmup.unwrap_or(0),
            ..Traffic::bulk(self.seconds)
        };
        let has_warmup = self.warmup.is_some();
        let is_usual = axes.is_only_kernels()
            && axes.first(traffic.clone()) == Traffic { warmup_ms: 0, ..Traffic::bulk(10) }
            && !has_warmup;
        ensure!(
            is_usual || self.suite.is_none() || !self.path.is_empty(),
            "a suite brings its own traffic: --seconds, --streams, --pacing, --direction, --cpu-load, --mtu, --stagger, --rate, --on-off, --messages, --requests, --flood, --idle, --against and --warmup are \
             for paths beside it\nhint: leave them out, or add --path"
        );
        let names_none = self.path.is_empty() && self.suite.is_none() && !place.is_remote();
        let paths =
            if names_none && !is_usual { USUAL_PATHS.map(String::from).to_vec() } else { named(&self.path) };
        let suite = self.suite.or_else(|| (names_none && is_usual).then(|| suite::FIRST.to_string()));
        let ccs = if self.cc.is_empty() { usual_ccs(&place, self.transport, known) } else { self.cc };
        Ok(Request {
            place,
            ccs,
            draws: self.draws,
            paths,
            suite,
            blocks: self.blocks,
            traffic,
            axes,
            transport: self.transport,
            tool: self.tool.unwrap_or_default(),
            has_warmup,
            seed: self.seed,
            trace: self.trace,
            modules: self.modules,
            remote: RemoteOptions {
                server: String::new(),
                probe: self.probe,
                qdisc: if self.fq { FQ.into() } else { self.qdisc },
                ssh: self.ssh,
            },
        })
    }
}

/// The paths that were named. A list of presets is split at commas; a path text, which has blanks, is one path.
fn named(paths: &[String]) -> Vec<String> {
    let split = |p: &String| match p.contains(' ') {
        true => vec![p.clone()],
        false => p.split(',').map(String::from).collect(),
    };
    paths.iter().flat_map(split).collect()
}

/// The controllers that are compared when none are named: what BBR users have today, or what stands for it, against
/// what is offered instead.
fn usual_ccs(place: &Place, transport: Transport, known: &Known) -> Vec<Label> {
    let has_bbr = match place {
        Place::Sim => false,
        Place::Lab => true,
        Place::Here | Place::Remote(_) => known.registered.iter().any(|cc| cc == "bbr"),
    };
    let ccs = match (transport.is_tcp(), has_bbr) {
        (true, true) => "bbr,bbr3,bbr3_brake,cubic".to_string(),
        (true, false) => "bbr1,bbr3,bbr3_brake,cubic".to_string(),
        (false, _) => format!("{transport}-cubic,bbr1,bbr3,bbr3_brake"),
    };
    ccs.split(',').map(Label::from).collect()
}

fn read_place(words: &[String]) -> Result<Place> {
    Ok(match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["sim"] => Place::Sim,
        ["lab"] => Place::Lab,
        ["here"] => Place::Here,
        ["remote", host] => Place::Remote(host.into()),
        _ => bail!("--in takes sim, lab, here, or remote HOST[:PORT]; got `{}`", words.join(" ")),
    })
}

#[derive(Args)]
pub struct TasksArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// Folder for pScheduler tasks, one for each cell
    ///
    /// They are JSON files. Needs --in remote HOST: pScheduler runs the tasks from this machine to HOST.
    #[arg(long, value_name = "DIR")]
    pscheduler: PathBuf,
}

/// `headway plan`: writes the tasks and prints their files' names.
pub fn run(args: TasksArgs) -> Result<ExitCode> {
    let plan = usage(args.plan.plan())?;
    for file in usage(pscheduler::write_tasks(&plan, &args.pscheduler))? {
        out::say(file.display())?;
    }
    Ok(ExitCode::SUCCESS)
}
