//! Setting the congestion control of listening sockets again, which an exchange of programs leaves with the old ones.

use std::io::{self, Read};

use libbpf_rs::{Iter, MapCore, MapFlags, ObjectBuilder};

use crate::error::{Context, Error, Result, bail, ensure};
use crate::object::{COUNTERS, ONLY_KEY, SETTINGS, is_named, to_words, with_log};
use crate::programs::{NAME_MAX, object};

/// Sets all listening sockets of the caller's network namespace again that have chosen a congestion control of this name.
/// The answer is how many those are.
pub(crate) fn set_again(name: &str) -> Result<u64> {
    let (set, log) = with_log(|| walk(name));
    let set = set.with_context(|| format!("cannot set listening sockets again {}", log.trim()))?;
    ensure!(set.1 == 0, "the kernel refuses to set {} listening sockets again", set.1);
    Ok(set.0)
}

/// How many were set, and how many not.
fn walk(name: &str) -> Result<(u64, u64)> {
    let mut open =
        ObjectBuilder::default().open_memory(object!("listeners")).context("cannot open the BPF object")?;
    let mut settings = name.as_bytes().to_vec();
    settings.resize(NAME_MAX + 1, 0);
    let map = open.maps_mut().find(|m| is_named(m.name(), SETTINGS));
    map.context("the BPF object has no settings")?
        .set_initial_value(&settings)
        .context("the name is too long")?;
    let object = open.load().context("cannot load the program")?;
    let program = object.progs_mut().next().context("the BPF object has no program")?;
    let link = program.attach().context("cannot attach the program")?;
    let mut walk = Iter::new(&link).context("cannot make the iterator")?;
    // The program writes nothing: reading to the end is what runs it.
    walk.read_to_end(&mut Vec::new()).or_else(|e| match e.kind() {
        io::ErrorKind::Interrupted => Ok(0),
        _ => Err(Error::new("cannot walk over the sockets").caused_by(e)),
    })?;
    let map =
        object.maps().find(|m| is_named(m.name(), COUNTERS)).context("the BPF object has no counters")?;
    let value = map.lookup(&ONLY_KEY, MapFlags::ANY).context("cannot read the counters")?;
    match to_words(&value.context("no counters")?).as_slice() {
        &[set, refused] => Ok((set, refused)),
        other => bail!("{} counters", other.len()),
    }
}
