//! The flows of our controllers, read from outside: which sockets use one, what the kernel knows of them and what the
//! controller keeps with them.
//!
//! A controller's programs keep each flow in a map (`flows` in `bpf/tcp.bpf.h`), and an iterator of the kernel walks such
//! a map with the sockets to which its elements belong, whatever network namespace they are in. So we see every socket of
//! ours, the controller does nothing for it, and a flow costs about a microsecond a look. Where the kernel does not allow that,
//! all TCP sockets are walked over, and each socket of anybody costs as much. The maps are found through the
//! programs that use them and not through the pins of what is loaded: `tune` gives a pin to the new generation while
//! sockets keep the old one, and `headway bench` attaches without a pin.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use headway_cc::cc::NO_RTT;
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{Link, MapCore, MapHandle, MapType, Object, ObjectBuilder, ProgramType};
use rustix::time::{ClockId, clock_gettime};

use crate::error::{Context, Error, Result, ensure};
use crate::iterator::{Sights, Walker, attach, walk};
use crate::need::demand_bpf;
use crate::object::{
    COUNTERS, SETTINGS, SPARE, SWITCHES, explain, is_named, map_of, read_counters, with_log,
};
use crate::programs::{PROGRAMS, Program, object};
use crate::trace::{Columns, HEAD};
use crate::{Bytes, Counters};

/// The programs of `bpf/flows.bpf.c`.
static OBJECT: &[u8] = object!("flows");
const OF_FLOWS: Sights =
    Sights { of_maps: [("see_flow", FLOWS), ("see_spare_flow", SPARE)], of_sockets: "see_own_flow" };
const OF_TCP: &str = "see_tcp";

/// The map in which a controller keeps the flows of sockets with storage; `SPARE` holds the others.
const FLOWS: &str = "flows";

/// The ring buffer of `bpf/flows.bpf.c`.
const ROWS: &str = "rows";

/// By this program, which each controller has, its maps are found.
const EVERY_CONTROLLER: &str = "cc_init";

/// Words of `struct seen`, of `struct beginning`, and of what is copied of a record, in `bpf/flows.bpf.c`.
const SOCKET: usize = 26;
const BEGINNING: usize = 4;
const COLUMNS: usize = 16;
const FLOW: usize = SOCKET + BEGINNING + 1 + COLUMNS;

/// What the programs write for `record.flow` when a socket has left them.
const LEFT: u64 = u64::MAX;

/// The columns of a record that are copied. A controller has those that it needs.
const WANTED: [&str; 12] = [
    "now_us",
    "unit_bytes",
    "is_app_limited",
    "mode",
    "min_rtt_us",
    "bw",
    "lt_use_bw",
    "lt_bw",
    "inflight_longterm",
    "inflight_shortterm",
    "brake_mode",
    "brake_entries",
];

/// A TCP socket as the kernel knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// The kernel's own mark of it: the same socket has the same at the next look.
    pub key: u64,
    /// The number by which `ss -e` knows it, as `sk:`; 0 when it has none.
    pub cookie: u64,
    /// Its congestion control.
    pub name: Arc<str>,
    /// State of the connection as `ss` spells it: `ESTAB` and others.
    pub state: &'static str,
    /// Its own address and port.
    pub local: SocketAddr,
    /// The peer's.
    pub peer: SocketAddr,
    /// Inode of its network namespace, as `lsns -t net` shows it.
    pub netns: u64,
    /// Id of the cgroup in which it was made: the inode of the cgroup's folder. 0 when it is not known.
    pub cgroup: u64,
    /// The user that made it.
    pub uid: u32,
    /// Bytes of a full segment.
    pub mss: u64,
    /// Congestion window, segments.
    pub cwnd: u64,
    /// In flight, segments.
    pub inflight: u64,
    /// Delivered so far, segments.
    pub delivered: u64,
    /// Marked lost so far, segments.
    pub lost: u64,
    /// Smoothed round trip.
    pub srtt: Option<Duration>,
    /// The least round trip of the last minutes.
    pub min_rtt: Option<Duration>,
    /// Bytes/s; `None` when nothing limits it.
    pub pacing_rate: Option<u64>,
    /// What it has transferred in its life.
    pub bytes: Bytes,
}

