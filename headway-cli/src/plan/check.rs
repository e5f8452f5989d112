//! Can the plan run? Every check that needs no more than the plan and the list of controllers that the machine knows,
//! so that a wrong argument is refused before anything is made or opened.

use crate::plan::place::Place;
use crate::plan::tool::Tool;
use crate::plan::traffic::{self, HostLoad, Traffic};
use crate::plan::transport::Transport;
use crate::plan::wire::Wire;
use crate::plan::{Label, PathEntry, Plan, server};
use anyhow::{Context, Result, bail, ensure};
use headway_cc::names::choices;

/// The controllers that there are outside of this program's Rust code. The caller gathers them from the machine,
/// because a plan itself asks nothing of it.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Ours that a kernel can load.
    pub attachable: Vec<String>,
    /// Those that the running kernel has now.
    pub registered: Vec<String>,
    /// Those that every kernel of the lab has.
    pub built_in: Vec<String>,
}

impl Plan {
    /// Fails unless the plan's place can run its controllers and its traffic with this version of the program.
    pub fn check(&self, known: &Known) -> Result<()> {
        check_remote(self)?;
        for (i, cc) in self.ccs.iter().enumerate() {
            cc.check()?;
            check_controller(&self.place, self.transport, cc.controller(), known)?;
            check_host(self, cc)?;
            ensure!(!self.ccs[..i].contains(cc), "controller `{cc}` is given twice");
            let same = self.ccs[..i].iter().find(|other| other.as_str() == cc.as_str());
            ensure!(
                same.is_none(),
                "two candidates would both be called `{cc}` in tables: `{}` and `{}`\nhint: give one of the files another name",
                same.map_or("", Label::whole),
                cc.whole()
            );
        }
        for index in 0..self.paths.len() {
            let (path, traffic) = (&self.paths[index], self.traffic(index));
            check_transport(&self.place, self.transport, traffic)?;
            check_traffic(&self.place, traffic, path.wire())?;
            check_wire(self, path, traffic)?;
            if let Some(rival) = traffic.against.as_ref().filter(|rival| rival.cc != traffic::SAME) {
                check_controller(&self.place, self.transport, &rival.cc, known)?;
            }
            check_tool(self.tool, &self.place, self.transport, traffic)?;
        }
        for (flag, is_given) in [
            ("--kernel", !self.kernel.is_empty() || self.paths.iter().any(|path| !path.kernel.is_empty())),
            ("--modules", !self.modules.is_empty()),
        ] {
            ensure!(
                !is_given || self.place == Place::Lab,
                "{flag} names a kernel of the lab, and --in {} has none to choose\nhint: --in lab, or leave it out",
                self.place
            );
        }
        let is_traced = |cc: &Label| {
            let (name, _) = headway_cc::cc::name_and_settings(cc.controller());
            known.attachable.iter().any(|ours| ours == name)
        };
        ensure!(
            !self.trace || self.ccs.iter().any(is_traced),
            "--trace records our own controllers, and none of them is among {}\nhint: add one of {}, or leave --trace out",
            self.labels().collect::<Vec<_>>().join(", "),
            known.attachable.join(", ")
        );
        ensure!(
            !self.trace || self.traffics().all(|t| t.direction.is_forward()),
            "--trace records a sender on this machine\nhint: leave out --direction reverse"
        );
        Ok(())
    }
}

/// Can the place give the candidate the kernel and the settings that it names?
fn check_host(plan: &Plan, cc: &Label) -> Result<()> {
    if let Some(kernel) = cc.kernel() {
        ensure!(
            plan.place == Place::Lab,
            "`{cc}` names the kernel {kernel}, and --in {} has {}\nhint: --in lab runs each candidate on its own kernel",
            plan.place,
            if plan.place == Place::Sim { "none" } else { "the running one only" }
        );
    }
    ensure!(
        !cc.has_settings() || plan.place != Place::Sim,
        "`{cc}` changes a setting of a host, and the simulator has no hosts\nhint: --in lab, or here"
    );
    let is_forward = plan.traffics().all(|t| t.direction.is_forward());
    ensure!(
        !cc.has_settings() || is_forward,
        "`{cc}` changes a setting of the sender, which is the server with --direction reverse\n\
         hint: leave it out, or run the bench on the server's machine"
    );
    ensure!(
        cc.qdisc().is_none() || plan.remote.qdisc.is_empty(),
        "`{cc}` names a qdisc, and --fq asks for one, too\nhint: leave --fq out, and name `/qdisc=fq` where it is wanted"
    );
    Ok(())
}

