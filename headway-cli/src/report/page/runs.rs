//! What became of every run, and how to make the whole of it again.

use super::top::command;
use crate::plan::show::shell_word;
use crate::report::chart::key;
use crate::report::run::{Count, NOT_RUN, Run};
use maud::{Markup, html};
use serde_json::Value;

pub fn cells_section(run: &Run, counts: &[Count]) -> Markup {
    let failed: Vec<_> = run.cells.iter().filter(|c| c.excluded.is_some()).collect();
    html! {
        section id="cells" {
            h2 { "Runs" }
            table class="small" {
                thead { tr { @for head in ["Controller", "Planned", "Attempted", "Ok", "Excluded"] { th scope="col" { (head) } } } }
                tbody {
                    @for c in counts { tr { th scope="row" { (key(run, &c.cc)) " " (c.cc) } td { (c.planned) } td { (c.attempted) } td { (c.ok) } td { (c.excluded) } } }
                }
            }
            @if !failed.is_empty() {
                h3 { "Runs that do not count" }
                div class="scroll" tabindex="0" role="region" aria-label="Runs that do not count" {
                    table class="small reasons" {
                        thead { tr { @for head in ["Cell", "Controller", "Path", "Block", "Reason"] { th scope="col" { (head) } } } }
                        tbody {
                            @for c in failed {
                                tr {
                                    th scope="row" { (format!("{:03}", c.cell.index)) } td { (c.cell.cc) } td { (run.plan.paths[c.cell.path].name) } td { (c.cell.block) }
                                    td class=(if c.status() == NOT_RUN { "reason quiet" } else { "reason" }) { (c.status()) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

pub fn environment_section(run: &Run) -> Markup {
    let mut rows = Vec::new();
    flatten("", &run.env, &mut rows);
    html! {
        section id="environment" {
            h2 { "Environment, and how to run it again" }
            pre class="command" tabindex="0" aria-label="Command to run it again" { code { (command(run)) "\nheadway report DIR" } }
            @if rows.is_empty() { p class="lead" { "env.json is missing or cannot be read: the environment of this run is not known." } }
            @else {
                details {
                    summary { "Environment (" (rows.len()) " entries)" }
                    dl class="environment" { @for (name, value) in rows { dt { (name) } dd { (value) } } }
                }
            }
        }
    }
}

/// The entries of a JSON value, one row each: objects become dotted names, lists of words one line.
fn flatten(name: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Object(map) => {
            let below = |key: &str| if name.is_empty() { key.to_string() } else { format!("{name}.{key}") };
            map.iter().for_each(|(key, value)| flatten(&below(key), value, rows));
        }
        Value::String(text) => rows.push((name.into(), text.clone())),
        Value::Array(items) => {
            let word = |v: &Value| v.as_str().map_or_else(|| v.to_string(), shell_word);
            rows.push((name.into(), items.iter().map(word).collect::<Vec<_>>().join(" ")));
        }
        other => rows.push((name.into(), other.to_string())),
    }
}
