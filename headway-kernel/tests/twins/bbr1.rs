//! What the streams of `bbr1` must reach, and bugs that they must find.

use super::brake;
use super::replay::Bug;
use super::{Change, Twin};
use headway_cc::cc::bbr1::{Bbr1, Bbr1Params, Bbr1State, Mode};
use headway_cc::cc::brake::BrakeParams;
use headway_cc::cc::params::BBR1_BRAKE;
use headway_cc::cc::{CaState, Event};

pub const TWIN: Twin = Twin {
    name: "bbr1",
    fields: Bbr1Params::FIELDS,
    params: || {
        // The streams are noisier than paths are, and a policer is not watched.
        let eager = BrakeParams { deviations: 0, loss_slots: 1, ..BrakeParams::on() };
        let eager = Bbr1Params { brake: eager, lt_loss_thresh: 1 << 40, ..Bbr1Params::default() };
        vec![eager.words(), Bbr1Params::default().words(), (BBR1_BRAKE.defaults)()]
    },
    controllers: &[("bbr1", 1), ("bbr1_brake", 2)],
    new: |params| Box::new(Bbr1::new(Bbr1Params::from_words(params).expect("all parameters"))),
    facts,
    wanted,
    bugs: &[BUGS, brake::BUGS],
};

fn facts(change: &Change) -> Vec<String> {
    let (ack, control) = (change.ack, change.control);
    let now = Bbr1State::from_words(change.now).expect("a whole state");
    let before = Bbr1State::from_words(change.before).unwrap_or_default();
    let mut facts = vec![
        format!("event {}", u64::from(ack.event)),
        format!("mode {} to {}", u64::from(before.mode), u64::from(now.mode)),
        format!("round_start {}", u64::from(now.round_start)),
        format!("idle_restart {}", u64::from(now.idle_restart)),
        format!("packet_conservation {}", u64::from(now.packet_conservation)),
        format!("probe_rtt_round_done {}", u64::from(now.probe_rtt_round_done)),
        format!("has_seen_rtt {}", u64::from(now.has_seen_rtt)),
        format!("full_bw_cnt {}", now.full_bw_cnt),
        format!("extra_acked_win_idx {}", now.extra_acked_win_idx),
        format!("lt_is_sampling {}", u64::from(now.lt_is_sampling)),
        format!("mark_app_limited {}", u64::from(control.mark_app_limited)),
        format!("prev_ca_state {}", u64::from(now.prev_ca_state)),
    ];
    if now.mode == Mode::ProbeBw {
        facts.push(format!("cycle_idx {}", now.cycle_idx));
    }
    if now.lt_use_bw != before.lt_use_bw && ack.event != Event::Init && ack.event != Event::Undo {
        facts.push(format!("lt_use_bw {}", u64::from(now.lt_use_bw)));
    }
    facts.extend(brake::facts(&before.brake, &now.brake));
    facts
}

fn wanted() -> Vec<String> {
    let both = ["round_start", "idle_restart", "packet_conservation", "probe_rtt_round_done", "has_seen_rtt"];
    let more = ["extra_acked_win_idx", "lt_is_sampling", "lt_use_bw", "mark_app_limited"];
    let mut want: Vec<String> =
        both.iter().chain(&more).flat_map(|f| [format!("{f} 0"), format!("{f} 1")]).collect();
    want.extend((0..=5).map(|i| format!("event {i}")));
    want.extend((0..=3).map(|i| format!("full_bw_cnt {i}")));
    want.extend((0..=7).map(|i| format!("cycle_idx {i}")));
    want.extend(
        ["0 to 1", "0 to 2", "0 to 3", "1 to 2", "2 to 3", "3 to 0", "3 to 2"].map(|m| format!("mode {m}")),
    );
    want.extend(
        [CaState::Open, CaState::Recovery, CaState::Loss].map(|s| format!("prev_ca_state {}", u64::from(s))),
    );
    want.extend(brake::wanted());
    want
}

#[rustfmt::skip]
const BUGS: &[Bug] = &[
    Bug { file: "fixed.h", function: "mul_shift", from: "a0 * b1 + (u32)mid;", to: "a0 * b1 + mid;" },
    Bug { file: "fixed.h", function: "winmax_subwin_update", from: "dt > win / 4", to: "dt >= win / 4" },
    Bug { file: "fixed.h", function: "winmax_running_max", from: "v >= m->s[1].v", to: "v > m->s[1].v" },
    Bug { file: "bbr1/control.h", function: "bbr_save_cwnd", from: "prev_ca_state < CA_RECOVERY &&", to: "prev_ca_state <= CA_RECOVERY &&" },
    Bug { file: "bbr1/control.h", function: "bbr_bdp", from: "sat_add(w, BW_UNIT - 1)", to: "sat_add(w, BW_UNIT)" },
    Bug { file: "bbr1/control.h", function: "bbr_set_cwnd_to_recover_or_restore", from: "&& state < CA_RECOVERY", to: "&& state <= CA_RECOVERY" },
    Bug { file: "bbr1/modes.h", function: "bbr_is_next_cycle_phase", from: "return is_full_length || inflight", to: "return is_full_length && inflight" },
    Bug { file: "bbr1/modes.h", function: "bbr_reset_probe_bw_mode", from: "(u32)sk->ack->rand", to: "sk->ack->rand" },
    Bug { file: "bbr1/policer.h", function: "bbr_lt_bw_sampling", from: "lt_rtt_cnt >= p->lt_bw_max_rtts", to: "lt_rtt_cnt > p->lt_bw_max_rtts" },
    Bug { file: "bbr1/model.h", function: "bbr_update_ack_aggregation", from: "ack_epoch_acked <= expected", to: "ack_epoch_acked < expected" },
    Bug { file: "bbr1/modes.h", function: "bbr_check_full_bw_reached", from: "bbr->full_bw_cnt >= sk->p", to: "bbr->full_bw_cnt > sk->p" },
    Bug { file: "bbr1/probe_rtt.h", function: "bbr_check_probe_rtt_done", from: "u64_max(sk->out->cwnd, bbr->prior_cwnd);\n\tbbr_reset", to: "u64_min(sk->out->cwnd, bbr->prior_cwnd);\n\tbbr_reset" },
    Bug { file: "bbr1/probe_rtt.h", function: "bbr_update_min_rtt", from: "ack->rs_rtt_us < bbr->min_rtt_us", to: "ack->rs_rtt_us <= bbr->min_rtt_us" },
    Bug { file: "bbr1/modes.h", function: "bbr_update_gains", from: "bbr->cycle_idx == 1)", to: "bbr->cycle_idx == 2)" },
];