/// Are the flags of a real path given with one, and can they be read?
fn check_remote(plan: &Plan) -> Result<()> {
    let remote = &plan.remote;
    let is_reverse = plan.traffics().any(|t| !t.direction.is_forward());
    if let Some(cc) = plan
        .ccs
        .iter()
        .find(|cc| cc.controller().contains(':'))
        .filter(|_| is_reverse && remote.ssh.is_empty())
    {
        bail!("`{cc}` cannot be set at a server\nhint: --ssh HOST can, or leave out --direction reverse");
    }
    if let Place::Remote(hosts) = &plan.place {
        server::parse_all(hosts, plan.tool).with_context(|| format!("`--in remote {hosts}`"))?;
        ensure!(
            remote.ssh.is_empty() || !hosts.contains(','),
            "--ssh asks one server's machine, and `--in remote {hosts}` names several"
        );
        let is_word = !remote.ssh.starts_with('-') && !remote.ssh.contains(char::is_whitespace);
        ensure!(is_word, "`--ssh {}` is no [USER@]HOST", remote.ssh);
        if !remote.probe.is_empty() {
            server::parse(&remote.probe, plan.tool).with_context(|| format!("`--probe {}`", remote.probe))?;
        }
        return Ok(());
    }
    for (flag, value) in [("--probe", &remote.probe), ("--fq", &remote.qdisc), ("--ssh", &remote.ssh)] {
        ensure!(value.is_empty(), "{flag} is for a real path\nhint: --in remote HOST");
    }
    Ok(())
}

/// Streams of one QUIC connection share its controller, pacing and packet size, so whatever is set for each TCP flow
/// by itself has no meaning there.
fn check_transport(place: &Place, transport: Transport, traffic: &Traffic) -> Result<()> {
    if transport.is_tcp() {
        return Ok(());
    }
    ensure!(
        !place.is_remote(),
        "--transport {transport} needs a far end of its own, and an iperf3 server is none\nhint: --in sim, lab or here"
    );
    for (flag, is_given) in [
        ("--against", traffic.against.is_some()),
        ("--pacing", traffic.pacing_bps.is_some()),
        ("--stagger", traffic.stagger_ms > 0),
        ("--mtu", !traffic::is_usual_mtu(&traffic.mtu)),
    ] {
        ensure!(!is_given, "{flag} needs TCP flows\nhint: leave --transport {transport} out");
    }
    Ok(())
}

/// Can another load generator than iperf3 do what the traffic asks for?
fn check_tool(tool: Tool, place: &Place, transport: Transport, t: &Traffic) -> Result<()> {
    if tool.is_usual() {
        return Ok(());
    }
    ensure!(
        !place.is_virtual(),
        "--tool {tool}: sim and lab make their own streams\nhint: --in here or remote HOST"
    );
    ensure!(transport.is_tcp(), "--tool {tool} speaks no QUIC\nhint: leave --transport {transport} out");
    ensure!(
        !t.pattern.is_pausing() && t.stagger_ms == 0,
        "--tool {tool} cannot pause or wait\nhint: leave it out, --on-off and --stagger make their own streams"
    );
    ensure!(
        t.direction.is_forward(),
        "--tool {tool}: an iperf 2 server does not say with which controller it sends\nhint: leave out --direction reverse"
    );
    Ok(())
}

