//! Interfaces, addresses and routes of the calling thread's network namespace.
//!
//! They are made by the kernel's own interfaces (ioctls, netlink) and not with `ip`, because the lab's guest has no
//! programs but ours.

use super::netlink;
use rustix::fs::{Access, access};
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

/// Largest IP packet in bytes that the device takes.
pub fn set_mtu(name: &str, mtu: u32) -> io::Result<()> {
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_mtu = mtu as libc::c_int;
    interface_ioctl::<{ libc::SIOCSIFMTU as Opcode }>(&mut request)
}

/// Length of the device's transmit queue in packets.
pub fn set_queue_len(name: &str, packets: u32) -> io::Result<()> {
    let mut request = interface_request(name)?;
    // The kernel's `ifr_qlen` is the same int as `ifr_metric`.
    request.ifr_ifru.ifru_metric = packets as libc::c_int;
    interface_ioctl::<{ libc::SIOCSIFTXQLEN as Opcode }>(&mut request)
}

pub fn set_up(name: &str) -> io::Result<()> {
    let mut request = interface_request(name)?;
    interface_ioctl::<{ libc::SIOCGIFFLAGS as Opcode }>(&mut request)?;
    // SAFETY: the kernel has just filled in the flags.
    unsafe { request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short };
    interface_ioctl::<{ libc::SIOCSIFFLAGS as Opcode }>(&mut request)
}

/// Whether the interface is up and can send.
pub fn is_running(name: &str) -> io::Result<bool> {
    let mut request = interface_request(name)?;
    interface_ioctl::<{ libc::SIOCGIFFLAGS as Opcode }>(&mut request)?;
    // SAFETY: the kernel has just filled in the flags.
    Ok(unsafe { request.ifr_ifru.ifru_flags } & libc::IFF_RUNNING as libc::c_short != 0)
}

/// A request about interface `name`, otherwise zero; `ENAMETOOLONG` for a name that no interface can have.
pub(super) fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeroes is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn interface_ioctl<const REQUEST: Opcode>(request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the requests above read and write one `ifreq`.
    Ok(unsafe { ioctl(any_socket()?, Updater::<REQUEST, _>::new(request)) }?)
}

/// Requests about interfaces go through some socket of the namespace; which one does not matter.
fn any_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

/// IPv4 addresses in use in the calling thread's namespace, peers of point-to-point links included. By libc, because
/// rustix has no list of addresses.
pub fn ipv4_addresses() -> io::Result<Vec<Ipv4Addr>> {
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: on success `list` is a linked list that stays valid until freeifaddrs; addresses may be null.
    unsafe {
        if libc::getifaddrs(&mut list) != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut found = Vec::new();
        let mut entry = list;
        while let Some(e) = entry.as_ref() {
            for address in [e.ifa_addr, e.ifa_ifu] {
                if address.as_ref().is_some_and(|a| libc::c_int::from(a.sa_family) == libc::AF_INET) {
                    let inet = ptr::read_unaligned(address.cast::<libc::sockaddr_in>());
                    found.push(Ipv4Addr::from(u32::from_be(inet.sin_addr.s_addr)));
                }
            }
            entry = e.ifa_next;
        }
        libc::freeifaddrs(list);
        Ok(found)
    }
}

/// Gives a point-to-point interface its address and its peer's.
pub fn add_address(name: &str, local: IpAddr, peer: IpAddr) -> io::Result<()> {
    // Without duplicate address detection, which would keep an IPv6 address unusable for a second or more. On a
    // point-to-point link nobody else can have it.
    const NODAD: u8 = 0x02;
    let (family, local, peer) = (address_family(local), octets(local), octets(peer));
    let mut body = vec![family, 8 * local.len() as u8, NODAD, libc::RT_SCOPE_UNIVERSE];
    body.extend(interface_index(name)?.to_ne_bytes());
    netlink::put(&mut body, libc::IFA_LOCAL, &local);
    netlink::put(&mut body, libc::IFA_ADDRESS, &peer);
    create(libc::RTM_NEWADDR, &body)
}

