//! Reading `load.json`.

use super::{Interval, Load};
use crate::plan::tool::Tool;
use serde_json::Value;

/// Reads the output of `iperf3 -c … -J [--get-server-output]`, or what this program writes in that form.
///
/// Some versions of iperf3 print lines before or after the JSON value, some print `nan` in it, and 3.12 exits with 0
/// on every error. Therefore only the value itself counts.
///
/// # Errors
/// The error that the value holds, or why it cannot be read.
pub fn parse(text: &str) -> Result<Load, String> {
    let (value, rest) = first_value(text)?;
    if let Some(error) = value["error"].as_str() {
        let is_iperf2 = value["iperf2"].is_object();
        let tool = if is_iperf2 { Tool::Iperf2 } else { Tool::Iperf3 };
        return Err(format!("{}: {}", tool.program(), error.trim().trim_end_matches(':')));
    }
    let (start, end) = (&value["start"], &value["end"]);
    let received = &end["sum_received"];
    if !received.is_object() || !end["sum_sent"].is_object() {
        return Err("iperf3's output has no summary (`end.sum_sent`, `end.sum_received`)".into());
    }
    let is_reverse = start["test_start"]["reverse"] == 1;
    let cpu = |host: &str| end["cpu_utilization_percent"][host].as_f64();
    // The client is one side and the server, whose output comes with it, is the other.
    let mut sides =
        [("host_total", intervals(&value)), ("remote_total", intervals(&value["server_output_json"]))];
    if is_reverse {
        sides.reverse();
    }
    let [(sender, sent), (receiver, received_intervals)] = sides;
    if let Some(i) = sent.iter().chain(&received_intervals).find(|i| i.to_us < i.from_us) {
        return Err(format!(
            "iperf3's interval ends at {} us, before it begins at {} us",
            i.to_us, i.from_us
        ));
    }
    Ok(Load {
        version: text_of(&start["version"]).unwrap_or_default(),
        duration_us: micros(&start["test_start"]["duration"]),
        received_us: micros(&received["end"]),
        sent_bytes: whole(&end["sum_sent"]["bytes"]),
        received_bytes: whole(&received["bytes"]),
        retransmits: count(&end["sum_sent"]["retransmits"]),
        mss_bytes: count(&start["tcp_mss_default"]).filter(|mss| *mss > 0),
        sender_cc: text_of(&end["sender_tcp_congestion"]),
        is_reverse,
        sender_cpu_percent: cpu(sender),
        receiver_cpu_percent: cpu(receiver),
        sent,
        received: received_intervals,
        rest,
    })
}

/// The events of `--json-stream`, one a line, as the one value of `-J`; any other text as it is.
pub fn unstreamed(text: &str) -> String {
    let events: Vec<Value> = text.lines().map_while(|l| serde_json::from_str(l).ok()).collect();
    if !events.first().is_some_and(|e| e["event"].is_string()) {
        return text.to_string();
    }
    let mut value = serde_json::json!({ "intervals": [] });
    for event in events {
        match event["event"].as_str() {
            Some("interval") => {
                value["intervals"].as_array_mut().into_iter().for_each(|i| i.push(event["data"].clone()))
            }
            Some(part) => value[part] = event["data"].clone(),
            None => {}
        }
    }
    value.to_string()
}

fn intervals(value: &Value) -> Vec<Interval> {
    let counted = |i: &&Value| i["sum"]["omitted"].as_bool() != Some(true);
    rows(&value["intervals"]).filter(counted).map(interval).collect()
}

fn interval(value: &Value) -> Interval {
    let streams = || rows(&value["streams"]);
    Interval {
        from_us: micros(&value["sum"]["start"]),
        to_us: micros(&value["sum"]["end"]),
        stream_bytes: streams().map(|s| whole(&s["bytes"])).collect(),
        retransmits: count(&value["sum"]["retransmits"]),
        // A reverse run prints 0 where it knows nothing.
        srtt_us: streams().filter_map(|s| count(&s["rtt"])).filter(|rtt| *rtt > 0).collect(),
    }
}

/// The first JSON value in `text`, and what stands around it.
fn first_value(text: &str) -> Result<(Value, String), String> {
    let at = text.find('{').ok_or_else(|| match text.trim() {
        "" => "iperf3 printed nothing".to_string(),
        other => format!("iperf3 printed no JSON but: {}", other.lines().next().unwrap_or_default()),
    })?;
    let (before, json) = text.split_at(at);
    let (value, used) = match one_value(json) {
        Ok(found) => found,
        Err(_) => one_value(&without_nan(json)).map_err(|e| format!("iperf3's JSON is broken: {e}"))?,
    };
    let after = json.get(used..).unwrap_or_default();
    Ok((value, format!("{}\n{}", before.trim(), after.trim()).trim().to_string()))
}

fn one_value(json: &str) -> Result<(Value, usize), serde_json::Error> {
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let value = values.next().unwrap_or(Ok(Value::Null))?;
    Ok((value, values.byte_offset()))
}

/// `nan` and `inf`, which C prints and JSON does not know, become a `0` of the same length.
pub(super) fn without_nan(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        let word = ["-nan", "-inf", "nan", "inf"].into_iter().find(|w| rest.starts_with(w));
        if let Some(word) = word.filter(|_| !in_string) {
            out.push_str(&format!("{:<1$}", "0", word.len()));
            rest = &rest[word.len()..];
            continue;
        }
        (in_string, escaped) = match c {
            '"' if !escaped => (!in_string, false),
            '\\' => (in_string, !escaped),
            _ => (in_string, false),
        };
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// More than any load takes (31 years in microseconds) or carries (a petabyte), and few enough that sums fit into 64 bits.
const MOST: f64 = 1e15;

fn rows(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_string)
}

fn count(value: &Value) -> Option<u64> {
    value.as_u64().filter(|count| *count <= MOST as u64)
}

fn whole(value: &Value) -> u64 {
    value.as_f64().unwrap_or(0.0).clamp(0.0, MOST) as u64
}

/// Seconds as iperf3 prints them, in microseconds.
fn micros(value: &Value) -> u64 {
    (value.as_f64().unwrap_or(0.0) * 1e6).clamp(0.0, MOST).round() as u64
}