/// Does the place have the wire, and the wire what the traffic asks for?
fn check_wire(plan: &Plan, path: &PathEntry, t: &Traffic) -> Result<()> {
    let Some(wire) = path.wire() else {
        if let Some(load) = t.host_load {
            bail!(
                "{} measures hosts and not a path\nhint: --path loopback, veth, virtio or e1000",
                load.flags().trim_start()
            );
        }
        return match plan.ccs.iter().find(|cc| cc.device_settings().next().is_some()) {
            Some(cc) => bail!(
                "`{cc}` sets up a network card, and `{}` has none\nhint: --path virtio or e1000, --in lab",
                path.name
            ),
            None => Ok(()),
        };
    };
    ensure!(
        wire.is_in(&plan.place),
        "--in {} has no wire `{wire}`\nhint: --in lab{}",
        plan.place,
        if wire.nic().is_none() { ", or here" } else { ", with a kernel that `headway kernel build` made" }
    );
    ensure!(
        plan.transport.is_tcp(),
        "a wire carries TCP and UDP\nhint: leave --transport {} out",
        plan.transport
    );
    for (flag, is_given) in [
        ("--against", t.against.is_some()),
        ("--stagger", t.stagger_ms > 0),
        ("--messages", t.messages.is_some()),
        ("--mtu", !traffic::is_usual_mtu(&t.mtu)),
        ("--trace", plan.trace),
        ("--tool", !plan.tool.is_usual()),
    ] {
        ensure!(!is_given, "{flag} is for an emulated path, and `{wire}` is a wire\nhint: leave it out");
    }
    if let Some(HostLoad::Flood { bytes }) = t.host_load {
        ensure!((1..=1472).contains(&bytes), "--flood takes 1 to 1472 bytes, what one packet carries");
    }
    for cc in &plan.ccs {
        ensure!(
            cc.device_settings().next().is_none() || wire.nic().is_some(),
            "`{cc}` sets up a network card, and `{wire}` has none\nhint: --path virtio or e1000"
        );
        ensure!(
            cc.qdisc().is_none() || wire != Wire::Loopback,
            "`{cc}` names a qdisc, and a host that sends to itself uses none\nhint: --path veth"
        );
    }
    Ok(())
}

/// Are the values of the traffic in their ranges, and can the place do what they ask for?
fn check_traffic(place: &Place, t: &Traffic, wire: Option<Wire>) -> Result<()> {
    t.check()?;
    if let Some(messages) = &t.messages {
        ensure!(
            messages.max_bytes + headway_cc::messages::HEADER_BYTES <= t.mtu,
            "messages of {} bytes do not fit --mtu {}",
            messages.max_bytes,
            t.mtu
        );
    }
    for (flag, is_given) in [
        ("--against", t.against.is_some()),
        ("--messages", t.messages.is_some()),
        ("--mtu", !traffic::is_usual_mtu(&t.mtu)),
        ("--on-off", t.pattern.is_pausing()),
        ("--stagger", t.stagger_ms > 0),
    ] {
        ensure!(
            !(is_given && place.is_remote()),
            "{flag} needs an emulated path\nhint: --in sim, lab or here"
        );
    }
    ensure!(
        t.cpu_load_percent == 0 || !place.is_virtual() || wire.is_some(),
        "--cpu-load needs a real clock: an emulated path's virtual time does not feel a busy CPU\nhint: --in here or remote HOST"
    );
    let is_reverse = !t.direction.is_forward();
    ensure!(
        place.is_remote() || !is_reverse,
        "--direction reverse needs a real path: an emulated one is the same with its ends exchanged\n\
         hint: write the path as the data meets it, `up=RATE` is the way back; or --in remote HOST"
    );
    ensure!(
        !is_reverse || t.pacing_bps.is_none(),
        "--pacing limits a sender on this machine: iperf3 before 3.17 does not pass it on to a server\n\
         hint: leave out --direction reverse"
    );
    Ok(())
}

