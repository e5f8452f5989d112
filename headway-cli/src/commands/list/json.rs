//! `headway list --json`: what there is to choose from, for other programs. Fields are added here and not renamed.

use crate::lab;
use crate::plan::suite;
use crate::plan::wire::WIRES;
use headway_cc::cc::params::{Kind, Param};
use headway_cc::{cc, path};
use headway_kernel as kernel;
use serde::Serialize;

#[derive(Serialize)]
pub struct Everything {
    /// Ours, in Rust and, where they run in lab, here and remote, as BPF.
    controllers: Vec<Controller>,
    lab_controllers: Vec<&'static str>,
    kernel_controllers: Vec<String>,
    quic_controllers: Vec<&'static str>,
    /// Null where this user may not see it.
    loaded: Option<Vec<Loaded>>,
    paths: Vec<Named>,
    path_words: Vec<Named>,
    wires: Vec<Wire>,
    suites: Vec<Suite>,
}

#[derive(Serialize)]
struct Controller {
    name: &'static str,
    about: &'static str,
    places: Vec<&'static str>,
    parameters: Vec<Parameter>,
}

/// Values are texts as `--set` takes them.
#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    unit: &'static str,
    default: String,
    min: String,
    max: String,
    about: &'static str,
}

#[derive(Serialize)]
struct Loaded {
    name: String,
    controller: &'static str,
    seconds: u64,
    sockets: u64,
    /// Null where another version of the program has loaded it.
    settings: Option<Vec<String>>,
    flows: Option<u64>,
}

#[derive(Serialize)]
struct Named {
    name: &'static str,
    text: &'static str,
    about: &'static str,
}

/// A way between two hosts without a bottleneck.
#[derive(Serialize)]
struct Wire {
    name: &'static str,
    about: &'static str,
}

#[derive(Serialize)]
struct Suite {
    name: &'static str,
    rows: usize,
    about: &'static str,
}

pub fn everything() -> Everything {
    let ours = kernel::available();
    let controller = |e: &cc::Entry| Controller {
        name: e.name,
        about: e.about,
        places: match ours.attachable.contains(&e.name) {
            true => vec!["sim", "lab", "here", "remote"],
            false => vec!["sim"],
        },
        parameters: e.params.iter().flat_map(|table| table.described()).map(parameter).collect(),
    };
    Everything {
        controllers: cc::CONTROLLERS.iter().map(controller).collect(),
        lab_controllers: lab::BUILT_IN.to_vec(),
        kernel_controllers: ours.registered.clone(),
        quic_controllers: headway_cc::quic::sim::OWN.to_vec(),
        loaded: kernel::loaded().ok().map(|all| all.into_iter().map(loaded).collect()),
        paths: path::PRESETS.iter().map(|p| Named { name: p.name, text: p.text, about: p.about }).collect(),
        path_words: path::KEYS
            .iter()
            .map(|k| Named { name: k.name, text: k.example, about: k.about })
            .collect(),
        wires: WIRES.iter().map(|(wire, about)| Wire { name: wire.name(), about }).collect(),
        suites: suite::SUITES
            .iter()
            .map(|s| Suite { name: s.name, rows: (s.rows)().len(), about: s.about })
            .collect(),
    }
}

fn parameter((param, default, about): (&'static Param, String, &'static str)) -> Parameter {
    let unit = match param.kind {
        Kind::Count => "count",
        Kind::Gain => "ratio",
        Kind::Percent | Kind::Permille => "%",
        Kind::Micros | Kind::Millis => "time",
        Kind::Rate => "rate",
        Kind::Bytes => "size",
    };
    let (min, max) = (param.kind.show(param.min), param.kind.show(param.max));
    Parameter { name: param.name, unit, default, min, max, about }
}

fn loaded(l: kernel::Loaded) -> Loaded {
    Loaded {
        name: l.name,
        controller: l.controller,
        seconds: l.age.as_secs(),
        sockets: l.users,
        settings: l.settings,
        flows: l.counters.map(|c| c.flows),
    }
}
