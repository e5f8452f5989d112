//! Describes the machine as far as a reader must know it to judge what was measured on it. Nothing that is missing is
//! an error: a value that cannot be read is left out. `bench/env.rs` calls this for `env.json`, and
//! `cell/remote/far.rs` for the far machine.

use crate::sys::program;
use headway_kernel as kernel;
use serde_json::{Map, Value, json};
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

const SYSCTLS: [&str; 14] = [
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_wmem",
];

/// Describes the machine and the network card through which packets to `peer` leave it.
pub fn describe(peer: Option<Ipv4Addr>) -> Value {
    let mut all = json!({
        "kernel": kernel::release(),
        "cpu": cpu_model(),
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
        "iperf3": program::version("iperf3"),
        "iperf2": program::version("iperf"),
    });
    for key in SYSCTLS {
        let value = sysctl(key);
        if !value.is_empty() {
            all["sysctl"][key] = value.into();
        }
    }
    let cpu0 = Path::new("/sys/devices/system/cpu/cpu0/cpufreq");
    put_files(&mut all, cpu0, &[("governor", "scaling_governor"), ("frequency_driver", "scaling_driver")]);
    if let Some(version) = output("turbostat", &["--version"]) {
        all["turbostat"] = version.lines().next().unwrap_or_default().into();
    }
    if let Some(device) = peer.and_then(device_to) {
        all["nic"] = nic(&device);
    }
    all
}

/// The device through which the route to `peer` leaves; `None` without `ip` or without a route.
pub fn device_to(peer: Ipv4Addr) -> Option<String> {
    let route = json_output("ip", &["-j", "route", "get", &peer.to_string()])?;
    route[0]["dev"].as_str().map(String::from)
}

fn nic(device: &str) -> Value {
    let mut nic = json!({ "device": device });
    let links = json_output("ip", &["-j", "-d", "link", "show", "dev", device]).unwrap_or_default();
    let link = &links[0];
    for (name, value) in [
        ("kind", &link["linkinfo"]["info_kind"]),
        ("mtu", &link["mtu"]),
        ("queue_packets", &link["txqlen"]),
        ("address", &link["address"]),
    ] {
        if !value.is_null() {
            nic[name] = value.clone();
        }
    }
    let sys = Path::new("/sys/class/net").join(device);
    // `/sys/class/net` shows the devices of the network namespace in which it was mounted. From another namespace it
    // may show another device of the same name, so its index is compared.
    let index = fs::read_to_string(sys.join("ifindex")).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let is_its = index.is_some() && index == link["ifindex"].as_u64();
    if is_its {
        put_files(&mut nic, &sys, &[("speed_mbit", "speed"), ("duplex", "duplex")]);
        nic["steering"] = steering(&sys.join("queues"));
        nic["irq_affinity"] = irq_affinity(&sys.join("device/msi_irqs"), device);
    }
    if let Some(text) = output("ethtool", &["-i", device]) {
        nic["driver"] = Value::Object(pairs(&text, &["driver", "version", "firmware-version", "bus-info"]));
    } else if let Some(driver) = fs::read_link(sys.join("device/driver")).ok().filter(|_| is_its) {
        nic["driver"] = driver.file_name().map(|n| n.to_string_lossy().into_owned()).into();
    }
    if let Some(text) = output("ethtool", &["-k", device]) {
        nic["offloads"] = offloads(&text).into();
    }
    if let Some(text) = output("ethtool", &["-c", device]) {
        nic["coalesce"] = Value::Object(pairs(&text, &["Adaptive RX", "rx-usecs", "tx-usecs"]));
    }
    if let Some(qdiscs) = json_output("tc", &["-j", "qdisc", "show", "dev", device]) {
        nic["qdisc"] = qdiscs;
    }
    nic
}

/// Which CPUs handle each queue of the card: receive and transmit packet steering (RPS, XPS).
fn steering(queues: &Path) -> Value {
    let mut all = Map::new();
    for entry in fs::read_dir(queues).into_iter().flatten().flatten() {
        let mut queue = json!({});
        put_files(
            &mut queue,
            &entry.path(),
            &[("rps_cpus", "rps_cpus"), ("rps_flows", "rps_flow_cnt"), ("xps_cpus", "xps_cpus")],
        );
        all.insert(entry.file_name().to_string_lossy().into_owned(), queue);
    }
    Value::Object(all)
}

/// The CPUs that may serve each interrupt of the card. The interrupts are those that the device lists or, if it lists
/// none, those that bear the card's name.
fn irq_affinity(msi: &Path, device: &str) -> Value {
    let mut numbers: Vec<String> = fs::read_dir(msi)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    if numbers.is_empty() {
        numbers = interrupts_named(&fs::read_to_string("/proc/interrupts").unwrap_or_default(), device);
    }
    let affinity = |number: String| {
        let cpus = fs::read_to_string(format!("/proc/irq/{number}/smp_affinity_list")).ok()?;
        Some((number, cpus.trim().into()))
    };
    Value::Object(numbers.into_iter().filter_map(affinity).collect())
}

