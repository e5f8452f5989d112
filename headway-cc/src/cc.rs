//! The seam between a transport and a congestion controller: one flat event in, one control out.
//!
//! Every controller is a pure function of its state and an [`Ack`]. The transport's glue fills the event;
//! nothing here reads a clock, a socket or a random source. An event, a control and a state are each a row of
//! integers ([`row`]): the kernel's trace, the C twin and Rust print and compare the same row.
//!
//! Twin: `headway-kernel/bpf/cc.h` (same fields in the same order).
//!
//! "Data" is counted in the transport's own unit. The TCP glue counts packets (`smss = 1`, `unit_bytes` = the
//! MSS); QUIC and the simulator count bytes (`smss` = the MSS in bytes, `unit_bytes = 1`).

use crate::names::choices;
use bbr1::{Bbr1, Bbr1Params};
use bbr3::{Bbr3, Bbr3Params};
use params::{ParamError, ParamTable};
use row::{row, word};
use std::borrow::Borrow;
use std::fmt;
use std::sync::{Arc, LazyLock};

pub mod bbr1;
pub mod bbr3;
pub mod brake;
pub mod cubic;
pub mod fixed;
pub mod params;
pub mod row;

/// [`Ack::rs_rtt_us`] and [`Ack::min_rtt_us`] when there is no RTT sample.
pub const NO_RTT: u64 = u32::MAX as u64;

word! {
/// What happened to a connection ([`Ack::event`]).
pub enum Event {
    /// A connection starts, or switches to this controller mid-flight.
    #[default]
    Init = 0,
    /// An ACK was processed; the only event whose `rs_…` fields tell of what the ACK delivered.
    Ack = 1,
    /// The first transmission after an idle period (Linux `CA_EVENT_TX_START`).
    TxStart = 2,
    /// The transport is about to reduce the window (Linux `ssthresh()`): it enters CWR, Recovery or Loss.
    Ssthresh = 3,
    /// The retransmission timer fired (Linux `set_state(TCP_CA_Loss)`).
    Loss = 4,
    /// The last reduction proved spurious (Linux `undo_cwnd()`).
    Undo = 5,
    /// A packet was marked lost. Comes once for each lost packet, before the event that reveals the loss. `newly_lost` is
    /// the packet's size, and `rs_tx_in_flight`, `rs_lost` (the packet itself included) and `rs_is_app_limited` tell of
    /// its own transmission. The TCP glue sends one for a run of adjacent packets whose transmissions differ in nothing
    /// that counts, with the size of all and the transmission of the last.
    Lost = 6,
}
}

word! {
/// The state of loss recovery ([`Ack::ca_state`]), numbered and ordered as in Linux: each is worse than the one before it.
pub enum CaState {
    /// Nothing is missing.
    #[default]
    Open = 0,
    /// Something later was delivered first, but nothing is marked lost. QUIC is never in this state.
    Disorder = 1,
    /// The window is being reduced without a loss, for CE marks or (Linux) a full queue of this host.
    Cwr = 2,
    /// Fast recovery: losses are being repaired, and the window is being reduced.
    Recovery = 3,
    /// The retransmission timer has fired, and what was in flight then is not all settled. QUIC is in this state after
    /// persistent congestion.
    Loss = 4,
}
}

