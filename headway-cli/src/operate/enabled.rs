//! What is enabled: one file a controller in `/etc/headway/enabled.d`, made by `headway enable` and open to an editor.
//!
//! These files are the only thing that is configured; what the kernel has is made to follow them (`apply.rs`). A file
//! that this version cannot read is refused by name, and what it had put in force stays as it is, so that neither a
//! slip of an editor nor an older version of this program takes a server's controller away.

use super::disk;
use super::scope::{Scope, Table};
use anyhow::{Context, Result, ensure};
use headway_kernel::Order;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where the files are.
pub const FOLDER: &str = "/etc/headway/enabled.d";

/// The files' format. A file of a higher one is of a newer version of this program.
const VERSION: u32 = 1;

/// One controller as it is enabled, under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enabled {
    /// The name that sockets choose, which is also the file's.
    pub name: String,
    /// Which controller of ours.
    pub controller: String,
    /// The parameters that are not at their defaults.
    pub parameters: BTreeMap<String, String>,
    pub scopes: Vec<Scope>,
}

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    controller: String,
    #[serde(default)]
    parameters: BTreeMap<String, toml::Value>,
    #[serde(default)]
    scope: Vec<Table>,
}

/// What is looked at first: whether this program knows the format at all.
#[derive(Deserialize)]
struct Head {
    version: Option<u32>,
}

/// What stands at the head of each file.
const HEAD: &str = "\
# Written by `headway enable`. You may edit it: `headway apply --check` says whether it is right, and
# `headway apply` puts it in force. The file's name is the name that sockets choose.

# The format of this file.
";

/// All files of a folder, in the order of their names.
#[derive(Debug, Default)]
pub struct All {
    pub enabled: Vec<Enabled>,
    /// Names of files that cannot be read, and why. What they had put in force stays.
    pub refused: Vec<(String, anyhow::Error)>,
}

impl Enabled {
    /// What the library loads. Fails where there is no such controller, parameter or name.
    pub fn order(&self) -> Result<Order, headway_kernel::Error> {
        Order::new(&self.controller, Some(&self.name), self.settings())
    }

    /// The parameters as `param=value`.
    pub fn settings(&self) -> Vec<String> {
        self.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    pub fn is_default(&self) -> bool {
        self.scopes.contains(&Scope::Default)
    }

    fn parse(name: &str, text: &str) -> Result<Enabled> {
        let head: Head = toml::from_str(text).map_err(said)?;
        let version = head.version.context("it has no `version`\nhint: write `version = 1` at its head")?;
        ensure!(
            version <= VERSION,
            "it has format {version}, and this program knows formats up to {VERSION}\nhint: it is of a newer version of headway; \
             install that one"
        );
        let content: Content = toml::from_str(text).map_err(said)?;
        let parameters = content.parameters.into_iter().map(|(name, value)| (name, plain(&value))).collect();
        let scopes = content.scope.iter().map(Table::scope).collect::<Result<Vec<_>>>()?;
        let enabled = Enabled { name: name.into(), controller: content.controller, parameters, scopes };
        enabled.order()?;
        Ok(enabled)
    }

    fn text(&self) -> String {
        let mut text = format!("{HEAD}version = {VERSION}\n\n# One of ours, as `headway list` shows them.\n");
        let quoted = |s: &str| toml::Value::from(s).to_string();
        text += &format!("controller = {}\n\n", quoted(&self.controller));
        text += &format!(
            "# Parameters that are not at their defaults; `headway list --params {}` shows all of them.\n[parameters]\n",
            self.controller
        );
        for (name, value) in &self.parameters {
            text += &format!("{name} = {}\n", quoted(value));
        }
        text += "\n# Which connections get it: a [[scope]] each, with `default = true`, `route = \"PREFIX\"`, `cgroup = \"PATH\"`,\n\
                 # `unit = \"NAME.service\"` or `ports = [\"443\", \"8000-8010\"]`. A cgroup and a unit may have ports, too.\n\
                 # Without any the controller is there for sockets that choose it.\n";
        for scope in &self.scopes {
            let table = toml::to_string(&Table::of(scope)).unwrap_or_default();
            text += &format!("\n[[scope]]\n{table}");
        }
        text
    }
}

/// The parser's own words, in one line.
fn said(e: toml::de::Error) -> anyhow::Error {
    anyhow::anyhow!("{}", e.to_string().trim_end()).context("it is not right")
}

/// A parameter's value as a flag would have it: strings without their quotes.
fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), String::from)
}

