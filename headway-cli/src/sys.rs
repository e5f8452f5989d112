//! What the program asks of Linux and the standard library does not offer: one small file for each kind of request,
//! with safe functions. Nearly all of the program's `unsafe` is here.
//!
//! Nothing here decides anything. A function is one system call, or the few that make sense only together, and
//! returns what the kernel answered as [`std::io::Result`]; the callers say what was being attempted. The calls are
//! made through rustix. Those made through libc are the ones that rustix does not have, and each says so.

pub mod afterwards;
pub mod capture;
pub mod clock;
pub mod file;
pub mod interrupt;
pub mod lab;
pub mod net;
mod netlink;
pub mod ns;
pub mod out;
pub mod perf;
pub mod process;
pub mod program;
pub mod route;
pub mod sched;
pub mod socket;
pub mod tun;
pub mod voice;
pub mod wait;
