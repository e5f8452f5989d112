//! Scopes: which connections a controller is for.
//!
//! | scope | connections | how the kernel is told |
//! | --- | --- | --- |
//! | default | those of this machine that choose nothing | the sysctl `tcp_congestion_control` |
//! | route | those over one route | the route's attribute `congctl` |
//! | cgroup | those of the processes in a cgroup, perhaps on some ports only | a sockops program on that cgroup |
//! | unit | those of a systemd unit, perhaps on some ports only | the same, attached by systemd at each start |
//! | port | those from or to some ports | a sockops program on the root cgroup |

use anyhow::{Context, Result, bail, ensure};
use headway_cc::rand::hash;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

/// Where the kernel's cgroups (of version 2) are usually.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Where they are on this machine, or where they usually are.
pub fn cgroups() -> PathBuf {
    cgroup_mount().unwrap_or_else(|| CGROUPS.into())
}

/// Where they are mounted: a hybrid of both versions has them in a folder below the usual one, and a container may have none.
pub fn cgroup_mount() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let words = mounts.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut of_version_2 =
        words.filter(|w| w.get(2) == Some(&"cgroup2")).filter_map(|w| w.get(1).map(PathBuf::from));
    of_version_2.next()
}

/// More ranges of ports than this a sockops program of ours does not hold.
const MOST_RANGES: usize = 16;

/// Which connections. The text of one ([`fmt::Display`]) names it in messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    Default,
    Route(Prefix),
    /// The path below [`cgroups`], without a slash at either end.
    Cgroup(String, Ports),
    Unit(String, Ports),
    Port(Ports),
}

/// Ranges of ports, both ends included; none stands for every port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ports(pub Vec<(u16, u16)>);

/// The destinations of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    pub network: IpAddr,
    pub bits: u8,
}

/// A scope as a table of the file in `/etc/headway/enabled.d` has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    default: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    route: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ports: Vec<String>,
}

impl Table {
    pub fn of(scope: &Scope) -> Table {
        let mut table = Table::default();
        match scope {
            Scope::Default => table.default = true,
            Scope::Route(prefix) => table.route = Some(prefix.to_string()),
            Scope::Cgroup(path, _) => table.cgroup = Some(path.clone()),
            Scope::Unit(unit, _) => table.unit = Some(unit.clone()),
            Scope::Port(_) => {}
        }
        table.ports = scope.ports().texts();
        table
    }

    /// The scope that it says, once it is known to say exactly one.
    pub fn scope(&self) -> Result<Scope> {
        let ports = Ports::of(&self.ports)?;
        let named = [self.default, self.route.is_some(), self.cgroup.is_some(), self.unit.is_some()];
        let count = named.iter().filter(|n| **n).count();
        ensure!(
            count <= 1,
            "a scope is one of default, route, cgroup and unit, not several\nhint: write a `[[scope]]` for each"
        );
        if let Some(route) = &self.route {
            ensure!(ports.0.is_empty(), "a route has no ports");
            return Ok(Scope::Route(route.parse()?));
        }
        if self.default {
            ensure!(
                ports.0.is_empty(),
                "the default has no ports\nhint: leave out `default` to have a scope of ports"
            );
            return Ok(Scope::Default);
        }
        match (&self.cgroup, &self.unit) {
            (Some(path), _) => Ok(Scope::Cgroup(cgroup(path)?, ports)),
            (_, Some(name)) => Ok(Scope::Unit(unit(name)?, ports)),
            _ if !ports.0.is_empty() => Ok(Scope::Port(ports)),
            _ => {
                bail!("a scope says nothing\nhint: it needs `default`, `route`, `cgroup`, `unit` or `ports`")
            }
        }
    }
}

impl Scope {
    pub fn ports(&self) -> &Ports {
        static NONE: Ports = Ports(Vec::new());
        match self {
            Scope::Cgroup(_, ports) | Scope::Unit(_, ports) | Scope::Port(ports) => ports,
            Scope::Default | Scope::Route(_) => &NONE,
        }
    }

