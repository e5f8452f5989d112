//! New parameters for a loaded controller, without losing its name.
//!
//! From Linux 6.4 on a link is told to point at another table of the same name: one step, in which open connections
//! keep the old programs and every later choice of the name gets the new ones. Before, the old table must be deleted
//! and the new one registered. In between the kernel has no such name, and new connections get reno; how long that
//! was is told.
//!
//! Two places remember the table instead of the name, and are set again: the default of the network namespace, and
//! listening sockets that chose it, whose connections inherit it.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapMut, Object, libbpf_sys};

use crate::btf::Api;
use crate::error::{Context, Error, Result, ensure};
use crate::loaded::{DEFAULT, Loaded, Order, lock, pin_of, pin_then_register, pins, remove_pin, unregister};
use crate::need::{demand_bpf, demand_bpf_fs};
use crate::object::{Wanted, load, table_of, with_log};
use crate::{is_registered, listeners, read_line};

#[cfg(test)]
mod root_tests;

/// How long the kernel may take to forget the old table, which it does in the background.
const FORGET_TIME: Duration = Duration::from_secs(10);

/// What [`Order::tune`] has done.
#[derive(Debug)]
pub struct Tuned {
    /// The controller as it is now.
    pub loaded: Loaded,
    /// Listening sockets of the caller's network namespace that had chosen it, and were set again.
    pub listeners: u64,
    /// Before Linux 6.4: how long the kernel had no congestion control of this name.
    pub gap: Option<Duration>,
}

impl Order {
    /// Puts this controller with these parameters in the place of the loaded one of the same name. Open connections
    /// keep what they have; new ones get the new. The default and the listening sockets of the caller's network
    /// namespace are set again; those of other namespaces keep the old until somebody sets them.
    ///
    /// Fails when nothing of this name is loaded, and when the kernel refuses the new programs; the old ones are then
    /// in force as before.
    pub fn tune(&self) -> Result<Tuned> {
        self.exchange().with_context(|| format!("cannot tune `{}`", self.name))
    }

    fn exchange(&self) -> Result<Tuned> {
        demand_bpf()?;
        demand_bpf_fs()?;
        let _alone = lock()?;
        let api = Api::of_kernel()?;
        let old = pins().into_iter().find(|(_, pin)| pin.ends_with(&self.name)).map(|(_, pin)| pin);
        let old = old.ok_or_else(|| {
            Error::new("it is not loaded")
                .with_hint(format!("headway load {} --as {}", self.program.name, self.name))
        })?;
        let new = pin_of(self.program, &self.name);
        let wanted = Wanted { params: self.params.clone(), ..Wanted::new(self.program, &self.name, false) };
        let mut object = load(&wanted, &api)?;
        let gap = match api.has_links {
            true => point_at(&mut object, &old).and_then(|()| move_pin(&old, &new)).map(|()| None)?,
            false => Some(register_anew(&mut object, &old, &new)?),
        };
        if read_line(DEFAULT).is_some_and(|default| default == self.name) {
            fs::write(DEFAULT, &self.name).context("cannot set the default again")?;
        }
        let listeners = listeners::set_again(&self.name)?;
        Ok(Tuned { loaded: Loaded::open(self.program, &new, &api)?, listeners, gap })
    }
}

/// Makes the pinned link point at the object's table.
fn point_at(object: &mut Object, pin: &Path) -> Result<()> {
    let link = Link::open(pin).with_context(|| format!("cannot open {}", pin.display()))?;
    exchange(object, &link)
}

fn exchange(object: &mut Object, link: &Link) -> Result<()> {
    let mut table = table_of(object)?;
    prepare(&mut table)?;
    // SAFETY: both descriptors are open for the time of the call, and no options are passed.
    let failed = unsafe {
        libbpf_sys::bpf_link_update(link.as_fd().as_raw_fd(), table.as_fd().as_raw_fd(), std::ptr::null())
    };
    let why = std::io::Error::from_raw_os_error(-failed);
    ensure!(failed == 0, "the kernel does not exchange the programs: {why}");
    Ok(())
}

/// Fills a table for the kernel without registering it: libbpf fills it only on the way to registering, which the kernel
/// refuses as long as it has that name.
fn prepare(table: &mut MapMut<'_>) -> Result<()> {
    let (registered, _) = with_log(|| table.attach_struct_ops());
    match registered {
        // Nobody else has the name any more. Dropping the link takes the registration back.
        Ok(_) => Err(Error::new("somebody has unloaded it meanwhile")),
        Err(_) => Ok(()),
    }
}

/// Gives a link that is pinned as `old` the place `new`. A link may have several files, so it always has one.
fn move_pin(old: &PathBuf, new: &PathBuf) -> Result<()> {
    if old == new {
        return Ok(());
    }
    fs::create_dir_all(new.parent().context("a pin has a folder")?).context("cannot make a folder for it")?;
    let mut link = Link::open(old).with_context(|| format!("cannot open {}", old.display()))?;
    pin_again(&mut link, new).with_context(|| format!("cannot pin {}", new.display()))?;
    remove_pin(old)
}

/// libbpf pins a link once only, and one that it has opened by its file counts as pinned there.
fn pin_again(link: &mut Link, new: &Path) -> Result<()> {
    let path = std::ffi::CString::new(new.as_os_str().as_encoded_bytes())
        .ok()
        .context("its path has a zero byte")?;
    // SAFETY: the descriptor is open for the time of the call, and the path ends with a zero.
    let failed = unsafe { libbpf_sys::bpf_obj_pin(link.as_fd().as_raw_fd(), path.as_ptr()) };
    ensure!(failed == 0, "{}", std::io::Error::from_raw_os_error(-failed));
    Ok(())
}

/// For kernels before 6.4. The answer is how long the kernel had no such name.
fn register_anew(object: &mut Object, old: &Path, new: &Path) -> Result<Duration> {
    let api = Api::of_kernel()?;
    let name = old.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let before = Instant::now();
    if is_registered(&name) {
        unregister(old, &api)?;
    }
    remove_pin(old)?;
    while is_registered(&name) {
        ensure!(before.elapsed() < FORGET_TIME, "the kernel still has the old one");
        std::thread::sleep(Duration::from_micros(200));
    }
    fs::create_dir_all(new.parent().context("a pin has a folder")?).context("cannot make a folder for it")?;
    pin_then_register(&mut table_of(object)?, new)?;
    Ok(before.elapsed())
}
