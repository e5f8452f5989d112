//! Routes that exist: which congestion control each asks for, and asking for another without changing anything else.
//!
//! A route is kept as the bytes in which the kernel reports it and is sent back with one attribute changed, so what
//! DHCP, a routing daemon or an administrator has put into it stays, also what this program knows nothing of.

use super::netlink::{ask, attributes, put, word};
use std::io;
use std::net::IpAddr;

/// Bytes of `struct rtmsg`.
const MESSAGE: usize = 12;

/// Attributes inside RTA_METRICS (`linux/rtnetlink.h`), which libc does not name.
const RTAX_CC_ALGO: u16 = 16;

/// Attributes of a route that libc does not name.
const RTA_CACHEINFO: u16 = 12;
const RTA_EXPIRES: u16 = 23;
const RTA_NH_ID: u16 = 30;

/// What a route with a nexthop object reports beside the object's number, and must not be told in a request.
const OF_NEXTHOP: [u16; 6] = [
    libc::RTA_OIF,
    libc::RTA_GATEWAY,
    libc::RTA_MULTIPATH,
    libc::RTA_VIA,
    libc::RTA_ENCAP,
    libc::RTA_ENCAP_TYPE,
];

/// `rtm_flags` that a request may have: what is reported beside them is the state of the device.
const ONLINK: u32 = 4;
const PERVASIVE: u32 = 2;

/// A flag of a reported route: it is a copy that the kernel made for one destination.
const CLONED: u32 = 0x200;

/// A route of the main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub network: IpAddr,
    pub bits: u8,
    /// The metric, by which several routes to one network are told apart.
    pub priority: u32,
    /// The congestion control that it asks for.
    pub cc: Option<String>,
    message: Vec<u8>,
}

impl Route {
    /// Makes the kernel replace it by one that asks for `cc`, or for none.
    pub fn set_cc(&self, cc: Option<&str>) -> io::Result<()> {
        let body = with_cc(&self.message, cc);
        let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_REPLACE;
        let answers = ask(libc::RTM_NEWROUTE, flags, &body)?;
        debug_assert!(answers.is_empty());
        Ok(())
    }
}