    /// The name of what is kept in the BPF file system for this scope of the controller `name`. That takes no dots and
    /// no slashes, hence a number in the place of the scope's text.
    pub fn id(&self, name: &str) -> String {
        let number = self.to_string().bytes().fold(0, |sum, byte| hash(sum, byte.into()));
        format!("{name}-{:08x}", number as u32)
    }

    /// Why two scopes cannot have different controllers, if they cannot: some connection would be in both, and which
    /// of the two it got would hang on the order in which the kernel runs the programs.
    pub fn contradicts(&self, other: &Scope) -> bool {
        match (self, other) {
            (Scope::Default, Scope::Default) => true,
            (Scope::Route(a), Scope::Route(b)) => a == b,
            (Scope::Default | Scope::Route(_), _) | (_, Scope::Default | Scope::Route(_)) => false,
            (a, b) => a.ports().overlap(b.ports()) && a.processes_overlap(b),
        }
    }

    fn processes_overlap(&self, other: &Scope) -> bool {
        match (self, other) {
            (Scope::Unit(a, _), Scope::Unit(b, _)) => a == b,
            (Scope::Cgroup(a, _), Scope::Cgroup(b, _)) => is_below(a, b) || is_below(b, a),
            (Scope::Cgroup(path, _), Scope::Unit(unit, _))
            | (Scope::Unit(unit, _), Scope::Cgroup(path, _)) => {
                is_below(&usual_cgroup(unit), path) || is_below(path, &usual_cgroup(unit))
            }
            _ => true,
        }
    }
}

/// Where systemd puts a unit of the system that names no slice of its own.
pub fn usual_cgroup(unit: &str) -> String {
    match unit.ends_with(".slice") {
        true => unit.to_string(),
        false => format!("system.slice/{unit}"),
    }
}

fn is_below(path: &str, above: &str) -> bool {
    above.is_empty() || path == above || path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Default => f.write_str("default"),
            Scope::Route(prefix) => write!(f, "route {prefix}"),
            Scope::Cgroup(path, ports) => write!(f, "cgroup /{path}{}", ports.behind()),
            Scope::Unit(unit, ports) => write!(f, "unit {unit}{}", ports.behind()),
            Scope::Port(ports) => f.write_str(ports.behind().trim_start()),
        }
    }
}

impl Ports {
    /// Reads `443` and `8000-8010`.
    pub fn of<S: AsRef<str>>(texts: &[S]) -> Result<Ports> {
        ensure!(texts.len() <= MOST_RANGES, "more than {MOST_RANGES} ranges of ports for one scope");
        let ranges = texts.iter().map(|text| range(text.as_ref())).collect::<Result<Vec<_>>>()?;
        Ok(Ports(ranges))
    }

    fn texts(&self) -> Vec<String> {
        let text = |(first, last): &(u16, u16)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        self.0.iter().map(text).collect()
    }

    fn behind(&self) -> String {
        match self.0.len() {
            0 => String::new(),
            1 if self.0[0].0 == self.0[0].1 => format!(" port {}", self.texts()[0]),
            _ => format!(" ports {}", self.texts().join(",")),
        }
    }

    fn overlap(&self, other: &Ports) -> bool {
        let all = |ports: &Ports| ports.0.is_empty();
        let meet = |a: &(u16, u16)| other.0.iter().any(|b| a.0 <= b.1 && b.0 <= a.1);
        all(self) || all(other) || self.0.iter().any(meet)
    }
}

fn range(text: &str) -> Result<(u16, u16)> {
    let number = |t: &str| t.trim().parse::<u16>().ok().filter(|n| *n > 0);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let wrong = || format!("`{text}` is no port and no range of ports\nhint: write 443 or 8000-8010");
    let (first, last) = (number(first).with_context(wrong)?, number(last).with_context(wrong)?);
    ensure!(first <= last, "the ports {first}-{last} run backwards\nhint: write {last}-{first}");
    Ok((first, last))
}

