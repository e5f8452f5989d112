//! The table that stands first below the head of the page where messages ran beside the load: the delay that players of a game feel.

use super::{folded, meaning};
use crate::metric::{METRICS, index_of};
use crate::report::chart::key;
use crate::report::run::Run;
use maud::{Markup, html};

/// The columns: metrics and their heads.
const COLUMNS: [(&str, &str); 8] = [
    ("message_delay_p50_us", "p50"),
    ("message_delay_p99_us", "p99"),
    ("message_delay_p999_us", "p99.9"),
    ("message_delay_max_us", "worst"),
    ("message_over_50ms_s", "above 50 ms"),
    ("message_over_100ms_s", "above 100 ms"),
    ("message_over_200ms_s", "above 200 ms"),
    ("message_loss", "lost"),
];

/// The table; `None` where no path has messages.
pub fn section(run: &Run) -> Option<Markup> {
    let paths: Vec<usize> =
        (0..run.plan.paths.len()).filter(|path| run.plan.traffic(*path).messages.is_some()).collect();
    let first = run.plan.traffic(*paths.first()?).messages?;
    let same = paths.iter().all(|path| run.plan.traffic(*path).messages == Some(first));
    Some(html! {
        section id="messages" {
            h2 { "Messages beside the load" }
            p class="lead" {
                "One-way delay of datagrams (" @if same { (first) } @else { "sizes and rates differ by path" }
                ", bytes@rate) on the same path in the direction of the data, counted from when each was due: what players of a game feel. "
                "Medians over the runs that count. A lost message counts as above every limit."
            }
            (folded(run, &format!("Delay of messages on {} paths", paths.len()), &table(run, &paths)))
        }
    })
}

fn table(run: &Run, paths: &[usize]) -> Markup {
    html! {
        table class="small headline" {
            thead {
                tr {
                    th scope="col" { "Controller" }
                    @for (name, head) in COLUMNS { th scope="col" { (meaning::link_to_metric(&METRICS[index_of(name)], head)) } }
                }
            }
            @for path in paths { (rows(run, *path)) }
        }
    }
}

fn rows(run: &Run, path: usize) -> Markup {
    let seconds =
        (u64::from(run.plan.traffic(path).seconds) * 1000 - run.plan.traffic(path).warmup_ms) as f64 / 1e3;
    html! {
        tbody {
            tr class="group" {
                th colspan="9" scope="rowgroup" {
                    a href={ "#path-" (path) } { (run.plan.paths[path].name) } span class="quiet" { " of " (seconds) " s" }
                }
            }
            @for cc in run.plan.labels() {
                tr data-cc=(cc) {
                    th scope="row" { (key(run, cc)) " " (cc) }
                    @for (name, _) in COLUMNS { td { (cell(run, path, cc, name)) } }
                }
            }
        }
    }
}

fn cell(run: &Run, path: usize, cc: &str, name: &str) -> Markup {
    let m = index_of(name);
    match run.spread(path, cc, m) {
        Some(spread) => html! { (spread.show(METRICS[m].unit)) },
        None => {
            let reason = run.cells_of(path, cc).find_map(|c| c.values[m].as_ref().err());
            html! { span class="quiet" title=(reason.map_or("", |r| r.as_str())) { "–" } }
        }
    }
}