/// The numbers of the rows of `/proc/interrupts` whose action is `device` or a queue of it (`eth0-rx-1`).
fn interrupts_named(table: &str, device: &str) -> Vec<String> {
    let is_of = |word: &str| {
        word.strip_prefix(device).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    let number = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        rest.split_whitespace().any(is_of).then(|| number.trim().to_string())
    };
    table.lines().filter_map(number).collect()
}

/// The names of the features that `ethtool -k` shows as switched on.
fn offloads(text: &str) -> String {
    let on = |line: &str| {
        let (name, state) = line.split_once(": ")?;
        state.starts_with("on").then(|| name.trim().to_string())
    };
    text.lines().filter_map(on).collect::<Vec<_>>().join(" ")
}

/// The lines `name: value` of a text whose name is in `names`.
fn pairs(text: &str, names: &[&str]) -> Map<String, Value> {
    let pair = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        names.contains(&name).then(|| (name.to_string(), value.trim().into()))
    };
    text.lines().filter_map(pair).collect()
}

/// Adds the content of files that hold one line each. A file that the kernel does not have is left out.
fn put_files(to: &mut Value, dir: &Path, files: &[(&str, &str)]) {
    for (name, file) in files {
        if let Ok(text) = fs::read_to_string(dir.join(file)) {
            to[*name] = text.trim().into();
        }
    }
}

fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("model name"));
    line.and_then(|l| l.split_once(": ")).map(|(_, m)| m.to_string()).unwrap_or_default()
}

/// The value of a sysctl; empty where the kernel has none of that name.
pub fn sysctl(key: &str) -> String {
    let file = format!("/proc/sys/{}", key.replace('.', "/"));
    fs::read_to_string(file).unwrap_or_default().trim().replace('\t', " ")
}

/// What a tool prints; `None` where it is not installed or fails.
fn output(tool: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(tool).args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn json_output(tool: &str, arguments: &[&str]) -> Option<Value> {
    serde_json::from_str(&output(tool, arguments)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_is_told_from_what_is_off() {
        let text = "Features for eth0:\nrx-checksumming: on [fixed]\ntcp-segmentation-offload: on\n\ttx-tcp-segmentation: on\n\
                    generic-receive-offload: off\n";
        assert_eq!(offloads(text), "rx-checksumming tcp-segmentation-offload tx-tcp-segmentation");
        let driver = pairs("driver: mlx5_core\nversion: 6.12\nsupports-test: yes\n", &["driver", "version"]);
        assert_eq!(Value::Object(driver), json!({ "driver": "mlx5_core", "version": "6.12" }));
    }

    #[test]
    fn interrupts_of_a_card_bear_its_name() {
        let table = "           CPU0 CPU1\n 24:  1 2 PCI-MSI 1 eth0-rx-0\n 25:  0 0 PCI-MSI 2 eth01\n 26:  5 5 PCI-MSI 3 eth0\nNMI: 0 0\n";
        assert_eq!(interrupts_named(table, "eth0"), ["24", "26"]);
    }

    #[test]
    fn a_device_that_is_not_there_is_no_error() {
        let nic = nic("no-such-device");
        assert_eq!(nic["device"], "no-such-device");
        assert!(nic["speed_mbit"].is_null() && nic["steering"].is_null() && nic["qdisc"].is_null(), "{nic}");
    }

    #[test]
    fn each_queue_says_which_cpus_handle_it() {
        let dir = std::env::temp_dir().join(format!("headway-queues-{}", std::process::id()));
        fs::create_dir_all(dir.join("rx-0")).unwrap();
        fs::create_dir_all(dir.join("tx-0")).unwrap();
        fs::write(dir.join("rx-0/rps_cpus"), "3\n").unwrap();
        fs::write(dir.join("rx-0/rps_flow_cnt"), "0\n").unwrap();
        fs::write(dir.join("tx-0/xps_cpus"), "1\n").unwrap();
        let seen = steering(&dir);
        fs::remove_dir_all(&dir).unwrap();
        let expected = json!({ "rx-0": { "rps_cpus": "3", "rps_flows": "0" }, "tx-0": { "xps_cpus": "1" } });
        assert_eq!(seen, expected);
    }

    #[test]
    fn this_machine_has_a_kernel_and_sysctls() {
        let all = describe(None);
        assert_eq!(all["kernel"], kernel::release());
        assert!(all["sysctl"]["net.ipv4.tcp_congestion_control"].is_string() && all["nic"].is_null());
    }
}
