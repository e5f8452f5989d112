//! `headway load` and `headway unload`: controllers that stay in the kernel after this program has ended.

use crate::error::{sentence, usage};
use crate::sys::out;
use anyhow::Result;
use clap::Args;
use headway_kernel::{self as kernel, Order};
use std::process::ExitCode;

#[derive(Args)]
#[command(after_help = "\
Examples:
  headway load bbr3
  headway load bbr1 --as gentle --set probe_rtt_mode_us=0s,cwnd_gain=1.5

Then choose it, for
  new connections of this network namespace:
    sysctl -w net.ipv4.tcp_congestion_control=bbr3
  new connections over one route:
    ip route change default via 192.0.2.1 congctl bbr3
  one connection, with setsockopt(TCP_CONGESTION), as any user:
    iperf3 -C bbr3 -c HOST")]
pub struct LoadArgs {
    /// One of our controllers, as `headway list` shows them
    #[arg(value_name = "CONTROLLER")]
    cc: String,
    /// Its name for sockets [default: the controller's]
    ///
    /// At most 15 letters, digits or `_`.
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Parameters to change, with commas
    ///
    /// All others keep their defaults. The flag may also be given several times. Gains are decimals; times and rates
    /// have units. `headway list --params CONTROLLER` shows all parameters with their defaults and ranges.
    #[arg(long = "set", value_name = "PARAM=VALUE", value_delimiter = ',')]
    settings: Vec<String>,
}

impl LoadArgs {
    /// What is to be loaded, once it is known that there is such a controller with such parameters.
    pub fn order(&self) -> Result<Order> {
        usage(Order::new(&self.cc, self.name.as_deref(), &self.settings))
    }
}

pub fn load(args: LoadArgs) -> Result<ExitCode> {
    let loaded = args.order()?.load()?;
    out::say(format_args!("`{}` is loaded: {}", loaded.name, loaded.what()))?;
    out::note(format_args!(
        "note: no connection uses it yet. For all new ones: sysctl -w net.ipv4.tcp_congestion_control={0}; for good: headway \
         enable {1} --default",
        loaded.name, args.cc
    ));
    Ok(ExitCode::SUCCESS)
}

#[derive(Args)]
pub struct UnloadArgs {
    /// Names, as `headway list` shows them
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    name: Vec<String>,
    /// Everything that `headway load` has loaded
    #[arg(long)]
    all: bool,
}

/// Unloads what can be unloaded. Of several refusals the last is the error, and those before it are printed here.
pub fn unload(args: UnloadArgs) -> Result<ExitCode> {
    let names = match args.all {
        true => kernel::loaded()?.into_iter().map(|l| l.name).collect(),
        false => args.name,
    };
    if names.is_empty() {
        out::say("nothing was loaded")?;
    }
    let mut refused = None;
    for name in names {
        match kernel::unload(&name) {
            Ok(0) => out::say(format_args!("`{name}` is unloaded"))?,
            Ok(users) => {
                out::say(format_args!(
                    "`{name}` is unloaded; {users} keep it: open sockets, until they close, and network namespaces whose default it is"
                ))?;
            }
            Err(e) => {
                if let Some(earlier) = refused.replace(e) {
                    out::note(format_args!("error: {}", sentence(&earlier.into())));
                }
            }
        }
    }
    refused.map_or(Ok(ExitCode::SUCCESS), |e| Err(e.into()))
}
