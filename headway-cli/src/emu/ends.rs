//! The two ends of a path: devices, addresses, routes.
//!
//! Addresses come from 100.64.0.0/16, part of the range that RFC 6598 sets apart for carriers' NAT, which a host's own
//! network hardly ever uses. Path number `x` of a host has 100.64.x.1 at the far and 100.64.x.2 at the near end.
//!
//! Paths nest (`headway emu A -- headway emu B -- command`). A path that is made inside path `x` takes the next pair,
//! 100.64.x.3 and .4, and so on. Every near end forwards what comes from the paths inside it, and every far end routes all of
//! 100.64.x.0/24 into its path, so the innermost command reaches the outermost host.

use super::{EmuOptions, Far, Netns};
use crate::sys::net;
use crate::sys::tun::Tun;
use anyhow::{Context, Result, bail};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Name of the device in a namespace of ours.
pub const DEVICE: &str = "headway";
/// How many packets (of up to 64 KB) may wait in a device until the emulator reads them. Far more than it ever lets
/// wait, because the only queue that may drop is the one of the link.
const DEVICE_QUEUE: u32 = 10_000;
/// Pairs of addresses in one 100.64.x.0/24, and so how deep paths can nest.
const DEPTHS: u8 = 127;

/// Which addresses a path has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Number of the path on its host; the third byte of its IPv4 addresses.
    x: u8,
    /// How many paths it is inside of; 0 on the host.
    depth: u8,
}

impl Ends {
    pub fn near(&self) -> Ipv4Addr {
        Ipv4Addr::new(100, 64, self.x, 2 * self.depth + 2)
    }

    pub fn far(&self) -> Ipv4Addr {
        Ipv4Addr::new(100, 64, self.x, 2 * self.depth + 1)
    }

    pub fn near_ipv6(&self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd68, 0x6561, 0x6477, self.x.into(), self.depth.into(), 0, 0, 2)
    }

    pub fn far_ipv6(&self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd68, 0x6561, 0x6477, self.x.into(), self.depth.into(), 0, 0, 1)
    }

    /// Name of the far end's device in the caller's namespace.
    pub fn caller_device(&self) -> String {
        format!("{DEVICE}{}-{}", self.x, self.depth)
    }

    /// Makes the near end in the calling thread's namespace.
    pub fn make_near(&self, options: &EmuOptions) -> Result<Tun> {
        let pairs =
            [(self.near().into(), self.far().into()), (self.near_ipv6().into(), self.far_ipv6().into())];
        let tun = make(DEVICE, pairs, options)?;
        let everywhere: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        for to in everywhere.into_iter().filter(|to| to.is_ipv4() || has_ipv6(options)) {
            net::add_route(DEVICE, to, 0).context("cannot set the default route")?;
        }
        // A path inside this one will route 100.64.x.0/24 to itself: without routes of their own the addresses of the
        // paths around it would be sent inwards too.
        for outer in 1..=2 * self.depth {
            let outer = Ipv4Addr::new(100, 64, self.x, outer);
            net::add_route(DEVICE, outer.into(), 32).context("cannot set a route")?;
        }
        // Only paths inside this one need it. Where /proc/sys is read-only they reach no further than here.
        let _ = std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
        Ok(tun)
    }

    /// Makes the far end as device `name` in the calling thread's namespace.
    fn make_far(&self, name: &str, options: &EmuOptions) -> Result<Tun> {
        let pairs =
            [(self.far().into(), self.near().into()), (self.far_ipv6().into(), self.near_ipv6().into())];
        let tun = make(name, pairs, options)?;
        match net::add_route(name, Ipv4Addr::new(100, 64, self.x, 0).into(), 24) {
            // Another path that was made inside the same path has the route. Only paths inside this one would need it.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && self.depth > 0 => Ok(tun),
            done => done.context("cannot set a route").map(|()| tun),
        }
    }
}