/// Reads a folder of files; one that does not exist has none.
pub fn read(folder: &Path) -> Result<All> {
    let mut files: Vec<PathBuf> = match fs::read_dir(folder) {
        Ok(entries) => entries.map(|e| Ok(e?.path())).collect::<std::io::Result<_>>()?,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(All::default()),
        Err(e) => return Err(e).with_context(|| format!("cannot read {}", folder.display())),
    };
    files.sort();
    let mut all = All::default();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "toml")) {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue; // what a writer that was killed has left
        }
        let read = crate::sys::file::read_text(file).map_err(anyhow::Error::from);
        match read.and_then(|text| Enabled::parse(&name, &text)) {
            Ok(enabled) => all.enabled.push(enabled),
            Err(e) => all.refused.push((name, e.context(format!("`{}` is refused", file.display())))),
        }
    }
    Ok(all)
}

impl All {
    /// The first two scopes of different controllers that some connection would be in both of, as an error.
    pub fn check(&self) -> Result<()> {
        for (at, a) in self.enabled.iter().enumerate() {
            for b in &self.enabled[at + 1..] {
                for (x, y) in a.scopes.iter().flat_map(|x| b.scopes.iter().map(move |y| (x, y))) {
                    ensure!(
                        !x.contradicts(y),
                        "`{}` for {x} and `{}` for {y} contradict each other: a connection could be in both\nhint: disable one of \
                         them for that scope first (`headway disable NAME` with the scope's flags), or give them different ports",
                        a.name,
                        b.name
                    );
                }
            }
        }
        Ok(())
    }

    pub fn find(&self, name: &str) -> Option<&Enabled> {
        self.enabled.iter().find(|e| e.name == name)
    }
}

/// Writes a controller's file, whole or not at all, so that it is there after a loss of power, too.
pub fn write(folder: &Path, enabled: &Enabled) -> Result<()> {
    disk::write(&file_of(folder, &enabled.name), &enabled.text())
}

/// Removes a controller's file; one that is not there is removed already.
pub fn remove(folder: &Path, name: &str) -> Result<()> {
    disk::remove(&file_of(folder, name))
}

/// A controller's file as it was, to be put back without room on the disk: a second name of the old file.
#[derive(Debug)]
pub struct Undo {
    file: PathBuf,
    old: Option<PathBuf>,
}

impl Undo {
    pub fn of(folder: &Path, name: &str) -> Result<Undo> {
        let file = file_of(folder, name);
        let old = folder.join(format!(".{name}.toml.old"));
        let _ = fs::remove_file(&old);
        let old = match fs::hard_link(&file, &old) {
            Ok(()) => Some(old),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(disk::cannot(e, "keep a copy of", &file)),
        };
        Ok(Undo { file, old })
    }

    /// Puts it back. What fails here leaves the new file, which `headway status` holds against what is in force.
    pub fn restore(self) {
        match self.old {
            // Two names of one file stay two when one is renamed to the other, hence the removal.
            Some(old) => drop((fs::rename(&old, &self.file), fs::remove_file(&old))),
            None => drop(fs::remove_file(&self.file)),
        }
    }

    pub fn forget(self) {
        let _ = self.old.map(fs::remove_file);
    }
}

/// Removes what a `kill -9` has left of files that were being written. Only for whoever holds the lock.
pub fn tidy(folder: &Path) {
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') && (name.ends_with(".toml.tmp") || name.ends_with(".toml.old")) {
            let _ = fs::remove_file(file.path());
        }
    }
}