row! {
/// One event of a connection. Amounts of data are in the transport's unit, times in microseconds since an
/// arbitrary start, rates in bytes per second.
pub struct Ack {
    /// What happened.
    event: Event,
    /// When it happened; later events have no earlier time. Clocks start above 0, which states take as "never".
    now_us: u64,
    /// Bytes in one unit of data: the MSS for TCP (unit: packet), 1 where the unit is the byte.
    unit_bytes: u64,
    /// Sender maximum segment size in units: 1 for TCP (unit: packet).
    smss: u64,
    /// The congestion window now in force; the transport may have changed it since the last control.
    cwnd: u64,
    /// Upper bound the host sets on the window (Linux `snd_cwnd_clamp`).
    cwnd_clamp: u64,
    /// The pacing rate now in force, bytes/s; 0 before the first control.
    pacing_rate: u64,
    /// Upper bound the application sets (`SO_MAX_PACING_RATE`), bytes/s; `u64::MAX` for none.
    max_pacing_rate: u64,
    /// `C.delivered`: total delivered so far, this ACK included.
    delivered: u64,
    /// Time of the most recent delivery (Linux `delivered_mstamp`).
    delivered_us: u64,
    /// CE-marked part of `delivered`, so far as the receiver has said.
    delivered_ce: u64,
    /// Total marked lost so far.
    lost: u64,
    /// Newly ACKed or SACKed by this ACK.
    newly_acked: u64,
    /// Newly marked lost by this ACK.
    newly_lost: u64,
    /// In flight after this ACK was processed.
    inflight: u64,
    /// In flight before this ACK was processed.
    prior_inflight: u64,
    /// Smoothed RTT; 0 when there is none yet.
    srtt_us: u64,
    /// The transport's own minimum RTT; [`NO_RTT`] when there is none yet.
    min_rtt_us: u64,
    /// Delivered over the sampling interval (`RS.delivered`); 0 when there is no sample. It may be above 0 with an
    /// interval of 0: data arrived, but too soon to tell a rate.
    rs_delivered: u64,
    /// Lost over the sampling interval (`RS.lost`).
    rs_lost: u64,
    /// Length of the sampling interval (`RS.interval`); 0 when there is no valid rate.
    rs_interval_us: u64,
    /// RTT sample (`RS.rtt`); [`NO_RTT`] when there is none.
    rs_rtt_us: u64,
    /// `P.delivered` of the packet that the sample is about.
    rs_prior_delivered: u64,
    /// In flight just after that packet was sent (`RS.tx_in_flight`).
    rs_tx_in_flight: u64,
    /// CE-marked part of `rs_delivered`.
    rs_delivered_ce: u64,
    /// [`Event::Lost`]: whether the packet starts a discontiguous range of losses, because it does not follow the last
    /// one marked lost.
    rs_starts_lost_range: bool,
    /// Whether the sample is application-limited.
    rs_is_app_limited: bool,
    /// Whether the receiver probably delayed the ACK (Linux `is_ack_delayed`).
    rs_is_ack_delayed: bool,
    /// Whether the connection is application-limited now.
    is_app_limited: bool,
    /// Whether the window, not the application, limited sending in the last round.
    is_cwnd_limited: bool,
    /// Whether the receiver acknowledges selectively (QUIC: always; TCP: with SACK).
    has_selective_acks: bool,
    /// The state of loss recovery.
    ca_state: CaState,
    /// How far in the future the next packet's departure is already scheduled, microseconds (EDT pacing).
    edt_us: u64,
    /// 32 random bits drawn by the transport.
    rand: u64,
}
}

row! {
/// What the controller wants after an event.
pub struct Control {
    /// Congestion window, in units of data.
    cwnd: u64,
    /// Bytes per second.
    pacing_rate: u64,
    /// Largest burst, in units of data (Linux: segments per skb goal).
    send_quantum: u64,
    /// Whether everything in flight is to count as application-limited from now on (BBR in ProbeRTT).
    mark_app_limited: bool,
}
}

/// A congestion controller. Controllers cannot fail: nonsense is clamped. Every one can be copied with its state: QUIC
/// goes on with a copy when a connection's address changes.
pub trait Controller: std::fmt::Debug + Send + Sync + CloneController {
    /// Processes one event. The first event of a connection is [`Event::Init`].
    fn on_event(&mut self, ack: &Ack) -> Control;

    /// The whole state as a row, for traces and twins.
    fn state(&self) -> Vec<u64>;

    /// Names of the fields of [`Controller::state`].
    fn state_fields(&self) -> &'static [&'static str];

    /// Whether fast recovery is to last until what was lost can have been repaired, as TCP's does, where the
    /// transport's own ends with the first packet sent in it (QUIC, RFC 9002 §7.3.2).
    fn recovers_until_repaired(&self) -> bool {
        false
    }
}

/// What makes a boxed controller copyable, which [`Clone`] alone cannot. Every controller that is [`Clone`] has it.
pub trait CloneController {
    /// A copy of the controller with its state.
    fn clone_box(&self) -> Box<dyn Controller>;
}

impl<C: Controller + Clone + 'static> CloneController for C {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

/// Makes a connection of a controller, with these parameters or with the controller's own.
type NewConnection = fn(Option<&[u64]>) -> Option<Box<dyn Controller>>;

/// One controller by name.
#[derive(Debug)]
pub struct Entry {
    /// What [`controller`] knows it by, without settings.
    pub name: &'static str,
    /// What it is, for lists: one line without a full stop.
    pub about: &'static str,
    /// Its parameters; none where nothing can be set.
    pub params: Option<&'static ParamTable>,
    /// Makes a connection; `None` when the parameters are no row of this controller's.
    new: NewConnection,
}

/// A [`NewConnection`] of a type that has parameters: with those given, or with the defaults of the controller's table.
macro_rules! with_params {
    ($controller:ident, $params:ident, $table:ident) => {
        |words| {
            static OWN: LazyLock<Arc<$params>> = LazyLock::new(|| own(&params::$table, $params::from_words));
            Some(Box::new($controller::new(shared(&OWN, words, $params::from_words)?)))
        }
    };
}

