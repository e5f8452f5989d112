//! TUN devices: network interfaces whose packets this process reads and writes.

use super::net::interface_request;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::writev;
use rustix::ioctl::{IntegerSetter, Opcode, Setter, ioctl};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Bytes of the virtio-net header before every packet of a [`Tun`].
pub const VNET_BYTES: usize = 10;

/// A TUN device with virtio-net headers. It vanishes with this descriptor.
#[derive(Debug)]
pub struct Tun {
    fd: OwnedFd,
}

impl Tun {
    /// Creates device `name` in the calling thread's namespace; `EBUSY` when the name is taken.
    /// With `offload` the kernel hands over unsegmented packets of up to 64 KB without checksums.
    pub fn create(name: &str, offload: bool) -> io::Result<Tun> {
        let mut request = interface_request(name)?;
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL;
        request.ifr_ifru.ifru_flags = flags as libc::c_short; // 0x8000 is the sign bit here
        let fd: OwnedFd = File::options().read(true).write(true).open("/dev/net/tun")?.into();
        let bytes = VNET_BYTES as libc::c_int;
        // SAFETY: TUNSETIFF reads one `ifreq`, TUNSETVNETHDRSZ one int.
        unsafe {
            ioctl(&fd, Setter::<{ libc::TUNSETIFF as Opcode }, _>::new(request))?;
            ioctl(&fd, Setter::<{ libc::TUNSETVNETHDRSZ as Opcode }, _>::new(bytes))?;
        }
        fcntl_setfl(&fd, OFlags::NONBLOCK)?;
        let tun = Tun { fd };
        tun.set_offload(offload)?;
        Ok(tun)
    }

    fn set_offload(&self, on: bool) -> io::Result<()> {
        let tcp = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        let udp = libc::TUN_F_USO4 | libc::TUN_F_USO6;
        if !on {
            return self.offload_ioctl(0);
        }
        // Before Linux 6.2 the device knows no UDP segmentation and refuses the flags.
        self.offload_ioctl(tcp | udp).or_else(|_| self.offload_ioctl(tcp))
    }

    fn offload_ioctl(&self, flags: libc::c_uint) -> io::Result<()> {
        // SAFETY: the argument of TUNSETOFFLOAD is an integer, not a pointer.
        let request =
            unsafe { IntegerSetter::<{ libc::TUNSETOFFLOAD as Opcode }>::new_usize(flags as usize) };
        // SAFETY: as above.
        Ok(unsafe { ioctl(&self.fd, request) }?)
    }

    /// Reads one packet behind its virtio-net header; `WouldBlock` when there is none. By libc, because rustix reads
    /// into `&mut [u8]`, and the emulator's buffer also holds earlier packets that are still on their way.
    pub fn read(&self, into: &[Cell<u8>]) -> io::Result<usize> {
        // SAFETY: a slice of cells may be written through a shared reference, and cells are not shared between
        // threads.
        let n = unsafe { libc::read(self.fd.as_raw_fd(), into.as_ptr().cast_mut().cast(), into.len()) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    /// Writes one packet: virtio-net header and the start of the packet in `head`, the rest in `body`.
    pub fn write(&self, head: &[u8], body: &[Cell<u8>]) -> io::Result<()> {
        // SAFETY: a cell has the layout of its byte, cells are not shared between threads, and this function sets
        // none.
        let body = unsafe { std::slice::from_raw_parts(body.as_ptr().cast::<u8>(), body.len()) };
        writev(&self.fd, &[IoSlice::new(head), IoSlice::new(body)])?;
        Ok(())
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
