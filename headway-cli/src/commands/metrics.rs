//! `headway metrics`: what the controllers do, for Prometheus.

use crate::error::usage;
use crate::operate::disk;
use crate::operate::enabled::{self, FOLDER};
use crate::operate::machine::{Force, Machine};
use crate::plan::time;
use crate::sys::out;
use crate::watch::meter::{Meter, Scope};
use crate::watch::serve::{self, Text};
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct MetricsArgs {
    /// Answer over HTTP [default: 127.0.0.1:9757]
    ///
    /// At http://ADDRESS/metrics.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:9757")]
    listen: Option<SocketAddr>,
    /// Write this file again and again, for node_exporter
    ///
    /// A file NAME.prom in the folder that node_exporter's --collector.textfile.directory names. It is replaced, never
    /// written over, so a reader finds it whole.
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    textfile: Option<PathBuf>,
    /// Time between two writings of the file
    #[arg(long, value_name = "TIME", value_parser = time::seconds, default_value = "15s", requires = "textfile")]
    every: u32,
}

/// Flows are looked at so often.
const LOOK: Duration = Duration::from_secs(1);

/// The scopes are asked for so often: that reads the routes, of which there may be many.
const SCOPES: Duration = Duration::from_secs(15);

pub fn run(args: MetricsArgs) -> Result<ExitCode> {
    let mut meter = Meter::new()?;
    meter.look()?;
    match (args.listen, args.textfile) {
        (Some(address), _) => listen(address, meter),
        (_, Some(file)) => {
            usage(check(&file, args.every))?;
            write(&file, u64::from(args.every), meter)
        }
        _ => {
            out::print(meter.text(&scopes()))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn check(file: &Path, every: u32) -> Result<()> {
    ensure!(every > 0, "--every 0 would never end\nhint: 15s is what Prometheus asks as often as");
    ensure!(
        file.extension().is_some_and(|e| e == "prom"),
        "{} does not end with .prom, so node_exporter would not read it\nhint: --textfile /var/lib/prometheus/node-exporter/headway.prom",
        file.display()
    );
    let folder = file.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(
        folder.is_dir(),
        "there is no folder {}\nhint: node_exporter's --collector.textfile.directory names it",
        folder.display()
    );
    Ok(())
}

fn listen(address: SocketAddr, mut meter: Meter) -> Result<ExitCode> {
    let text: Text = Arc::new(Mutex::new(meter.text(&scopes())));
    let shared = text.clone();
    std::thread::spawn(move || {
        let mut of_scopes = scopes();
        let mut asked = Instant::now();
        loop {
            std::thread::sleep(LOOK);
            if asked.elapsed() > SCOPES {
                (of_scopes, asked) = (scopes(), Instant::now());
            }
            // What cannot be read now may be there again in a second; until then the old text stands.
            if meter.look().is_ok() {
                *shared.lock().unwrap_or_else(|e| e.into_inner()) = meter.text(&of_scopes);
            }
        }
    });
    serve::serve(address, text, |address| out::say(format_args!("http://{address}/metrics")))?;
    Ok(ExitCode::SUCCESS)
}

fn write(file: &Path, every: u64, mut meter: Meter) -> Result<ExitCode> {
    let file = std::path::absolute(file).context("cannot tell where the file is")?;
    loop {
        disk::write(&file, &meter.text(&scopes()))?;
        for _ in 0..every {
            std::thread::sleep(LOOK);
            meter.look()?;
        }
    }
}

/// What is enabled, and what it has given; nothing where that cannot be read.
fn scopes() -> Vec<Scope> {
    let (Ok(all), Ok(machine)) = (enabled::read(Path::new(FOLDER)), Machine::look()) else {
        return Vec::new();
    };
    let of = |e: &enabled::Enabled, scope| {
        let given = machine.given(&e.name, scope);
        Scope {
            name: e.name.clone(),
            scope: scope.to_string(),
            in_force: machine.scope(&e.name, scope) == Force::Yes,
            given: given.map(|(given, _)| given),
            refused: given.map(|(_, refused)| refused),
        }
    };
    all.enabled.iter().flat_map(|e| e.scopes.iter().map(move |scope| of(e, scope))).collect()
}