fn file_of(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operate::scope::Ports;

    fn folder(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("headway-enabled-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn enabled(name: &str, scopes: Vec<Scope>) -> Enabled {
        Enabled { name: name.into(), controller: "bbr3".into(), parameters: BTreeMap::new(), scopes }
    }

    #[test]
    fn a_file_goes_out_and_comes_back() {
        let dir = folder("back");
        let mut one = enabled(
            "mine",
            vec![
                Scope::Default,
                Scope::Unit("nginx.service".into(), Ports::of(&["443"]).unwrap()),
                Scope::Port(Ports::of(&["8000-8010", "9"]).unwrap()),
            ],
        );
        one.parameters.insert("default_cwnd_gain".into(), "2.5".into());
        let none = enabled("bbr3", Vec::new());
        write(&dir, &one).unwrap();
        write(&dir, &none).unwrap();
        let all = read(&dir).unwrap();
        assert!(all.refused.is_empty() && all.enabled == [none, one], "{all:?}");
        remove(&dir, "mine").unwrap();
        remove(&dir, "mine").unwrap();
        assert_eq!(read(&dir).unwrap().enabled.len(), 1);
        fs::remove_dir_all(&dir).unwrap();
        assert!(read(&dir).unwrap().enabled.is_empty(), "no folder means that nothing is enabled");
    }

    #[test]
    fn an_edited_file_may_have_numbers_and_no_tables() {
        let text = "version = 1\ncontroller = \"bbr3\"\nparameters = { default_cwnd_gain = 2.5 }\n";
        assert_eq!(Enabled::parse("a", text).unwrap().settings(), ["default_cwnd_gain=2.5"]);
        assert!(Enabled::parse("a", "version = 1\ncontroller = \"bbr1\"\n").unwrap().scopes.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name_and_the_others_are_not() {
        let dir = folder("refused");
        write(&dir, &enabled("good", Vec::new())).unwrap();
        let bad = [
            ("newer", "version = 2\nsomething = \"else\"\n", "format 2"),
            ("none", "controller = \"bbr3\"\n", "no `version`"),
            ("syntax", "version = \n", "not right"),
            ("controller", "version = 1\ncontroller = \"bbr9\"\n", "bbr9"),
            ("parameter", "version = 1\ncontroller = \"bbr3\"\n[parameters]\nx = \"1\"\n", "`x`"),
            ("key", "version = 1\ncontroller = \"bbr3\"\ncolour = 1\n", "colour"),
            ("scope", "version = 1\ncontroller = \"bbr3\"\n[[scope]]\nports = [\"9-3\"]\n", "backwards"),
            ("a-b", "version = 1\ncontroller = \"bbr3\"\n", "cannot name"),
        ];
        for (name, text, _) in bad {
            fs::write(dir.join(format!("{name}.toml")), text).unwrap();
        }
        fs::write(dir.join("README"), "no file of ours").unwrap();
        fs::write(dir.join(".good.toml.tmp"), "half").unwrap();
        let all = read(&dir).unwrap();
        assert_eq!(all.enabled.iter().map(|e| e.name.as_str()).collect::<Vec<_>>(), ["good"]);
        assert_eq!(all.refused.len(), bad.len());
        for (name, _, word) in bad {
            let said = all.refused.iter().find(|(n, _)| n == name).map(|(_, e)| crate::error::sentence(e));
            assert!(said.as_ref().is_some_and(|s| s.contains(word)), "{name}: {said:?}");
        }
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn two_controllers_for_one_connection_are_refused() {
        let all = All {
            enabled: vec![enabled("a", vec![Scope::Default]), enabled("b", vec![Scope::Default])],
            refused: Vec::new(),
        };
        assert!(
            all.check().unwrap_err().to_string().contains("`a` for default and `b` for default contradict")
        );
        let all = All {
            enabled: vec![enabled("a", vec![Scope::Default]), enabled("b", Vec::new())],
            refused: Vec::new(),
        };
        assert!(all.check().is_ok() && all.find("b").is_some() && all.find("c").is_none());
    }
}