/// A flow of one of our controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The socket.
    pub socket: Socket,
    /// Which programs have it: after `tune` the flows of one name are of several generations. As in
    /// [`Loaded::generation`](crate::Loaded::generation).
    pub generation: u32,
    /// What it has transferred since it uses the controller.
    pub bytes: Bytes,
    /// How long it has used the controller. `None` where the controller is of another version of this crate.
    pub age: Option<Duration>,
    /// What the controller keeps with it. `None` where the controller is of another version of this crate.
    pub model: Option<Model>,
}

/// What a controller knows of its flow, as of its last event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// State of the state machine, one of [`Model::PHASES`].
    pub phase: &'static str,
    /// The bandwidth that it paces by, bytes/s; 0 before the first sample.
    pub bandwidth: u64,
    /// Its minimum RTT.
    pub min_rtt: Option<Duration>,
    /// Bound of what may be in flight, segments: what the path was seen to bear (`bbr3`).
    pub inflight_longterm: Option<u64>,
    /// The same for a while after a loss (`bbr3`).
    pub inflight_shortterm: Option<u64>,
    /// What the brake does.
    pub brake: Brake,
    /// How often it was put on.
    pub brake_entries: u64,
    /// Whether the application, not the network, limits it.
    pub is_app_limited: bool,
    /// How long ago its last event was.
    pub idle: Duration,
}

/// What the brake does to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brake {
    /// Nothing.
    Off,
    /// It sends at what arrives, until the queue is gone.
    Drain,
    /// It looks for the old rate.
    Hold,
}

impl Brake {
    /// Whether it limits the flow.
    pub fn is_on(self) -> bool {
        self != Brake::Off
    }

    /// In a word: `off`, `drain`, `hold`.
    pub fn word(self) -> &'static str {
        match self {
            Brake::Off => "off",
            Brake::Drain => "drain",
            Brake::Hold => "hold",
        }
    }
}

/// What `bbr1` and `bbr3` call their states, by their numbers.
const PHASES_1: &[&str] = &["startup", "drain", "probe_bw", "probe_rtt"];
const PHASES_3: &[&str] = &["none", "startup", "drain", "down", "cruise", "refill", "up", "probe_rtt"];

impl Model {
    /// Every state that a flow can be in.
    pub const PHASES: &'static [&'static str] =
        &["startup", "drain", "probe_bw", "down", "cruise", "refill", "up", "probe_rtt", "none"];
}

/// Looks at flows, again and again: the programs stay loaded in between, so that a look costs little.
#[derive(Debug)]
pub struct Watcher {
    /// By the id of their program `cc_init`.
    controllers: HashMap<u32, Watched>,
    tcp: Option<(Object, Link)>,
    names: Names,
}

/// A controller whose flows are looked at.
#[derive(Debug)]
struct Watched {
    phases: &'static [&'static str],
    counters: Option<MapHandle>,
    rows: MapHandle,
    _object: Object,
    walker: Walker,
}

/// Each name of a congestion control once, however many sockets have it.
type Names = HashMap<[u64; 2], Arc<str>>;

impl Watcher {
    /// Fails where the kernel or the user's rights do not allow to look.
    pub fn new() -> Result<Watcher> {
        demand_bpf().context("flows cannot be looked at")?;
        Ok(Watcher { controllers: HashMap::new(), tcp: None, names: Names::new() })
    }

    /// Gives every flow of every controller of ours in the kernel to `take`, from all network namespaces.
    pub fn flows(&mut self, mut take: impl FnMut(Flow)) -> Result<()> {
        self.look_for_controllers()?;
        let now_us = now_us();
        let Watcher { controllers, names, .. } = self;
        for (id, watched) in controllers {
            let walk = |row: &mut dyn FnMut(&[u8])| watched.walker.walk(&watched.rows, row);
            read(walk, |words: &[u64; FLOW]| {
                if let Some(flow) = flow(words, *id, watched.phases, now_us, names) {
                    take(flow);
                }
            })?;
        }
        Ok(())
    }

