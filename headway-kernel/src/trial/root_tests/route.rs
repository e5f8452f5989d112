//! A path with a delay and with faults inside one network namespace: a device that hands its packets to this program, which
//! gives them back later with source and destination exchanged. So a connection to [`FAR`] comes in at a listener of [`NEAR`],
//! and no checksum changes.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::private::socket_of;

pub(super) const NEAR: &str = "10.8.0.1:5000";
pub(super) const FAR: &str = "10.8.0.2:5000";

/// Half a round trip.
pub(super) const DELAY: Duration = Duration::from_millis(10);

/// What the path does to packets, to be changed at any time.
#[derive(Clone, Default)]
pub(super) struct Route {
    /// It loses everything.
    pub(super) is_cut: Arc<AtomicBool>,
    /// It loses every so manieth of the large packets; 0: none.
    pub(super) loses: Arc<AtomicU32>,
}

impl Route {
    /// `None` where the kernel has no such devices.
    pub(super) fn up() -> Option<Route> {
        const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
        const TUN_WITHOUT_HEAD: libc::c_short = 0x1001;
        let mut device = File::options().read(true).write(true).open("/dev/net/tun").ok()?;
        let mut request = of_interface(b"trial0");
        request.ifr_ifru.ifru_flags = TUN_WITHOUT_HEAD;
        ask(&device, TUNSETIFF, &mut request);
        set_up(b"trial0", Ipv4Addr::new(10, 8, 0, 1));
        let (route, back) = (Route::default(), device.try_clone().unwrap());
        let (give, take) = channel();
        std::thread::spawn(move || write(back, &take));
        let faults = route.clone();
        std::thread::spawn(move || {
            let (mut packet, mut large) = (vec![0; 2048], 0);
            while let Ok(count) = device.read(&mut packet) {
                large += u32::from(count > 500);
                let loses = faults.loses.load(Ordering::Relaxed);
                let is_lost = loses > 0 && count > 500 && large % loses == 0;
                // Version 4, and not what IPv6 says to find its neighbours.
                if packet[0] >> 4 == 4 && !is_lost && !faults.is_cut.load(Ordering::Relaxed) {
                    give.send((Instant::now() + DELAY, packet[..count].to_vec())).unwrap();
                }
            }
        });
        Some(route)
    }

    /// Cuts the path, from now on and for a time. The thread ends when it is whole again.
    pub(super) fn cut(&self, for_a_time: Duration) -> JoinHandle<()> {
        self.is_cut.store(true, Ordering::Relaxed);
        let is_cut = self.is_cut.clone();
        std::thread::spawn(move || {
            std::thread::sleep(for_a_time);
            is_cut.store(false, Ordering::Relaxed);
        })
    }
}

fn write(mut device: File, packets: &Receiver<(Instant, Vec<u8>)>) {
    for (due, mut packet) in packets {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let (source, destination) = packet[12..20].split_at_mut(4);
        source.swap_with_slice(destination);
        device.write_all(&packet).unwrap();
    }
}

fn of_interface(name: &[u8]) -> libc::ifreq {
    // SAFETY: zeros are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    request
}

fn ask<T>(of: &impl AsRawFd, what: libc::c_ulong, request: &mut T) {
    // SAFETY: the request is what this command reads and writes, and it outlives the call.
    let failed = unsafe { libc::ioctl(of.as_raw_fd(), what, request) };
    assert_eq!(failed, 0, "{what:#x}: {}", std::io::Error::last_os_error());
}

/// What `ip addr add ADDRESS/24 dev NAME` and `ip link set NAME up` do; the guests of the lab have no `ip`.
fn set_up(name: &[u8], address: Ipv4Addr) {
    let socket = socket_of("", false);
    for (what, address) in
        [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, Ipv4Addr::new(255, 255, 255, 0))]
    {
        let mut request = of_interface(name);
        let mut bytes = [0; 14];
        bytes[2..6].copy_from_slice(&address.octets());
        let data = bytes.map(|b: u8| b as libc::c_char);
        request.ifr_ifru.ifru_addr = libc::sockaddr { sa_family: libc::AF_INET as u16, sa_data: data };
        ask(&socket, what, &mut request);
    }
    let mut request = of_interface(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    ask(&socket, libc::SIOCSIFFLAGS, &mut request);
}

/// Gives the loopback device an address of IPv6.
pub(super) fn add_to_loopback(address: Ipv6Addr) {
    /// `struct in6_ifreq` of `linux/ipv6.h`.
    #[repr(C)]
    struct Request {
        address: [u8; 16],
        length: u32,
        interface: i32,
    }
    const LOOPBACK: i32 = 1;
    let mut request = Request { address: address.octets(), length: 128, interface: LOOPBACK };
    ask(&socket_of("", true), libc::SIOCSIFADDR, &mut request);
}
