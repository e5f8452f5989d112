//! A path of the plan, with everything that is needed to run it again on another machine.

use crate::plan::traffic::Traffic;
use crate::plan::wire::Wire;
use crate::sys::file::read_trace;
use anyhow::{Context, Result};
use headway_cc::path;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A path by its name (a preset's, a suite row's, or the path text itself) and by its canonical text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathEntry {
    pub name: String,
    /// The name as it was given, where a flag with several values makes several entries of one path (`matrix.rs`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub given: String,
    pub text: String,
    /// Name and content of the trace files that the text names, so that the plan does not depend on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<(String, String)>,
    /// The traffic on this path, where a suite or a matrix sets one; otherwise the plan's traffic applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
    /// The lab's kernel, where the plan has several.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel: String,
}

impl PathEntry {
    /// Resolves a preset's name, a wire's or a path text and reads the trace files it names.
    pub fn resolve(name: &str) -> Result<Self> {
        if let Some(wire) = Wire::find(name) {
            return Ok(Self { name: name.into(), text: wire.to_string(), ..Self::default() });
        }
        let path = path::resolve(name).map_err(|e| anyhow::anyhow!("{e}")).with_context(|| {
            format!("cannot read the path `{name}`\nhint: `headway list` shows the presets and the path text's words")
        })?;
        let read = |file: &String| {
            let text = read_trace(Path::new(file))
                .with_context(|| format!("cannot read the trace file `{file}`"))?;
            Ok((file.clone(), text))
        };
        let files = path.files().iter().map(read).collect::<Result<Vec<_>>>()?;
        let entry = Self { name: name.into(), text: path.to_string(), files, ..Self::default() };
        entry.path()?;
        Ok(entry)
    }

    /// The wire, where there is no emulated path.
    pub fn wire(&self) -> Option<Wire> {
        Wire::find(&self.text)
    }

    /// The path itself, with its trace files loaded. A wire is none.
    pub fn path(&self) -> Result<path::Path> {
        let mut p: path::Path =
            self.text.parse().map_err(|e| anyhow::anyhow!("path `{}`: {e}", self.text))?;
        for (name, text) in &self.files {
            p.load(name, text).map_err(|e| anyhow::anyhow!("trace file `{name}`: {e}"))?;
        }
        Ok(p)
    }
}