    /// What the programs of a generation counted; `None` when it is gone, or of another version of this crate.
    pub fn counters(&self, generation: u32) -> Option<Counters> {
        read_counters(self.controllers.get(&generation)?.counters.as_ref()?).ok()
    }

    /// Gives the TCP sockets of the caller's network namespace to `take`, those with flows of ours among them; not those
    /// that only listen.
    pub fn sockets(&mut self, mut take: impl FnMut(Socket)) -> Result<()> {
        if self.tcp.is_none() {
            self.tcp = Some(load_for_tcp()?);
        }
        let Watcher { tcp, names, .. } = self;
        let (object, link) = tcp.as_ref().context("the programs are loaded")?;
        let rows = map_of(object, ROWS)?;
        read(
            |row| walk(link, &rows, row),
            |words: &[u64; SOCKET]| {
                if let Some(socket) = socket(words, names).filter(|s| s.state != "LISTEN") {
                    take(socket);
                }
            },
        )
    }

    /// Finds the controllers that came and forgets those that went.
    fn look_for_controllers(&mut self) -> Result<()> {
        let options = ProgInfoQueryOptions::default().include_map_ids(true);
        let programs = ProgInfoIter::with_query_opts(options);
        let ours = programs.filter(|p| p.ty == ProgramType::StructOps && p.name == EVERY_CONTROLLER);
        let found: HashMap<u32, Vec<u32>> = ours.map(|p| (p.id, p.map_ids)).collect();
        self.controllers.retain(|id, _| found.contains_key(id));
        for (id, maps) in found {
            if !self.controllers.contains_key(&id)
                && let Some(watched) = Watched::new(&maps)?
            {
                self.controllers.insert(id, watched);
            }
        }
        Ok(())
    }
}

impl Watched {
    /// `None` where the controller goes away while we look, or is none of ours.
    fn new(map_ids: &[u32]) -> Result<Option<Watched>> {
        let mut maps: Vec<MapHandle> =
            map_ids.iter().filter_map(|id| MapHandle::from_map_id(*id).ok()).collect();
        let map = |name: &str| maps.iter().find(|m| is_named(m.name(), name));
        let (Some(flows), Some(spare), Some(settings)) = (map(FLOWS), map(SPARE), map(SETTINGS)) else {
            return Ok(None);
        };
        if flows.map_type() != MapType::SkStorage {
            return Ok(None);
        }
        let rows = settings.value_size() as usize / 8;
        let program = PROGRAMS.iter().find(|p| SWITCHES + p.params.rows.len() == rows);
        let (offsets, phases) = match program {
            Some(program) => (offsets(program)?, phases_of(program)),
            None => (vec![0; 1 + COLUMNS], PHASES_1),
        };
        let (object, walker) =
            Walker::open(&OF_FLOWS, |programs| load(&offsets, programs, Some([flows, spare])))?;
        let counters = maps.iter().position(|m| is_named(m.name(), COUNTERS)).map(|at| maps.swap_remove(at));
        Ok(Some(Watched { phases, counters, rows: map_of(&object, ROWS)?, _object: object, walker }))
    }
}

fn phases_of(program: &Program) -> &'static [&'static str] {
    if program.name.starts_with("bbr1") { PHASES_1 } else { PHASES_3 }
}