/// Every controller of this crate. A new controller is one row here.
pub const CONTROLLERS: &[Entry] = &[
    Entry {
        name: "bbr1",
        about: "BBRv1, as Linux tcp_bbr.c behaves",
        params: Some(&params::BBR1),
        new: with_params!(Bbr1, Bbr1Params, BBR1),
    },
    Entry {
        name: "bbr1_brake",
        about: "bbr1 that yields at once when the path becomes slower",
        params: Some(&params::BBR1_BRAKE),
        new: with_params!(Bbr1, Bbr1Params, BBR1_BRAKE),
    },
    Entry {
        name: "bbr3",
        about: "BBRv3, after draft-ietf-ccwg-bbr",
        params: Some(&params::BBR3),
        new: with_params!(Bbr3, Bbr3Params, BBR3),
    },
    Entry {
        name: "bbr3_brake",
        about: "bbr3 that yields at once when the path becomes slower",
        params: Some(&params::BBR3_BRAKE),
        new: with_params!(Bbr3, Bbr3Params, BBR3_BRAKE),
    },
    Entry {
        name: "headway",
        about: "our own: bbr3 with short probes and a brake, which does not answer random loss",
        params: Some(&params::HEADWAY),
        new: with_params!(Bbr3, Bbr3Params, HEADWAY),
    },
    Entry {
        name: "cubic",
        about: "CUBIC (RFC 9438) with HyStart",
        params: None,
        new: |_| Some(Box::new(cubic::Cubic::new(cubic::CubicParams::default()))),
    },
];

impl Entry {
    /// A connection with the controller's own parameters.
    pub fn connection(&self) -> Option<Box<dyn Controller>> {
        (self.new)(None)
    }

    /// A connection with these parameters; `None` when they are no row of this controller's.
    pub fn with(&self, words: &[u64]) -> Option<Box<dyn Controller>> {
        (self.new)(Some(words))
    }
}

/// The defaults of a table as a row with types.
fn own<P: Default>(table: &ParamTable, row: fn(&[u64]) -> Option<P>) -> Arc<P> {
    Arc::new(row(&(table.defaults)()).unwrap_or_default())
}

/// The given parameters, or else the controller's own, of which all flows read one copy: a thousand flows would
/// otherwise hold a thousand.
fn shared<P>(own: &Arc<P>, words: Option<&[u64]>, row: fn(&[u64]) -> Option<P>) -> Option<Arc<P>> {
    words.map_or_else(|| Some(own.clone()), |words| row(words).map(Arc::new))
}

/// A controller's name, and the settings of its parameters that follow it: `bbr3_brake:brake_rtt=0.2:drain_rounds=4`.
pub fn name_and_settings(cc: &str) -> (&str, impl Iterator<Item = &str>) {
    let mut parts = cc.split(':');
    (parts.next().unwrap_or_default(), parts)
}

/// The line of a trace that names the settings begins with this.
pub const TRACE_SET: &str = "# set ";

/// The columns of a trace after the flow: the event, what was decided, the controller's state.
pub fn trace_columns(name: &str, controller: &dyn Controller) -> Vec<String> {
    let event = Ack::FIELDS.iter().map(|f| f.to_string());
    let out = Control::FIELDS.iter().map(|f| format!("out.{f}"));
    let state = controller.state_fields().iter().map(|f| format!("{name}.{f}"));
    event.chain(out).chain(state).collect()
}

/// The lines of a trace before its events: the columns, and the settings if there are any.
pub fn trace_header(columns: &[String], settings: &[impl Borrow<str>]) -> String {
    let columns = format!("# flow {}\n", columns.join(" "));
    if settings.is_empty() { columns } else { format!("{columns}{TRACE_SET}{}\n", settings.join(" ")) }
}

/// The row of [`CONTROLLERS`] with this name.
pub fn entry(name: &str) -> Option<&'static Entry> {
    CONTROLLERS.iter().find(|e| e.name == name)
}

/// A controller by name, with settings if there are any.
pub fn controller(cc: &str) -> Result<Box<dyn Controller>, ControllerError> {
    let (name, settings) = name_and_settings(cc);
    let entry = entry(name).ok_or_else(|| ControllerError::Unknown(name.to_string()))?;
    let made = if name.len() == cc.len() {
        entry.connection()
    } else {
        let table = entry.params.ok_or(ControllerError::NoParams(entry.name))?;
        entry.with(&table.with(settings)?)
    };
    made.ok_or_else(|| ControllerError::Unknown(name.to_string()))
}

/// Why there is no such controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerError {
    /// No controller has that name.
    Unknown(
        /// The name asked for, without settings.
        String,
    ),
    /// Settings were given to a controller that has no parameters.
    NoParams(
        /// The controller.
        &'static str,
    ),
    /// A setting was refused.
    Param(ParamError),
}

impl From<ParamError> for ControllerError {
    fn from(e: ParamError) -> Self {
        Self::Param(e)
    }
}

impl fmt::Display for ControllerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                let known: Vec<&str> = CONTROLLERS.iter().map(|e| e.name).collect();
                write!(f, "unknown controller `{name}`\nhint: {}", choices(name, &known))
            }
            Self::NoParams(name) => write!(f, "`{name}` has no parameters to set"),
            Self::Param(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for ControllerError {}