/// Makes the far end where the options say.
pub fn make_far(options: &EmuOptions) -> Result<(Option<Netns>, Ends, Tun)> {
    if options.far == Far::Own {
        let ends = Ends { x: 0, depth: 0 };
        let (netns, tun) = Netns::with(|| ends.make_far(DEVICE, options))?;
        return Ok((Some(netns), ends, tun));
    }
    let used = net::ipv4_addresses().context("cannot list this host's addresses")?;
    // The device's name holds the addresses' numbers, and the kernel refuses a second device of the same name: two
    // paths that start at the same moment cannot take the same addresses.
    for ends in candidates(&used, net::has_interface(DEVICE)) {
        match ends.make_far(&ends.caller_device(), options) {
            Err(e) if is_taken(&e) => continue,
            tun => return Ok((None, ends, tun?)),
        }
    }
    bail!("no free address in 100.64.0.0/16\nhint: end some of the paths that are up")
}

/// Addresses that a path may take in a namespace where `used` are in use.
fn candidates(used: &[Ipv4Addr], is_inside_path: bool) -> Vec<Ends> {
    let taken = |x: u8| used.iter().map(|a| a.octets()).filter(move |o| o[..3] == [100, 64, x]).map(|o| o[3]);
    let outer = (0..=255).find(|x| is_inside_path && taken(*x).next().is_some());
    match outer {
        Some(x) => {
            let next = taken(x).max().map_or(0, |last| last.div_ceil(2));
            (next..DEPTHS).map(|depth| Ends { x, depth }).collect()
        }
        None => (0..=255).filter(|x| taken(*x).next().is_none()).map(|x| Ends { x, depth: 0 }).collect(),
    }
}

/// A device of that name, or a route to that network, is there already.
fn is_taken(error: &anyhow::Error) -> bool {
    let code = error.downcast_ref::<io::Error>().and_then(|e| e.raw_os_error());
    matches!(code, Some(libc::EBUSY | libc::EEXIST))
}

/// A device with its (local, peer) addresses, IPv4 and IPv6.
fn make(name: &str, pairs: [(IpAddr, IpAddr); 2], options: &EmuOptions) -> Result<Tun> {
    let tun = Tun::create(name, options.offload)
        .with_context(|| format!("cannot make TUN device `{name}` through /dev/net/tun"))?;
    let configure = || {
        net::set_mtu(name, options.mtu)?;
        net::set_queue_len(name, DEVICE_QUEUE)?;
        if has_ipv6(options) {
            net::quiet_ipv6(name)?;
        }
        net::set_up(name)?;
        let pairs = pairs.into_iter().filter(|(local, _)| local.is_ipv4() || has_ipv6(options));
        pairs.into_iter().try_for_each(|(local, peer)| net::add_address(name, local, peer))
    };
    configure().with_context(|| format!("cannot configure TUN device `{name}`"))?;
    Ok(tun)
}

/// Whether this kernel has IPv6 and this MTU is large enough for it (1280 bytes, RFC 8200).
fn has_ipv6(options: &EmuOptions) -> bool {
    options.mtu >= 1280 && net::has_ipv6()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_takes_the_first_free_network_or_the_next_pair_inside_a_path() {
        let address = |x, y| Ipv4Addr::new(100, 64, x, y);
        let lan = Ipv4Addr::new(192, 0, 2, 2);
        let first = |used: &[Ipv4Addr], inside| candidates(used, inside)[0];
        assert_eq!(first(&[lan], false), Ends { x: 0, depth: 0 });
        assert_eq!(
            first(&[lan, address(0, 77), address(1, 1), address(1, 2)], false),
            Ends { x: 2, depth: 0 }
        );
        assert_eq!(first(&[address(3, 2), address(3, 1)], true), Ends { x: 3, depth: 1 });
        let nested = first(&[address(3, 2), address(3, 1), address(3, 3), address(3, 4)], true);
        assert_eq!((nested.far(), nested.near()), (address(3, 5), address(3, 6)));
        assert!(candidates(&[address(3, 254)], true).is_empty());
    }
}