/// `config` of `bpf/flows.bpf.c`: where a flow of this controller has its beginning, and each wanted column.
fn offsets(program: &Program) -> Result<Vec<u32>> {
    let names = Columns::of(program, &(program.params.defaults)())?.names;
    let state = names.iter().position(|n| n.starts_with(program.name)).context("a controller has a state")?;
    let word = |column: &str| {
        let own = match (column, phases_of(program)) {
            ("mode", PHASES_3) => "state",
            ("bw", PHASES_1) => "bw_s0_v",
            _ => column,
        };
        let own = format!("{}.{own}", program.name);
        let in_state = names[state..].iter().position(|n| *n == own).map(|at| state + at);
        in_state.or_else(|| names.iter().position(|n| n == column))
    };
    let at = |word: usize| ((HEAD + word) * 8) as u32;
    let mut offsets = vec![at(names.len())];
    offsets.extend(WANTED.iter().map(|column| word(column).map_or(0, at)));
    offsets.resize(1 + COLUMNS, 0);
    Ok(offsets)
}

/// Loads some of the programs, with a controller's maps of flows if they need them.
fn load(offsets: &[u32], wanted: &[&str], flows: Option<[&MapHandle; 2]>) -> Result<Object> {
    let (object, log) = with_log(|| {
        let mut open = ObjectBuilder::default().open_memory(OBJECT)?;
        for mut program in open.progs_mut() {
            let is_wanted = wanted.iter().any(|name| program.name() == *name);
            program.set_autoload(is_wanted);
        }
        let settings: Vec<u8> = offsets.iter().flat_map(|o| o.to_ne_bytes()).collect();
        if let Some(mut map) = open.maps_mut().find(|m| is_named(m.name(), SETTINGS)) {
            map.set_initial_value(&settings)?;
        }
        for (at, name) in [FLOWS, SPARE].iter().enumerate() {
            if let Some(mut map) = open.maps_mut().find(|m| m.name() == *name) {
                match flows {
                    Some(flows) => map.reuse_fd(flows[at].as_fd())?,
                    None => map.set_autocreate(false)?,
                }
            }
        }
        open.load()
    });
    object
        .map_err(|e| explain(&Error::new("cannot load it").caused_by(e), &log))
        .context("flows cannot be looked at")
}

fn load_for_tcp() -> Result<(Object, Link)> {
    let mut object = load(&[0; 1 + COLUMNS], &[OF_TCP], None)?;
    let link = attach(&mut object, OF_TCP, None)?;
    Ok((object, link))
}

/// Gives on the rows of a walk, which have so many words.
fn read<const N: usize>(
    walk: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<()>,
    mut take: impl FnMut(&[u64; N]),
) -> Result<()> {
    let mut is_whole = true;
    let mut row = |bytes: &[u8]| {
        let mut words = [0; N];
        is_whole &= bytes.len() == 8 * N;
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().expect("chunks of 8"));
        }
        take(&words);
    };
    walk(&mut row).context("cannot look at the flows")?;
    ensure!(is_whole, "an iterator gave rows of another length");
    Ok(())
}

/// `CLOCK_MONOTONIC`, which is also TCP's.
fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// A socket of `struct seen`; `None` when it is none of a family that we know, because it went while it was looked at.
fn socket(words: &[u64; SOCKET], names: &mut Names) -> Option<Socket> {
    let &[key, cookie, name0, name1, state, family, local_port, peer_port, ..] = words;
    let &[.., srtt_us, min_rtt_us, pacing_rate, acked, sent, retransmitted] = words;
    let address = |at: usize, port: u64| address(family, [words[at], words[at + 1]], port);
    Some(Socket {
        key,
        cookie,
        name: names.entry([name0, name1]).or_insert_with(|| text(&[name0, name1])).clone(),
        state: TCP_STATES.get(state as usize).copied().unwrap_or("?"),
        local: address(8, local_port)?,
        peer: address(10, peer_port)?,
        netns: words[12],
        cgroup: words[13],
        uid: words[14] as u32,
        mss: words[15],
        cwnd: words[16],
        inflight: words[17],
        delivered: words[18],
        lost: words[19],
        srtt: (srtt_us > 0).then(|| Duration::from_micros((srtt_us >> 3).max(1))),
        min_rtt: rtt(min_rtt_us),
        pacing_rate: Some(pacing_rate).filter(|rate| *rate != u64::MAX && *rate != u64::from(u32::MAX)),
        bytes: Bytes { acked, sent, retransmitted },
    })
}