/// All unicast routes of the main table in the calling thread's namespace, IPv4 and IPv6.
pub fn routes() -> io::Result<Vec<Route>> {
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut body = vec![0; MESSAGE];
        body[0] = family as u8;
        match ask(libc::RTM_GETROUTE, libc::NLM_F_REQUEST | libc::NLM_F_DUMP, &body) {
            Ok(messages) => found.extend(messages.iter().filter_map(|m| parse(m))),
            // A kernel without IPv6.
            Err(e) if family == libc::AF_INET6 && e.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}

/// Reads `struct rtmsg` and what follows it; `None` for what is no unicast route of the main table.
fn parse(message: &[u8]) -> Option<Route> {
    let (family, bits, table, kind) =
        (*message.first()?, *message.get(1)?, *message.get(4)?, *message.get(7)?);
    let flags = u32::from_ne_bytes(message.get(8..MESSAGE)?.try_into().ok()?);
    let all = message.get(MESSAGE..).unwrap_or_default();
    let value = |wanted: u16| attributes(all).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let table = value(libc::RTA_TABLE).and_then(word).unwrap_or(table.into());
    if table != u32::from(libc::RT_TABLE_MAIN) || kind != libc::RTN_UNICAST || flags & CLONED != 0 {
        return None;
    }
    let network = match (value(libc::RTA_DST), i32::from(family)) {
        (Some(v), libc::AF_INET) => IpAddr::from(<[u8; 4]>::try_from(v).ok()?),
        (Some(v), libc::AF_INET6) => IpAddr::from(<[u8; 16]>::try_from(v).ok()?),
        (None, libc::AF_INET) => IpAddr::from([0; 4]),
        (None, libc::AF_INET6) => IpAddr::from([0; 16]),
        _ => return None,
    };
    let metrics = value(libc::RTA_METRICS).unwrap_or_default();
    let cc = attributes(metrics).find(|(kind, _)| *kind == RTAX_CC_ALGO);
    let cc = cc.map(|(_, v)| String::from_utf8_lossy(v).trim_end_matches('\0').to_string());
    let priority = value(libc::RTA_PRIORITY).and_then(word).unwrap_or(0);
    Some(Route { network, bits, priority, cc, message: message.to_vec() })
}

/// The request that replaces a reported route by itself with another congestion control.
fn with_cc(message: &[u8], cc: Option<&str>) -> Vec<u8> {
    let mut body = message[..MESSAGE].to_vec();
    let flags = u32::from_ne_bytes([body[8], body[9], body[10], body[11]]) & (ONLINK | PERVASIVE);
    body[8..MESSAGE].copy_from_slice(&flags.to_ne_bytes());
    let all: Vec<(u16, &[u8])> = attributes(&message[MESSAGE..]).collect();
    let has_nexthop = all.iter().any(|(kind, _)| *kind == RTA_NH_ID);
    let mut metrics = Vec::new();
    for (kind, value) in &all {
        match *kind {
            libc::RTA_METRICS => {
                let kept = attributes(value).filter(|(kind, _)| *kind != RTAX_CC_ALGO);
                kept.for_each(|(kind, value)| put(&mut metrics, kind, value));
            }
            RTA_CACHEINFO => {
                // The fourth word: in how many clock ticks, of which a second has 100, the route expires.
                let left = value.get(12..16).and_then(word).map_or(0, |ticks| ticks as i32);
                if left > 0 && body[0] == libc::AF_INET6 as u8 {
                    put(&mut body, RTA_EXPIRES, &(left as u32).div_ceil(100).to_ne_bytes());
                }
            }
            kind if has_nexthop && OF_NEXTHOP.contains(&kind) => {}
            kind => put(&mut body, kind, value),
        }
    }
    if let Some(cc) = cc {
        let mut name = cc.as_bytes().to_vec();
        name.push(0);
        put(&mut metrics, RTAX_CC_ALGO, &name);
    }
    if !metrics.is_empty() {
        put(&mut body, libc::RTA_METRICS, &metrics);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `ip route` would print it: `10.0.0.0/8 via 192.0.2.1 dev 7 proto dhcp metric 100 mtu 1400 congctl cubic`.
    fn reported(cc: Option<&str>) -> Vec<u8> {
        let mut message =
            vec![libc::AF_INET as u8, 8, 0, 0, libc::RT_TABLE_MAIN, 16, 0, libc::RTN_UNICAST, 16, 0, 0, 0];
        put(&mut message, libc::RTA_TABLE, &254_u32.to_ne_bytes());
        put(&mut message, libc::RTA_DST, &[10, 0, 0, 0]);
        put(&mut message, libc::RTA_PRIORITY, &100_u32.to_ne_bytes());
        put(&mut message, libc::RTA_GATEWAY, &[192, 0, 2, 1]);
        put(&mut message, libc::RTA_OIF, &7_u32.to_ne_bytes());
        let mut metrics = Vec::new();
        put(&mut metrics, 2, &1400_u32.to_ne_bytes());
        if let Some(cc) = cc {
            put(&mut metrics, RTAX_CC_ALGO, &[cc.as_bytes(), b"\0"].concat());
        }
        put(&mut message, libc::RTA_METRICS, &metrics);
        message
    }

    #[test]
    fn a_route_goes_back_with_another_control_and_nothing_else_changed() {
        let route = parse(&reported(Some("cubic"))).unwrap();
        assert_eq!((route.network.to_string().as_str(), route.bits, route.priority), ("10.0.0.0", 8, 100));
        assert_eq!(route.cc.as_deref(), Some("cubic"));
        let parsed = |cc| parse(&with_cc(&route.message, cc)).unwrap();
        assert_eq!(parsed(Some("bbr3_brake")).cc.as_deref(), Some("bbr3_brake"));
        let mut without = reported(None);
        without[8] = 0; // RTNH_F_LINKDOWN is no request's
        assert_eq!(parsed(None).message, without);
        assert_eq!(with_cc(&parsed(Some("bbr3")).message, None), without, "there and back");
    }

    #[test]
    fn other_tables_and_kinds_are_no_routes_of_ours() {
        let mut local = reported(None);
        local[7] = libc::RTN_LOCAL;
        assert!(parse(&local).is_none());
        let mut other = reported(None);
        other[16] = 100; // the table's attribute
        assert!(parse(&other).is_none());
        for cut in 0..MESSAGE {
            assert!(parse(&reported(None)[..cut]).is_none());
        }
        assert_eq!(parse(&reported(None)[..MESSAGE + 3]).unwrap().bits, 8);
    }

    #[test]
    fn a_nexthop_object_stands_alone_and_a_lifetime_stays() {
        let mut message = reported(None);
        put(&mut message, RTA_NH_ID, &9_u32.to_ne_bytes());
        let kinds: Vec<u16> = attributes(&with_cc(&message, None)[MESSAGE..]).map(|(kind, _)| kind).collect();
        assert!(
            kinds.contains(&RTA_NH_ID)
                && !kinds.contains(&libc::RTA_OIF)
                && !kinds.contains(&libc::RTA_GATEWAY)
        );
        let mut v6 =
            vec![libc::AF_INET6 as u8, 0, 0, 0, libc::RT_TABLE_MAIN, 9, 0, libc::RTN_UNICAST, 0, 0, 0, 0];
        put(&mut v6, libc::RTA_OIF, &7_u32.to_ne_bytes());
        let mut info = [0_u8; 32];
        info[12..16].copy_from_slice(&180_050_u32.to_ne_bytes());
        put(&mut v6, RTA_CACHEINFO, &info);
        let sent = with_cc(&v6, Some("bbr3"));
        let expires = attributes(&sent[MESSAGE..]).find(|(kind, _)| *kind == RTA_EXPIRES);
        assert_eq!(expires.and_then(|(_, v)| word(v)), Some(1801));
        assert_eq!(parse(&v6).unwrap().network.to_string(), "::");
    }
}