/// Is this a controller that the place can run, with settings that it has?
pub fn check_controller(place: &Place, transport: Transport, cc: &str, known: &Known) -> Result<()> {
    let (name, settings) = headway_cc::cc::name_and_settings(cc);
    let there_are = match place {
        _ if !transport.is_tcp() => transport.controllers(),
        Place::Sim => transport.controllers(),
        Place::Lab => [&known.attachable[..], &known.built_in].concat(),
        Place::Here | Place::Remote(_) => [&known.attachable[..], &known.registered].concat(),
    };
    let over = if transport.is_tcp() { String::new() } else { format!(" --transport {transport}") };
    ensure!(
        there_are.iter().any(|k| k == name),
        "unknown controller `{name}` for --in {place}{over}\nhint: {}",
        choices(name, &there_are.iter().map(|k| k.as_ref()).collect::<Vec<&str>>())
    );
    if name.len() < cc.len() {
        let table = headway_cc::cc::entry(name).and_then(|e| e.params);
        let table =
            table.with_context(|| format!("`{name}` has no parameters to set\nhint: `--cc {name}`"))?;
        table.with(settings).with_context(|| format!("cannot set `{cc}`"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::matrix::Axes;
    use crate::plan::server::RemoteOptions;
    use crate::plan::{Label, Request};

    /// A plan of one candidate on one path, which `change` alters, held against what is known.
    fn checked(
        place: Place,
        cc: &str,
        path: &str,
        known: &Known,
        change: &dyn Fn(&mut Request),
    ) -> Result<()> {
        let mut request = Request {
            place,
            ccs: vec![Label::from(cc)],
            draws: None,
            paths: vec![path.into()],
            suite: None,
            blocks: Some(1),
            transport: Transport::Tcp,
            tool: Tool::default(),
            traffic: Traffic::bulk(1),
            axes: Axes::default(),
            has_warmup: false,
            seed: 1,
            trace: false,
            modules: String::new(),
            remote: RemoteOptions::default(),
        };
        change(&mut request);
        request.plan()?.check(known)
    }

    fn as_it_is(_: &mut Request) {}

    #[test]
    fn a_place_has_the_controllers_that_are_known_there() {
        let known = Known {
            attachable: vec!["bbr3".into()],
            registered: vec!["vegas".into()],
            built_in: vec!["reno".into()],
        };
        let accepts = |place: Place, cc| checked(place, cc, "clean", &known, &as_it_is).is_ok();
        assert!(accepts(Place::Here, "vegas#2") && accepts(Place::Here, "bbr3:up_pacing_gain=1.1"));
        assert!(accepts(Place::Lab, "reno") && accepts(Place::Sim, "cubic"));
        assert!(
            !accepts(Place::Here, "reno") && !accepts(Place::Lab, "vegas") && !accepts(Place::Sim, "reno")
        );
        assert!(!accepts(Place::Here, "vegas#x") && !accepts(Place::Here, "vegas:up_pacing_gain=1.1"));
        let error = checked(Place::Lab, "vegas", "clean", &known, &as_it_is).unwrap_err().to_string();
        assert_eq!(error, "unknown controller `vegas` for --in lab\nhint: there is bbr3, reno");
    }

    #[test]
    fn hosts_are_measured_on_wires_and_paths_are_not() {
        let known =
            Known { built_in: vec!["cubic".into()], registered: vec!["cubic".into()], ..Known::default() };
        let check = |place: Place, cc: &str, path: &str, change: &dyn Fn(&mut Request)| {
            checked(place, cc, path, &known, change).map_err(|e| e.to_string())
        };
        let flood = |bytes| move |r: &mut Request| r.traffic.host_load = Some(HostLoad::Flood { bytes });
        let is_busy = |r: &mut Request| r.axes.cpu_load_percent = vec![90];
        for (place, path) in [(Place::Lab, "e1000"), (Place::Lab, "loopback"), (Place::Here, "veth")] {
            check(place.clone(), "cubic", path, &flood(64)).unwrap();
            check(place, "cubic", path, &is_busy).unwrap();
        }
        check(Place::Lab, "cubic/device.threaded=1", "virtio", &as_it_is).unwrap();
        for (error, word) in [
            (check(Place::Sim, "cubic", "loopback", &as_it_is), "--in sim has no wire `loopback`"),
            (check(Place::Here, "cubic", "e1000", &as_it_is), "--in here has no wire `e1000`"),
            (check(Place::Lab, "cubic", "clean", &flood(64)), "--flood 64 measures hosts and not a path"),
            (check(Place::Lab, "cubic", "clean", &is_busy), "--cpu-load needs a real clock"),
            (check(Place::Lab, "cubic", "veth", &flood(1473)), "--flood takes 1 to 1472 bytes"),
            (check(Place::Lab, "cubic/device.threaded=1", "veth", &as_it_is), "`veth` has none"),
            (check(Place::Lab, "cubic/device.threaded=1", "clean", &as_it_is), "`clean` has none"),
            (check(Place::Lab, "cubic/qdisc=fq", "loopback", &as_it_is), "uses none"),
            (
                check(Place::Lab, "cubic", "veth", &|r| r.axes.mtu = vec![9000]),
                "--mtu is for an emulated path",
            ),
        ] {
            assert!(error.clone().is_err_and(|e| e.contains(word)), "{word}: {error:?}");
        }
    }
}