/// A path below [`cgroups`], or one that begins there.
pub fn cgroup(text: &str) -> Result<String> {
    let mount = cgroups();
    let below = text.strip_prefix(&*mount.to_string_lossy()).unwrap_or(text).trim_matches('/');
    ensure!(
        !below.is_empty(),
        "the root cgroup holds every process\nhint: `--default` is for all connections that choose nothing"
    );
    ensure!(
        below.split('/').all(|part| !part.is_empty() && part != "." && part != ".."),
        "`{text}` is no path of a cgroup\nhint: write it as below {}, such as system.slice/nginx.service",
        mount.display()
    );
    Ok(below.to_string())
}

/// Kinds of units that have a cgroup of their own.
const KINDS: [&str; 5] = ["service", "slice", "scope", "socket", "mount"];

/// A unit's name; `nginx` means `nginx.service`, as for systemctl.
pub fn unit(text: &str) -> Result<String> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    ensure!(!text.is_empty() && text.chars().all(is_fine), "`{text}` cannot name a systemd unit");
    let named = text.rsplit_once('.').is_some_and(|(_, kind)| KINDS.contains(&kind));
    Ok(if named { text.to_string() } else { format!("{text}.service") })
}

impl FromStr for Prefix {
    type Err = anyhow::Error;

    /// Reads `10.0.0.0/8`, `2001:db8::/32`, an address alone, and `default`, which is IPv4's.
    fn from_str(text: &str) -> Result<Prefix> {
        if text == "default" {
            return Ok(Prefix { network: Ipv4Addr::UNSPECIFIED.into(), bits: 0 });
        }
        let wrong = || {
            format!(
                "`{text}` is no destination of a route\nhint: write it as `ip route` shows it: 192.0.2.0/24, 2001:db8::/32, \
                 or default for IPv4 and ::/0 for IPv6"
            )
        };
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let network: IpAddr = address.parse().ok().with_context(wrong)?;
        let most = if network.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |b| b.parse().ok()).filter(|b| *b <= most).with_context(wrong)?;
        let prefix = Prefix { network, bits };
        ensure!(
            prefix.masked() == network,
            "`{text}` has bits behind its prefix\nhint: write {}/{bits}",
            prefix.masked()
        );
        Ok(prefix)
    }
}

impl Prefix {
    /// Whether an address is in it.
    pub fn has(&self, address: IpAddr) -> bool {
        let other = Prefix { network: address, bits: self.bits };
        address.is_ipv4() == self.network.is_ipv4() && other.masked() == self.network
    }