/// Sends what goes to the network through `name`; of several routes the longest prefix wins.
pub fn add_route(name: &str, network: IpAddr, prefix_bits: u8) -> io::Result<()> {
    // The route's origin, as `ip route show` prints it: "boot", which means set by hand and not by a routing daemon.
    const PROTOCOL_BOOT: u8 = 3;
    let (table, scope, kind) = (libc::RT_TABLE_MAIN, libc::RT_SCOPE_LINK, libc::RTN_UNICAST);
    let mut body = vec![address_family(network), prefix_bits, 0, 0, table, PROTOCOL_BOOT, scope, kind];
    body.extend(0_u32.to_ne_bytes());
    if prefix_bits > 0 {
        netlink::put(&mut body, libc::RTA_DST, &octets(network));
    }
    netlink::put(&mut body, libc::RTA_OIF, &interface_index(name)?.to_ne_bytes());
    create(libc::RTM_NEWROUTE, &body)
}

/// A pair of veth devices of one name, one of them in the calling thread's namespace and the other in `far`.
pub fn make_veth(name: &str, far: BorrowedFd<'_>) -> io::Result<()> {
    /// `VETH_INFO_PEER` of linux/veth.h.
    const PEER: u16 = 1;
    let name = [name.as_bytes(), &[0]].concat();
    let mut peer = link_header(0).to_vec();
    netlink::put(&mut peer, libc::IFLA_IFNAME, &name);
    netlink::put(&mut peer, libc::IFLA_NET_NS_FD, &far.as_raw_fd().to_ne_bytes());
    let (mut data, mut info) = (Vec::new(), Vec::new());
    netlink::put(&mut data, PEER, &peer);
    netlink::put(&mut info, libc::IFLA_INFO_KIND, b"veth");
    netlink::put(&mut info, libc::IFLA_INFO_DATA, &data);
    let mut body = link_header(0).to_vec();
    netlink::put(&mut body, libc::IFLA_IFNAME, &name);
    netlink::put(&mut body, libc::IFLA_LINKINFO, &info);
    create(libc::RTM_NEWLINK, &body)
}

/// Moves a device to another namespace, where it is called `name`.
pub fn give(device: &str, to: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let mut body = link_header(interface_index(device)?).to_vec();
    netlink::put(&mut body, libc::IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
    netlink::put(&mut body, libc::IFLA_NET_NS_FD, &to.as_raw_fd().to_ne_bytes());
    netlink::ask(libc::RTM_NEWLINK, libc::NLM_F_REQUEST | libc::NLM_F_ACK, &body).map(drop)
}

/// `struct ifinfomsg` about the device with this number; 0 is one that is to be made.
fn link_header(index: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}

pub fn has_interface(name: &str) -> bool {
    interface_index(name).is_ok()
}

/// Whether the calling thread's namespace has IPv6, and lets us configure it.
pub fn has_ipv6() -> bool {
    access("/proc/sys/net/ipv6/conf/default/addr_gen_mode", Access::WRITE_OK).is_ok()
}

/// Keeps IPv6 from sending anything of its own accord (no link-local address, no router solicitations), because only
/// the measured traffic may use the path.
pub fn quiet_ipv6(name: &str) -> io::Result<()> {
    // The files belong to the calling thread's namespace.
    let dir = format!("/proc/sys/net/ipv6/conf/{name}");
    std::fs::write(format!("{dir}/addr_gen_mode"), "1")?;
    std::fs::write(format!("{dir}/accept_ra"), "0")
}

/// Packets that the device dropped because nobody fetched them in time.
pub fn transmit_drops(name: &str) -> io::Result<u64> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let row = table.lines().find_map(|l| l.trim_start().strip_prefix(name)?.strip_prefix(':'));
    let drops = row.and_then(|r| r.split_whitespace().nth(11)?.parse().ok());
    drops.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
}

/// Whether any socket of the calling thread's namespace waits for connections or datagrams.
pub fn is_listening() -> bool {
    let has_row = |table: &str, state: &str| {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
        text.lines().skip(1).any(|l| l.split_whitespace().nth(3) == Some(state))
    };
    // Column `st`: 0A is TCP's LISTEN, 07 an unconnected UDP socket.
    has_row("tcp", "0A") || has_row("tcp6", "0A") || has_row("udp", "07") || has_row("udp6", "07")
}

fn interface_index(name: &str) -> io::Result<u32> {
    Ok(netdevice::name_to_index(any_socket()?, name)?)
}

fn address_family(address: IpAddr) -> u8 {
    if address.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

/// A request that creates something; `AlreadyExists` when it is there.
fn create(kind: u16, body: &[u8]) -> io::Result<()> {
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    netlink::ask(kind, flags, body).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_interface_names_are_refused() {
        assert_eq!(
            set_mtu("a-name-that-is-too-long", 1500).unwrap_err().raw_os_error(),
            Some(libc::ENAMETOOLONG)
        );
    }
}