/// States by their numbers (`net/tcp_states.h`), as `ss` spells them.
const TCP_STATES: [&str; 13] = [
    "?",
    "ESTAB",
    "SYN-SENT",
    "SYN-RECV",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "TIME-WAIT",
    "CLOSED",
    "CLOSE-WAIT",
    "LAST-ACK",
    "LISTEN",
    "CLOSING",
    "SYN-RECV",
];

fn rtt(us: u64) -> Option<Duration> {
    (us != 0 && us != NO_RTT).then(|| Duration::from_micros(us))
}

/// Text that fills its words with zeros.
fn text(words: &[u64]) -> Arc<str> {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).take_while(|b| *b != 0).collect();
    String::from_utf8_lossy(&bytes).into()
}

/// An address of IPv4 that a socket of IPv6 wears is shown as what it is.
fn address(family: u64, words: [u64; 2], port: u64) -> Option<SocketAddr> {
    let ip = match family {
        2 => IpAddr::from(Ipv4Addr::from((words[0] as u32).to_ne_bytes())),
        10 => {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&words[0].to_ne_bytes());
            bytes[8..].copy_from_slice(&words[1].to_ne_bytes());
            IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port as u16))
}

/// A flow of `struct seen_flow`; `None` when the socket has left the controller.
fn flow(
    words: &[u64; FLOW],
    generation: u32,
    phases: &[&'static str],
    now_us: u64,
    names: &mut Names,
) -> Option<Flow> {
    let socket = socket(words.first_chunk()?, names)?;
    let &[began_us, acked, sent, retransmitted] = words[SOCKET..].first_chunk::<BEGINNING>()?;
    if words[SOCKET + BEGINNING] == LEFT {
        return None;
    }
    // A flow that is ours has a beginning; without one the layout is of another version.
    let is_known = began_us != 0;
    let bytes = Bytes {
        acked: socket.bytes.acked.saturating_sub(acked),
        sent: socket.bytes.sent.saturating_sub(sent),
        retransmitted: socket.bytes.retransmitted.saturating_sub(retransmitted),
    };
    Some(Flow {
        bytes,
        generation,
        age: is_known.then(|| Duration::from_micros(now_us.saturating_sub(began_us))),
        model: is_known
            .then(|| model(words[SOCKET + BEGINNING + 1..].first_chunk(), phases, now_us))
            .flatten(),
        socket,
    })
}

/// What the columns of [`WANTED`] say.
fn model(words: Option<&[u64; WANTED.len()]>, phases: &[&'static str], at_us: u64) -> Option<Model> {
    let &[
        now_us,
        unit_bytes,
        is_app_limited,
        mode,
        min_rtt_us,
        bw,
        lt_use_bw,
        lt_bw,
        longterm,
        shortterm,
        brake_mode,
        brake_entries,
    ] = words?;
    // `bbr1` takes a policer's rate where it has found one.
    let bw = if lt_use_bw == 1 { lt_bw } else { bw };
    let bound = |segments: u64| (segments != 0 && segments < u64::from(u32::MAX)).then_some(segments);
    Some(Model {
        phase: phases.get(mode as usize)?,
        bandwidth: bytes_per_second(bw, unit_bytes),
        min_rtt: rtt(min_rtt_us),
        inflight_longterm: bound(longterm),
        inflight_shortterm: bound(shortterm),
        brake: *[Brake::Off, Brake::Drain, Brake::Hold].get(brake_mode as usize)?,
        brake_entries,
        is_app_limited: is_app_limited == 1,
        idle: Duration::from_micros(at_us.saturating_sub(now_us)),
    })
}

/// A bandwidth of a controller, segments a microsecond times 2^24, in bytes a second.
fn bytes_per_second(bw: u64, unit_bytes: u64) -> u64 {
    ((u128::from(bw) * u128::from(unit_bytes) * 1_000_000) >> 24).try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_cc::cc::{bbr1, bbr3};

    #[test]
    fn every_state_of_every_controller_has_a_name() {
        assert_eq!((PHASES_1.len(), PHASES_3.len()), (bbr1::Mode::ALL.len(), bbr3::Mode::ALL.len()));
        for phase in PHASES_1.iter().chain(PHASES_3) {
            assert!(Model::PHASES.contains(phase), "{phase}");
        }
    }

    #[test]
    fn the_columns_are_where_the_record_has_them() {
        for program in PROGRAMS {
            let names = Columns::of(program, &(program.params.defaults)()).unwrap().names;
            let offsets = offsets(program).unwrap();
            assert_eq!(offsets.len(), 1 + COLUMNS);
            assert_eq!(offsets[0] as usize, (HEAD + names.len()) * 8);
            let name = |i: usize| match offsets[1 + i] {
                0 => "",
                at => names[at as usize / 8 - HEAD].as_str(),
            };
            let shown: Vec<&str> = (0..WANTED.len()).map(name).collect();
            let own = |column: &str| format!("{}.{column}", program.name);
            let (mode, bw) =
                if program.name.starts_with("bbr1") { ("mode", "bw_s0_v") } else { ("state", "bw") };
            assert_eq!(shown[..3], ["now_us", "unit_bytes", "is_app_limited"]);
            assert_eq!(shown[3..6], [own(mode), own("min_rtt_us"), own(bw)]);
            assert_eq!(shown[10..], [own("brake_mode"), own("brake_entries")]);
        }
    }

    #[test]
    fn words_become_a_flow() {
        let mut words = [0; FLOW];
        words[2] = u64::from_ne_bytes(*b"bbr3_bra");
        words[3] = u64::from_ne_bytes(*b"ke\0\0\0\0\0\0");
        words[4..8].copy_from_slice(&[1, 2, 443, 50000]);
        words[8] = u64::from(u32::from_ne_bytes([192, 0, 2, 1]));
        words[10] = u64::from(u32::from_ne_bytes([198, 51, 100, 7]));
        words[19..25].copy_from_slice(&[3, 80_000, NO_RTT, u64::MAX, 5000, 7000]);
        words[25] = 700;
        words[SOCKET..SOCKET + BEGINNING].copy_from_slice(&[1_000_000, 1000, 1000, 0]);
        let columns = &mut words[SOCKET + BEGINNING + 1..];
        // 1 segment of 1000 bytes in 1000 us.
        columns[..6].copy_from_slice(&[2_900_000, 1000, 1, 6, 9000, (1 << 24) / 1000]);
        columns[8..12].copy_from_slice(&[12, u64::MAX, 1, 4]);
        let flow = flow(&words, 7, PHASES_3, 3_000_000, &mut Names::new()).unwrap();
        assert_eq!((&*flow.socket.name, flow.socket.state), ("bbr3_brake", "ESTAB"));
        assert_eq!(flow.socket.local.to_string(), "192.0.2.1:443");
        assert_eq!(flow.socket.peer.to_string(), "198.51.100.7:50000");
        assert_eq!((flow.socket.srtt, flow.socket.min_rtt), (Some(Duration::from_millis(10)), None));
        assert_eq!((flow.age, flow.bytes.retransmitted), (Some(Duration::from_secs(2)), 700));
        let model = flow.model.unwrap();
        assert_eq!((model.phase, model.brake, model.brake_entries), ("up", Brake::Drain, 4));
        assert_eq!((model.inflight_longterm, model.inflight_shortterm), (Some(12), None));
        assert!((990_000..=1_000_000).contains(&model.bandwidth), "{}", model.bandwidth);
        assert_eq!(model.idle, Duration::from_millis(100));
        words[SOCKET + BEGINNING] = LEFT;
        assert!(super::flow(&words, 7, PHASES_3, 3_000_000, &mut Names::new()).is_none());
    }
}