    fn masked(&self) -> IpAddr {
        match self.network {
            IpAddr::V4(a) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                Ipv4Addr::from(u32::from(a) & mask).into()
            }
            IpAddr::V6(a) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                Ipv6Addr::from(u128::from(a) & mask).into()
            }
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.network, self.bits) {
            (IpAddr::V4(_), 0) => f.write_str("default"),
            (network, bits) => write!(f, "{network}/{bits}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(text: &str) -> Scope {
        Scope::Port(Ports::of(&text.split(',').collect::<Vec<_>>()).unwrap())
    }

    fn in_cgroup(path: &str, ports: &[&str]) -> Scope {
        Scope::Cgroup(cgroup(path).unwrap(), Ports::of(ports).unwrap())
    }

    fn in_unit(name: &str, ports: &[&str]) -> Scope {
        Scope::Unit(unit(name).unwrap(), Ports::of(ports).unwrap())
    }

    #[test]
    fn a_scope_goes_through_its_table_and_back() {
        let scopes = [
            (Scope::Default, "default"),
            (Scope::Route("10.0.0.0/8".parse().unwrap()), "route 10.0.0.0/8"),
            (Scope::Route("default".parse().unwrap()), "route default"),
            (Scope::Route("::/0".parse().unwrap()), "route ::/0"),
            (in_cgroup("/a/b/", &["443"]), "cgroup /a/b port 443"),
            (in_unit("nginx", &[]), "unit nginx.service"),
            (in_unit("getty@tty1.service", &["1-2", "9"]), "unit getty@tty1.service ports 1-2,9"),
            (port("8000-8010"), "ports 8000-8010"),
            (port("443"), "port 443"),
        ];
        for (scope, text) in &scopes {
            assert_eq!(scope.to_string(), *text);
            assert_eq!(Table::of(scope).scope().unwrap(), *scope);
        }
        let ids: std::collections::BTreeSet<String> = scopes.iter().map(|(s, _)| s.id("bbr3")).collect();
        assert!(ids.len() == scopes.len() && ids.iter().all(|id| id.len() == 13), "{ids:?}");
    }

    #[test]
    fn what_is_wrong_has_its_sentence() {
        let said = |e: Result<()>| e.unwrap_err().to_string();
        let ports = |t: &str| said(Ports::of(&[t]).map(drop));
        assert!(
            ports("9-3").starts_with("the ports 3-9 run backwards")
                || ports("9-3").contains("hint: write 3-9")
        );
        for text in ["", "0", "65536", "-1", "a", "1-", "1-2-3"] {
            assert!(ports(text).contains("is no port"), "{text}");
        }
        let prefix = |t: &str| said(t.parse::<Prefix>().map(drop));
        assert!(prefix("10.0.0.1/8").ends_with("hint: write 10.0.0.0/8"));
        assert!(prefix("2001:db8::1/32").ends_with("hint: write 2001:db8::/32"));
        for text in ["", "10.0.0.0/33", "10/8", "::/129", "a/b", "1.2.3.4/"] {
            assert!(prefix(text).contains("is no destination"), "{text}");
        }
        assert!(said(cgroup("/").map(drop)).contains("every process"));
        assert!(said(cgroup("a/../b").map(drop)).contains("is no path"));
        assert!(said(unit("a b").map(drop)).contains("cannot name") && unit("a/b").is_err());
        let table = |text: &str| said(toml::from_str::<Table>(text).unwrap().scope().map(drop));
        assert!(table("").contains("says nothing"));
        assert!(table("default = true\nunit = \"a\"").contains("not several"));
        assert!(table("default = true\nports = [\"1\"]").contains("no ports"));
        assert!(table("route = \"default\"\nports = [\"1\"]").contains("no ports"));
        assert!(toml::from_str::<Table>("color = 1").is_err());
    }

    #[test]
    fn scopes_with_a_connection_in_common_contradict() {
        let nested = [in_cgroup("a", &[]), in_cgroup("a/b", &[]), in_cgroup("ab", &[])];
        assert!(nested[0].contradicts(&nested[1]) && nested[1].contradicts(&nested[0]));
        assert!(!nested[0].contradicts(&nested[2]));
        assert!(Scope::Default.contradicts(&Scope::Default) && !Scope::Default.contradicts(&port("1")));
        assert!(port("1-5").contradicts(&port("5-9")) && !port("1-5").contradicts(&port("6")));
        assert!(port("1").contradicts(&in_unit("a", &[])) && !port("1").contradicts(&in_unit("a", &["2"])));
        assert!(in_unit("a", &[]).contradicts(&in_cgroup("system.slice", &[])));
        assert!(in_unit("a", &[]).contradicts(&in_cgroup("system.slice/a.service/x", &[])));
        assert!(!in_unit("a", &[]).contradicts(&in_unit("b", &[])));
        let route = |t: &str| Scope::Route(t.parse().unwrap());
        assert!(
            route("default").contradicts(&route("0.0.0.0/0"))
                && !route("::/0").contradicts(&route("default"))
        );
    }
}
