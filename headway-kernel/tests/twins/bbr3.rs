//! What the streams of `bbr3` must reach, and bugs that they must find.

use super::brake;
use super::replay::Bug;
use super::{Change, Twin};
use headway_cc::cc::bbr3::{
    BBR3_INFINITY, Bbr3, Bbr3Params, Bbr3State, LadderParams, LossModelParams, Mode, NewcomerParams,
    VaryingParams,
};
use headway_cc::cc::brake::{BrakeMode, BrakeParams};
use headway_cc::cc::fixed::GAIN_UNIT;
use headway_cc::cc::params::{BBR3_BRAKE, HEADWAY};
use headway_cc::cc::{CaState, Event, NO_RTT};

pub const TWIN: Twin = Twin {
    name: "bbr3",
    fields: Bbr3Params::FIELDS,
    params: || {
        let ecn =
            Bbr3Params { ecn: true, ecn_max_rtt_us: 50_000, is_ack_judged: false, ..Bbr3Params::default() };
        // The streams are noisier than paths are.
        let eager = BrakeParams { deviations: 0, ..BrakeParams::on() };
        let ladder = LadderParams { deviations: 0, slots: 1, shared: GAIN_UNIT << 16, ..LadderParams::on() };
        let loss = LossModelParams {
            low_rtt: GAIN_UNIT / 4,
            base_us: 300_000,
            min_sent: 8,
            min_lost: 1,
            window_lost: 8,
            min_share: GAIN_UNIT / 128,
            max_share: GAIN_UNIT,
            share_per_segment: GAIN_UNIT,
            limit: 4 * GAIN_UNIT,
            limit_deviations: 4,
            hold_rounds: 2,
            blind_hold: 2,
            ..LossModelParams::on()
        };
        let newcomer = NewcomerParams { alone_us: 0, empty: GAIN_UNIT, queue: 0, ..NewcomerParams::on() };
        let varying = VaryingParams {
            interval_us: 1_000,
            busy: 0,
            memory_us: 300_000,
            queue: 0,
            rounds: 2,
            hold_us: 1_000_000,
            ..VaryingParams::on()
        };
        // Apart from the room for a newcomer, because it bounds the window so often that the streams would not reach that
        // any more. Here other flows' queue is seen, which keeps the ladder from climbing.
        let shared = LadderParams { shared: GAIN_UNIT, shared_us: 300_000, ..ladder };
        let no_room = NewcomerParams { is_on: false, ..newcomer };
        let varying = Bbr3Params {
            brake: eager,
            ladder: shared,
            loss,
            newcomer: no_room,
            varying,
            ..Bbr3Params::default()
        };
        let eager = Bbr3Params { brake: eager, ladder, loss, newcomer, ..Bbr3Params::default() };
        let own = [(BBR3_BRAKE.defaults)(), (HEADWAY.defaults)()];
        [eager, varying, ecn, Bbr3Params::default()].map(|p| p.words()).into_iter().chain(own).collect()
    },
    controllers: &[("bbr3", 3), ("bbr3_brake", 4), ("headway", 5)],
    new: |params| Box::new(Bbr3::new(Bbr3Params::from_words(params).expect("all parameters"))),
    facts,
    wanted,
    bugs: &[BUGS, brake::BUGS],
};

#[expect(clippy::too_many_lines, reason = "a table of what a change of the state shows")]
fn facts(change: &Change) -> Vec<String> {
    let (ack, control) = (change.ack, change.control);
    let now = Bbr3State::from_words(change.now).expect("a whole state");
    let before = Bbr3State::from_words(change.before).unwrap_or_default();
    let is = |value: bool| u64::from(value);
    let mut facts = vec![
        format!("event {}", u64::from(ack.event)),
        format!("state {} to {}", u64::from(before.state), u64::from(now.state)),
        format!("ack_phase {}", u64::from(now.ack_phase)),
        format!("undo_state {}", u64::from(now.undo_state)),
        format!("prev_ca_state {}", u64::from(now.prev_ca_state)),
        format!("full_bw_count {}", now.full_bw_count),
        format!("startup_ecn_rounds {}", now.startup_ecn_rounds.min(2)),
        format!("mark_app_limited {}", u64::from(control.mark_app_limited)),
        format!("no min_rtt {}", is(now.min_rtt_us >= NO_RTT)),
        format!("inflight_longterm finite {}", is(now.inflight_longterm < BBR3_INFINITY)),
        format!("bw_shortterm finite {}", is(now.bw_shortterm < BBR3_INFINITY)),
        format!("many ranges {}", is(now.lost_ranges_in_round >= 6)),
        format!("slope {}", now.bw_probe_up_rounds.min(4)),
        format!("extra_acked {}", is(now.extra_acked > 0)),
        format!("alpha falls {}", is(now.ecn_alpha < before.ecn_alpha)),
    ];
    let flags = [
        ("has_seen_rtt", now.has_seen_rtt),
        ("round_start", now.round_start),
        ("loss_round_start", now.loss_round_start),
        ("is_loss_in_round", now.is_loss_in_round),
        ("is_ce_in_round", now.is_ce_in_round),
        ("probe_rtt_round_done", now.probe_rtt_round_done),
        ("idle_restart", now.idle_restart),
        ("full_bw_now", now.full_bw_now),
        ("is_bw_probe_sample", now.is_bw_probe_sample),
        ("prev_probe_too_high", now.prev_probe_too_high),
        ("prev_probe_precautionary", now.prev_probe_precautionary),
        ("is_undo_saved", now.is_undo_saved),
    ];
    facts.extend(flags.map(|(name, value)| format!("{name} {}", is(value))));
    if before.state == Mode::ProbeBwUp && now.state == Mode::ProbeBwUp {
        facts.push(format!("probing raises {}", is(now.inflight_longterm > before.inflight_longterm)));
    }
    if before.state == Mode::ProbeBwUp && before.ladder.is_climbing {
        let climb = if now.pacing_gain > before.pacing_gain { "climbs" } else { "stays" };
        let over = if now.state == Mode::ProbeBwDown { "ends" } else { climb };
        facts.push(format!("ladder {over}, queue {}", is(now.ladder.queue_slots > 0)));
    }
    let (losses, were) = (&now.loss, &before.loss);
    facts.push(format!("tolerates {}", is(losses.share > 0)));
    if were.share > 0 && losses.share == 0 {
        facts.push(format!("tolerance ends, fails {}", is(losses.hold_round > were.hold_round)));
    }
    if losses.quiet_low_sent != were.quiet_low_sent || losses.quiet_high_sent != were.quiet_high_sent {
        let halved = losses.failures < were.failures;
        facts.push(format!("quiet counts halved {}", is(halved)));
    }
    if were.share > 0
        && before.state == Mode::ProbeBwCruise
        && before.is_loss_in_round
        && !now.is_loss_in_round
    {
        facts.push(format!("tolerating, bounds stay {}", is(now.bw_shortterm == before.bw_shortterm)));
    }
    let (room, had) = (&now.newcomer, &before.newcomer);
    if before.state == Mode::ProbeBwUp && room.alone_bw != had.alone_bw {
        facts.push(format!("was alone {}", is(had.alone_bw > 0)));
    }
    if before.state == Mode::ProbeBwCruise && had.alone_bw > 0 && room.rounds > had.rounds {
        facts.push(format!("yields {}", is(now.max_bw < before.max_bw)));
    }
    let (link, was) = (&now.varying, &before.varying);
    facts.push(format!("link varies {}", is(link.is_on)));
    if was.is_on && !link.is_on {
        facts.push(format!("link no longer varies, another's queue {}", is(link.hold_us != was.hold_us)));
    }
    if !was.is_on && link.is_on {
        facts.push(format!("link varies, was braked {}", is(before.brake.mode != BrakeMode::Watch)));
    }
    if before.brake.mode == BrakeMode::Hold && now.brake.bw > before.brake.bw {
        facts.push(format!("brake gives back {}", is(now.inflight_longterm > before.inflight_longterm)));
    }
    if before.state == Mode::Startup && now.undo_state == Mode::Startup {
        facts.push(format!("loss ends Startup, SACK {}", is(ack.has_selective_acks)));
    }
    if ack.event == Event::Lost || ack.event == Event::Undo {
        let by = if ack.event == Event::Lost { "loss" } else { "undo" };
        facts.push(format!("{by} changes {} to {}", u64::from(before.state).min(2), u64::from(now.state)));
    }
    facts.extend(brake::facts(&before.brake, &now.brake));
    facts
}

#[expect(clippy::too_many_lines, reason = "a table of facts")]
fn wanted() -> Vec<String> {
    let both = [
        "has_seen_rtt",
        "round_start",
        "loss_round_start",
        "is_loss_in_round",
        "is_ce_in_round",
        "probe_rtt_round_done",
        "idle_restart",
        "full_bw_now",
        "is_bw_probe_sample",
        "prev_probe_too_high",
        "prev_probe_precautionary",
        "is_undo_saved",
        "mark_app_limited",
        "no min_rtt",
        "inflight_longterm finite",
        "bw_shortterm finite",
        "many ranges",
        "extra_acked",
        "alpha falls",
        "probing raises",
        "brake gives back",
        "loss ends Startup, SACK",
    ];
    let mut want: Vec<String> = both.iter().flat_map(|f| [format!("{f} 0"), format!("{f} 1")]).collect();
    want.extend((0..=6).map(|i| format!("event {i}")));
    want.extend((0..=3).map(|i| format!("full_bw_count {i}")));
    want.extend((0..=2).map(|i| format!("startup_ecn_rounds {i}")));
    want.extend((0..=4).map(|i| format!("ack_phase {i}")));
    want.extend((0..=4).map(|i| format!("slope {i}")));
    want.extend([Mode::None, Mode::Startup, Mode::ProbeBwUp].map(|s| format!("undo_state {}", u64::from(s))));
    want.extend(
        [CaState::Open, CaState::Recovery, CaState::Loss].map(|s| format!("prev_ca_state {}", u64::from(s))),
    );
    // The cycle, its shortcuts, and what a loss or an undo changes.
    for (from, to) in [(1, 2), (2, 3), (3, 4), (4, 5), (3, 5), (5, 6), (6, 3), (7, 4), (7, 1)] {
        want.push(format!("state {from} to {to}"));
    }
    want.extend((1..7).map(|from| format!("state {from} to 7")));
    want.extend(["loss changes 2 to 3", "undo changes 2 to 5", "undo changes 2 to 1"].map(String::from));
    want.extend(
        ["stays, queue 0", "climbs, queue 0", "ends, queue 0", "ends, queue 1"]
            .map(|f| format!("ladder {f}")),
    );
    let other = [
        "tolerates",
        "tolerance ends, fails",
        "quiet counts halved",
        "tolerating, bounds stay",
        "was alone",
        "yields",
        "link varies",
        "link no longer varies, another's queue",
        "link varies, was braked",
    ];
    want.extend(other.iter().flat_map(|f| [format!("{f} 0"), format!("{f} 1")]));
    want.extend(brake::wanted());
    want
}

#[rustfmt::skip]
const BUGS: &[Bug] = &[
    Bug { file: "bbr3/braking.h", function: "bbr3_adapt_inflight_longterm_to_brake", from: "u64_max(", to: "u64_min(" },
    Bug { file: "bbr3/control.h", function: "bbr3_is_in_a_probe_bw_state", from: "<= BBR3_PROBE_BW_UP", to: "< BBR3_PROBE_BW_UP" },
    Bug { file: "bbr3/control.h", function: "bbr3_set_gains", from: "c->p->up_cwnd_gain", to: "c->p->default_cwnd_gain" },
    Bug { file: "bbr3/control.h", function: "bbr3_bdp_multiple", from: "BW_UNIT - 1", to: "BW_UNIT" },
    Bug { file: "bbr3/control.h", function: "bbr3_bdp_multiple", from: ">= NO_RTT", to: "> NO_RTT" },
    Bug { file: "bbr3/control.h", function: "bbr3_offload_budget", from: "> 1 ?", to: ">= 1 ?" },
    Bug { file: "bbr3/control.h", function: "bbr3_quantization_budget", from: "u64_max(u64_max(", to: "u64_min(u64_max(" },
    Bug { file: "bbr3/control.h", function: "bbr3_inflight_with_headroom", from: "u64_max(bbr3_permille", to: "u64_min(bbr3_permille" },
    Bug { file: "bbr3/control.h", function: "bbr3_apply_pacing_rate", from: ", 1);", to: ", 0);" },
    Bug { file: "bbr3/control.h", function: "bbr3_set_pacing_rate_with_gain", from: "rate > c->out", to: "rate < c->out" },
    Bug { file: "bbr3/control.h", function: "bbr3_set_send_quantum", from: "/ bbr3_unit_bytes(c)", to: "* bbr3_unit_bytes(c)" },
    Bug { file: "bbr3/control.h", function: "bbr3_bound_cwnd_for_model", from: "!= BBR3_PROBE_BW_CRUISE", to: "!= BBR3_PROBE_BW_DOWN" },
    Bug { file: "bbr3/control.h", function: "bbr3_set_cwnd", from: "c->out->cwnd < max_inflight ||", to: "c->out->cwnd <= max_inflight ||" },
    Bug { file: "bbr3/ladder.h", function: "ladder_start_slot", from: "U64_MAX", to: "0" },
    Bug { file: "bbr3/ladder.h", function: "ladder_is_slot_over", from: ">= c->p->ladder.slot_min_acks", to: "> c->p->ladder.slot_min_acks" },
    Bug { file: "bbr3/ladder.h", function: "ladder_is_slot_over", from: ">= gain_apply", to: "> gain_apply" },
    Bug { file: "bbr3/ladder.h", function: "ladder_is_slot_over", from: ">= bbr3_segments", to: "> bbr3_segments" },
    Bug { file: "bbr3/ladder.h", function: "ladder_learn", from: "l->usual_rtt = rtt;", to: "l->usual_rtt = rtt + 1;" },
    Bug { file: "bbr3/ladder.h", function: "ladder_is_queue", from: "u64_max(gain_apply", to: "u64_min(gain_apply" },
    Bug { file: "bbr3/ladder.h", function: "ladder_is_queue", from: "l->usual_rtt &&", to: "" },
    Bug { file: "bbr3/ladder.h", function: "ladder_judge_slot", from: "== BBR3_PROBE_BW_CRUISE", to: "== BBR3_PROBE_BW_DOWN" },
    Bug { file: "bbr3/ladder.h", function: "ladder_judge_slot", from: "< l->phase_delivered", to: "<= l->phase_delivered" },
    Bug { file: "bbr3/ladder.h", function: "ladder_judge_slot", from: "l->shared_stamp_us = c->ack->now_us;", to: "l->shared_stamp_us = l->slot_us;" },
    Bug { file: "bbr3/ladder.h", function: "ladder_is_shared", from: "< c->p->ladder.shared_us", to: "> c->p->ladder.shared_us" },
    Bug { file: "bbr3/ladder.h", function: "ladder_is_shared", from: "is_recent &&", to: "!is_recent &&" },
    Bug { file: "bbr3/ladder.h", function: "ladder_is_shared", from: "&& !c->bbr->loss.share", to: "" },
    Bug { file: "bbr3/ladder.h", function: "ladder_is_shared", from: "&& !c->bbr->varying.is_on", to: "" },
    Bug { file: "bbr3/ladder.h", function: "bbr3_note_cruise", from: "if (c->p->ladder.is_on)", to: "if (!c->p->ladder.is_on)" },
    Bug { file: "bbr3/probe_bw.h", function: "bbr3_start_probe_bw_cruise", from: "bbr3_note_cruise(c);", to: "" },
    Bug { file: "bbr3/ladder.h", function: "ladder_judge_slot", from: "== NO_RTT", to: "> NO_RTT" },
    Bug { file: "bbr3/ladder.h", function: "ladder_is_queue_of_others", from: "usual_rtt >", to: "usual_rtt >=" },
    Bug { file: "bbr3/ladder.h", function: "bbr3_max_rounds", from: "!ladder_is_shared(c)", to: "ladder_is_shared(c)" },
    Bug { file: "bbr3/ladder.h", function: "ladder_is_wait_ours", from: "c->p->ladder.is_on &&", to: "" },
    Bug { file: "bbr3/ladder.h", function: "ladder_is_wait_ours", from: "&& !c->bbr->prev_probe_too_high", to: "" },
    Bug { file: "bbr3/ladder.h", function: "bbr3_start_ladder", from: "queue_slots = 0;", to: "queue_slots = 1;" },
    Bug { file: "bbr3/ladder.h", function: "bbr3_start_ladder", from: "ladder_start_slot(c);", to: "" },
    Bug { file: "bbr3/ladder.h", function: "ladder_has_grown", from: "GAIN_UNIT) / 2", to: "GAIN_UNIT) / 4" },
    Bug { file: "bbr3/ladder.h", function: "bbr3_is_ladder_over", from: "< c->p->up_pacing_gain", to: "<= c->p->up_pacing_gain" },
    Bug { file: "bbr3/ladder.h", function: "bbr3_is_ladder_over", from: ">= c->p->ladder.first_rounds", to: "> c->p->ladder.first_rounds" },
    Bug { file: "bbr3/ladder.h", function: "bbr3_is_ladder_over", from: "(rounds && ladder", to: "(ladder" },
    Bug { file: "bbr3/ladder.h", function: "bbr3_is_ladder_over", from: "== BBR3_INFINITY", to: "!= BBR3_INFINITY" },
    Bug { file: "bbr3/ladder.h", function: "bbr3_is_ladder_over", from: "if (is_limited)", to: "if (!is_limited)" },
    Bug { file: "bbr3/ladder.h", function: "bbr3_is_ladder_over", from: ">= c->p->ladder.flat_rounds", to: "> c->p->ladder.flat_rounds" },
    Bug { file: "bbr3/ladder.h", function: "bbr3_is_ladder_over", from: ">= c->p->ladder.slots", to: "> c->p->ladder.slots" },
    Bug { file: "bbr3/loss_model.h", function: "loss_is_above", from: "is_limit ? c->p->loss.limit :", to: "!is_limit ? c->p->loss.limit :" },
    Bug { file: "bbr3/loss_model.h", function: "loss_is_above", from: "sat_mul(above, above)", to: "above" },
    Bug { file: "bbr3/loss_model.h", function: "loss_is_over_limit", from: "sat_sub(lost, bbr3_segments(c, 1))", to: "lost" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_is_loss_round_tolerated", from: "l->share &&", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_is_loss_round_tolerated", from: "l->round_sent / 2", to: "l->round_sent" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_start_loss_round", from: "l->round_high = 0;", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_gather_rtt", from: "!l->slot_us ||", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_gather_rtt", from: "l->slot_us ? l->slot_rtt_us : NO_RTT", to: "l->slot_rtt_us" },
    Bug { file: "bbr3/loss_model.h", function: "loss_gather_rtt", from: ">= gain_apply", to: "> gain_apply" },
    Bug { file: "bbr3/loss_model.h", function: "loss_gather_rtt", from: "l->slot_rtt_us = NO_RTT;", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_rtt_us", from: "c->bbr->loss.last_slot_rtt_us)", to: "c->bbr->loss.slot_rtt_us)" },
    Bug { file: "bbr3/loss_model.h", function: "loss_margin_us", from: "/ 4, base", to: "/ 2, base" },
    Bug { file: "bbr3/loss_model.h", function: "loss_margin_us", from: "base_us / 8", to: "base_us" },
    Bug { file: "bbr3/loss_model.h", function: "loss_base_us", from: "l->last_base_rtt_us) : NO_RTT", to: "l->base_rtt_us) : NO_RTT" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge_base", from: "< l->counted_base_us", to: "> l->counted_base_us" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge_base", from: "l->counted_base_us = 0;", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge_base", from: "u64_max(l->counted_base_us, base_us)", to: "base_us" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_update_loss_model", from: "loss_judge_base(c);", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_end", from: "if (c->bbr->loss.share)", to: "if (1)" },
    Bug { file: "bbr3/loss_model.h", function: "loss_end", from: "u64_max(c->bbr->loss.hold_round, hold_round)", to: "hold_round" },
    Bug { file: "bbr3/loss_model.h", function: "loss_end", from: "hold_round);\n\tloss_keep(c, 0);", to: "hold_round);" },
    Bug { file: "bbr3/loss_model.h", function: "loss_age", from: "GAIN_UNIT / 2", to: "GAIN_UNIT" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge", from: "loss_age(c);", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_fail", from: "l->blind_probes = 0;", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_is_flight_too_small", from: "c->ack->rs_tx_in_flight && c", to: "c" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_is_flight_too_small", from: "< c->p->loss.small_rounds", to: "<= c->p->loss.small_rounds" },
    Bug { file: "bbr3/model.h", function: "bbr3_check_full_bw_reached", from: "c->bbr->loss.small_rounds++;", to: "" },
    Bug { file: "bbr3/model.h", function: "bbr3_reset_full_bw", from: "c->bbr->loss.small_rounds = 0;", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_update_base", from: "base_us >= NO_RTT ||", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_update_base", from: "base_us >= NO_RTT ? NO_RTT : l->base_rtt_us", to: "l->base_rtt_us" },
    Bug { file: "bbr3/loss_model.h", function: "loss_update_base", from: "l->base_rtt_us = NO_RTT;", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_is_growth_free", from: "!c->bbr->loss.was_full &&", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_start_loss_round", from: "l->round_high ||", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_start_loss_round", from: "loss.growth_share, 0)", to: "loss.growth_share, 1)" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_loss_gain", from: "GAIN_UNIT / 2", to: "GAIN_UNIT / 32" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_loss_gain", from: "c->bbr->state == BBR3_PROBE_BW_CRUISE ||", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_loss_gain", from: "|| c->bbr->state == BBR3_PROBE_BW_REFILL", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_loss_gain", from: "&& is_even", to: "&& (is_even | 1)" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_loss_gain", from: "&& loss_is_queue_low(c)", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_loss_gain", from: "c->p->loss.compensate &&", to: "!c->p->loss.compensate &&" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_loss_gain", from: "/ (GAIN_UNIT - share)", to: "/ (GAIN_UNIT + share)" },
    Bug { file: "bbr3/loss_model.h", function: "loss_is_queue_low", from: "usual / LOSS_PARTS, slack_us", to: "usual / LOSS_PARTS, 0" },
    Bug { file: "bbr3/loss_model.h", function: "loss_is_queue_low", from: "return is_usual &&", to: "return (is_usual | 1) &&" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_is_growth_free", from: "!c->bbr->full_bw_count &&", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_count", from: "else if (loss_rtt_us(c) < NO_RTT)", to: "else" },
    Bug { file: "bbr3/loss_model.h", function: "loss_is_queue_high", from: "loss_rtt_us(c) < NO_RTT &&", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_is_flight_too_small", from: "c->bbr->state != BBR3_STARTUP ||", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_is_flight_too_small", from: "!c->ack->lost ||", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_is_flight_too_small", from: "|| loss_is_queue_high(c)", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_is_flight_too_small", from: ", c->ack->rs_lost", to: ", 0" },
    Bug { file: "bbr3/model.h", function: "bbr3_check_full_bw_reached", from: "(bbr3_is_flight_too_small(c))", to: "(bbr3_is_flight_too_small(c) && 0)" },
    Bug { file: "bbr3/loss_model.h", function: "loss_learn_rtt", from: "|| l->is_up", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_learn_rtt", from: "< LOSS_QUIET_AFTER", to: "<= LOSS_QUIET_AFTER" },
    Bug { file: "bbr3/loss_model.h", function: "loss_count", from: "c->ack->newly_acked, c->ack->newly_lost)", to: "c->ack->newly_acked, 0)" },
    Bug { file: "bbr3/loss_model.h", function: "loss_add_round", from: "if (l->was_up)", to: "if (l->is_up)" },
    Bug { file: "bbr3/loss_model.h", function: "loss_add_round", from: "!l->is_up &&", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_add_round", from: "l->high_sent <= l->low_sent", to: "l->high_sent < l->low_sent" },
    Bug { file: "bbr3/loss_model.h", function: "loss_start_round", from: "l->is_up ? 0 :", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_start_round", from: "l->was_up = l->is_up;", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_fail", from: "loss_keep(c, 0);", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_fail", from: "l->failures + 1", to: "l->failures" },
    Bug { file: "bbr3/loss_model.h", function: "loss_may_tolerate", from: "share >= c->p->loss.min_share &&", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_may_tolerate", from: "&& (l->share || l->up_sent)", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_may_tolerate", from: "(l->share || l->up_sent)", to: "l->up_sent" },
    Bug { file: "bbr3/loss_model.h", function: "loss_bdp_segments", from: "/ bbr3_segments(c, 1)", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_may_tolerate", from: "u64_max(loss_bdp_segments(c), counted)", to: "counted" },
    Bug { file: "bbr3/loss_model.h", function: "loss_may_tolerate", from: "u64_max(loss_bdp_segments(c), counted)", to: "loss_bdp_segments(c) + (counted & 0)" },
    Bug { file: "bbr3/loss_model.h", function: "loss_add_round", from: "sat_mul(l->low_sent, segments)", to: "segments" },
    Bug { file: "bbr3/loss_model.h", function: "loss_keep", from: "l->quiet_low_bdp = gain_apply(l->quiet_low_bdp, part);", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_depends_on_us", from: "l->up_lost, l->up_sent", to: "l->up_lost, l->quiet_low_sent" },
    Bug { file: "bbr3/loss_model.h", function: "loss_depends_on_us", from: "l->quiet_high_lost, l->quiet_high_sent, share", to: "0, l->quiet_high_sent, share" },
    Bug { file: "bbr3/loss_model.h", function: "loss_depends_on_us", from: "(l->share &&", to: "(" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge", from: "c->bbr->round_count < l->hold_round ||", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge", from: "!l->share && !is_enough", to: "!is_enough" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge", from: "if (!l->share)\n\t\tl->first", to: "if (l->share)\n\t\tl->first" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge", from: "l->failures /= 2;", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_end_tolerance", from: "c->p->loss.is_on", to: "!c->p->loss.is_on" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_update_loss_model", from: "|| c->bbr->state == BBR3_PROBE_BW_UP", to: "" },
    Bug { file: "bbr3/model.h", function: "bbr3_adapt_lower_bounds_from_congestion", from: "&& !bbr3_is_loss_round_tolerated(c)", to: "" },
    Bug { file: "bbr3/model.h", function: "bbr3_forget_losses", from: "c->bbr->inflight_longterm = BBR3_INFINITY;", to: "" },
    Bug { file: "bbr3/model.h", function: "bbr3_is_loss_too_high", from: "bbr3_is_loss_ours(c, above, tx_in_flight)", to: "above" },
    Bug { file: "bbr3/loss_model.h", function: "loss_is_path_full", from: "rtt_us < NO_RTT &&", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_is_path_full", from: "u64_max(gain_apply", to: "u64_min(gain_apply" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_note_full_path", from: "c->bbr->loss.saw_full = 1;", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_note_full_path", from: "c->bbr->loss.shows_full = 1;", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_note_full_path", from: "c->bbr->loss.blind_probes = 0;", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_count", from: "l->is_app_limited |= c->ack->rs_is_app_limited;", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_fail", from: "l->shows_full ? 1 :", to: "!l->shows_full ? 1 :" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge_probe", from: "!l->saw_full &&", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge_probe", from: "!l->is_app_limited &&", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge_probe", from: "&& !c->bbr->prev_probe_too_high", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge_probe", from: "!l->was_up ||", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge_probe", from: "|| l->is_up", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge_probe", from: "is_blind && l->share", to: "is_blind" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge_probe", from: "l->saw_full = 0;", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge_probe", from: "l->is_app_limited = 0;", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge_probe", from: "l->shows_full = 0;", to: "" },
    Bug { file: "bbr3/loss_model.h", function: "loss_judge_probe", from: ">= c->p->loss.blind_probes", to: "> c->p->loss.blind_probes" },
    Bug { file: "bbr3/loss_model.h", function: "bbr3_update_loss_model", from: "loss_judge_probe(c);", to: "" },
    Bug { file: "bbr3/ladder.h", function: "bbr3_is_ladder_over", from: "bbr3_note_full_path(c);", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_start_round", from: "n->rounds++;", to: "n->rounds = 1;" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_start_round", from: "n->is_app_limited = 0;", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_start_round", from: "n->had_queue = 0;", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_is_queue", from: "rtt_us > bbr3_min_rtt_and(", to: "rtt_us >= bbr3_min_rtt_and(" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_yield", from: "n->alone_bw = u64_max(n->alone_bw, c->bbr->max_bw);", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_yield", from: "n->limit = arrived;", to: "n->limit = 0;" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_yield", from: "else if (n->was_taken)", to: "else" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_yield", from: "n->was_taken = is_taken;", to: "n->was_taken |= is_taken;" },
    Bug { file: "bbr3/newcomer.h", function: "bbr3_make_room", from: "n->was_taken = 0;", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_yield", from: "sat_sub(GAIN_UNIT, c->p->newcomer.taken)", to: "GAIN_UNIT" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_yield", from: "if (!is_taken)", to: "if (is_taken)" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_bound", from: "c->bbr->max_bw_0 = u64_min(c->bbr->max_bw_0, limit);", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_bound", from: "c->bbr->max_bw_1 = u64_min(c->bbr->max_bw_1, limit);", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_bound", from: "c->bbr->max_bw = u64_min(c->bbr->max_bw, limit);", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "bbr3_make_room", from: "newcomer_bound(c);", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "bbr3_make_room", from: "n->limit = 0;", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_judge_round", from: "n->rounds < 2", to: "n->rounds < 3" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_judge_round", from: "&& !n->is_app_limited", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_judge_round", from: "else if (!n->is_app_limited)", to: "else" },
    Bug { file: "bbr3/newcomer.h", function: "bbr3_note_restart", from: "c->bbr->newcomer.rounds = 0;", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "bbr3_note_cruise_queue", from: "c->p->newcomer.is_on", to: "1" },
    Bug { file: "bbr3/newcomer.h", function: "bbr3_note_own_queue", from: "c->p->newcomer.is_on &&", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_judge_round", from: "n->quiet_us = 0;", to: ";" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_had_queue", from: "!c->bbr->loss.share ||", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_had_queue", from: "!newcomer_is_empty", to: "newcomer_is_empty" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_judge_round", from: "n->alone_bw &&", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "newcomer_judge_round", from: "c->bbr->brake.mode == BRAKE_WATCH &&", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "bbr3_make_room", from: "n->rounds = 0;", to: "" },
    Bug { file: "bbr3/newcomer.h", function: "bbr3_note_own_queue", from: ">= c->p->newcomer.alone_us", to: "> c->p->newcomer.alone_us" },
    Bug { file: "bbr3/newcomer.h", function: "bbr3_note_own_queue", from: "is_empty && is_quiet", to: "(is_empty | 1) && is_quiet" },
    Bug { file: "bbr3/newcomer.h", function: "bbr3_note_own_queue", from: "is_first_gain &&", to: "(is_first_gain | 1) &&" },
    Bug { file: "bbr3/newcomer.h", function: "bbr3_note_own_queue", from: "if (c->p->newcomer.spares_probe_rtt)", to: "if (!c->p->newcomer.spares_probe_rtt)" },
    Bug { file: "bbr3/ladder.h", function: "bbr3_is_ladder_over", from: "bbr3_note_own_queue(c, l->usual_rtt / LADDER_PARTS);", to: "" },
    Bug { file: "bbr3/ladder.h", function: "ladder_judge_slot", from: "bbr3_note_cruise_queue(c);", to: "" },
    Bug { file: "brake.h", function: "brake_release", from: "brake_set_mode(s, BRAKE_WATCH);", to: "" },
    Bug { file: "brake.h", function: "brake_release", from: "s->releases++;", to: "" },
    Bug { file: "bbr3/braking.h", function: "bbr3_run_brake", from: "!c->bbr->varying.is_on", to: "1" },
    Bug { file: "bbr3/varying.h", function: "varying_start_slot", from: "v->is_app_limited = 0;", to: "" },
    Bug { file: "bbr3/varying.h", function: "varying_start_interval", from: "v->interval_rtt_us = NO_RTT;", to: "" },
    Bug { file: "bbr3/varying.h", function: "varying_start_interval", from: "v->interval_delivered = c->ack->delivered;", to: "" },
    Bug { file: "bbr3/varying.h", function: "varying_bw", from: "u64_max(u64_max(v->bw_0, v->bw_1), v->bw_2)", to: "u64_max(v->bw_0, v->bw_1)" },
    Bug { file: "bbr3/varying.h", function: "varying_rtt_and", from: "u64_min(u64_min(v->gap_0_us, v->gap_1_us), v->gap_2_us)", to: "u64_min(v->gap_0_us, v->gap_1_us)" },
    Bug { file: "bbr3/varying.h", function: "varying_start_slot", from: "v->gap_us = 0;", to: "" },
    Bug { file: "bbr3/varying.h", function: "varying_start_slot", from: "v->last_us = c->ack->now_us;", to: "" },
    Bug { file: "bbr3/varying.h", function: "bbr3_run_varying", from: "v->last_us = c->ack->now_us;", to: "" },
    Bug { file: "bbr3/varying.h", function: "bbr3_run_varying", from: "u64_max(v->gap_us, ", to: "u64_min(v->gap_us, " },
    Bug { file: "bbr3/varying.h", function: "varying_has_moved", from: "before && (", to: "(" },
    Bug { file: "bbr3/varying.h", function: "varying_has_moved", from: "bw > gain_apply(before, step)", to: "bw >= before" },
    Bug { file: "bbr3/varying.h", function: "varying_has_moved", from: "|| before > gain_apply(bw, step)", to: "" },
    Bug { file: "bbr3/varying.h", function: "varying_end_interval", from: "v->interval_rtt_us > busy_rtt_us", to: "v->interval_rtt_us >= busy_rtt_us" },
    Bug { file: "bbr3/varying.h", function: "varying_end_interval", from: "if (!v->move_bw)", to: "" },
    Bug { file: "bbr3/varying.h", function: "varying_end_interval", from: "varying_enter(c);", to: "" },
    Bug { file: "bbr3/varying.h", function: "varying_end_interval", from: "varying_start_interval(c);", to: "" },
    Bug { file: "bbr3/varying.h", function: "varying_enter", from: "!v->is_on &&", to: "" },
    Bug { file: "bbr3/varying.h", function: "varying_enter", from: "&& c->ack->now_us >= v->hold_us", to: "" },
    Bug { file: "bbr3/varying.h", function: "varying_enter", from: "v->queue_rounds = 0;", to: "" },
    Bug { file: "bbr3/varying.h", function: "varying_enter", from: "bbr3_release_brake(c);", to: "" },
    Bug { file: "bbr3/braking.h", function: "bbr3_release_brake", from: "u64_max(", to: "u64_min(" },
    Bug { file: "bbr3/braking.h", function: "bbr3_release_brake", from: "c->bbr->brake.mode != BRAKE_WATCH", to: "1" },
    Bug { file: "bbr3/braking.h", function: "bbr3_release_brake", from: "brake_release(&c->bbr->brake);", to: "" },
    Bug { file: "bbr3/varying.h", function: "bbr3_run_varying", from: "c->ack->now_us < v->until_us", to: "c->ack->now_us <= v->until_us" },
    Bug { file: "bbr3/varying.h", function: "varying_end_slot", from: "v->is_app_limited &&", to: "" },
    Bug { file: "bbr3/varying.h", function: "varying_end_slot", from: "bw <= varying_bw(c)", to: "bw < varying_bw(c)" },
    Bug { file: "bbr3/varying.h", function: "varying_end_slot", from: "u64_max(c->p->varying.interval_us, v->interval_rtt_us)", to: "c->p->varying.interval_us" },
    Bug { file: "bbr3/varying.h", function: "varying_judge_round", from: "rtt_us != NO_RTT &&", to: "" },
    Bug { file: "bbr3/varying.h", function: "varying_judge_round", from: "sat_add(c->p->varying.queue, VARYING_SLACK)", to: "c->p->varying.queue" },
    Bug { file: "bbr3/varying.h", function: "varying_judge_round", from: "? v->queue_rounds + 1 : 0", to: "? v->queue_rounds + 1 : v->queue_rounds" },
    Bug { file: "bbr3/varying.h", function: "varying_judge_round", from: ">= c->p->varying.rounds", to: "> c->p->varying.rounds" },
    Bug { file: "bbr3/varying.h", function: "bbr3_run_varying", from: "!bbr3_is_in_a_probe_bw_state(c)", to: "0" },
    Bug { file: "bbr3/varying.h", function: "bbr3_run_varying", from: "c->bbr->round_start &&", to: "" },
    Bug { file: "bbr3/varying.h", function: "bbr3_run_varying", from: "v->is_app_limited |= c->ack->rs_is_app_limited;", to: "" },
    Bug { file: "bbr3/varying.h", function: "bbr3_run_varying", from: "span_us >= c->bbr->min_rtt_us &&", to: "" },
    Bug { file: "bbr3/varying.h", function: "bbr3_run_varying", from: "data >= bbr3_segments", to: "data > bbr3_segments" },
    Bug { file: "bbr3/varying.h", function: "bbr3_bound_cwnd_for_varying", from: "u64_max(window, bbr3_min_pipe_cwnd(c))", to: "window" },
    Bug { file: "bbr3/varying.h", function: "bbr3_bound_cwnd_for_varying", from: "u64_min(c->out->cwnd, ", to: "u64_max(c->out->cwnd, " },
    Bug { file: "bbr3/startup.h", function: "bbr3_is_startup_loss_high", from: "!bbr3_is_growth_free(c) &&", to: "" },
    Bug { file: "bbr3/model.h", function: "bbr3_update_round", from: "c->bbr->rounds_since_probe_up++;", to: "" },
    Bug { file: "bbr3/model.h", function: "bbr3_update_round", from: "c->bbr->last_round_rtt_us = c->bbr->round_rtt_us;", to: "" },
    Bug { file: "bbr3/model.h", function: "bbr3_update_round", from: "c->bbr->round_rtt_us = NO_RTT;", to: "" },
    Bug { file: "bbr3/model.h", function: "bbr3_update_round", from: "c->bbr->round_rtt_us = u64_min(c->bbr->round_rtt_us, c->ack->rs_rtt_us);", to: "" },
    Bug { file: "bbr3/model.h", function: "bbr3_update_max_bw", from: "rate >= c->bbr->max_bw ||", to: "rate > c->bbr->max_bw ||" },
    Bug { file: "bbr3/model.h", function: "bbr3_advance_max_bw_filter", from: "c->bbr->max_bw_1 = 0;", to: "" },
    Bug { file: "bbr3/model.h", function: "bbr3_check_full_bw_reached", from: "rate >= gain", to: "rate > gain" },
    Bug { file: "bbr3/model.h", function: "bbr3_update_latest_delivery_signals", from: ">= c->bbr->loss_round_delivered", to: "> c->bbr->loss_round_delivered" },
    Bug { file: "bbr3/model.h", function: "bbr3_is_probing_bw", from: "BBR3_PROBE_BW_REFILL", to: "BBR3_PROBE_BW_CRUISE" },
    Bug { file: "bbr3/model.h", function: "bbr3_update_ecn_alpha", from: "ce_ratio >= c->p", to: "ce_ratio > c->p" },
    Bug { file: "bbr3/model.h", function: "bbr3_loss_lower_bounds", from: "u64_max(c->bbr->inflight_latest,", to: "u64_min(c->bbr->inflight_latest," },
    Bug { file: "bbr3/model.h", function: "bbr3_save_cwnd", from: "< CA_RECOVERY", to: "<= CA_RECOVERY" },
    Bug { file: "bbr3/model.h", function: "bbr3_save_state_upon_loss", from: "c->bbr->undo_state = BBR3_NONE;", to: "" },
    Bug { file: "bbr3/model.h", function: "bbr3_note_loss", from: "+= starts_range", to: "+= 2 * starts_range" },
    Bug { file: "bbr3/model.h", function: "bbr3_update_ack_aggregation", from: "<= expected_delivered", to: "< expected_delivered" },
    Bug { file: "bbr3/model.h", function: "bbr3_update_ack_aggregation", from: "sat_sub(filter_len, 1)", to: "filter_len" },
    Bug { file: "bbr3/model.h", function: "bbr3_update_min_rtt", from: "now_us > due_us", to: "now_us >= due_us" },
    Bug { file: "bbr3/model.h", function: "bbr3_is_loss_too_high", from: "sat_sub(lost,", to: "sat_sub(lost + 1," },
    Bug { file: "bbr3/model.h", function: "bbr3_is_inflight_too_high", from: "sat_add(ack->rs_lost, ce)", to: "ack->rs_lost" },
    Bug { file: "bbr3/model.h", function: "bbr3_inflight_at_loss", from: "spare / (1000 - thresh)", to: "spare / 1000" },
    Bug { file: "bbr3/probe_bw.h", function: "bbr3_pick_probe_wait", from: "(u32)c->ack->rand", to: "c->ack->rand" },
    Bug { file: "bbr3/probe_bw.h", function: "bbr3_start_probe_bw_down", from: "bbr3_start_round(c);", to: "" },
    Bug { file: "bbr3/probe_bw.h", function: "bbr3_raise_inflight_longterm_slope", from: "u64_max(per_inc", to: "u64_min(per_inc" },
    Bug { file: "bbr3/probe_bw.h", function: "bbr3_is_reno_coexistence_probe_time", from: ">= u64_min", to: "> u64_min" },
    Bug { file: "bbr3/probe_bw.h", function: "bbr3_is_time_to_cruise", from: "&&", to: "||" },
    Bug { file: "bbr3/probe_bw.h", function: "bbr3_has_reached_inflight_longterm", from: "> c->bbr", to: ">= c->bbr" },
    Bug { file: "bbr3/probe_bw.h", function: "bbr3_is_limited_by_inflight_longterm", from: ">= c->bbr", to: "> c->bbr" },
    Bug { file: "bbr3/probe_bw.h", function: "bbr3_probe_inflight_longterm_upward", from: "-= delta * per_inc", to: "= 0" },
    Bug { file: "bbr3/probe_bw.h", function: "bbr3_handle_inflight_too_high", from: "!c->ack->rs_is_app_limited", to: "!c->ack->is_app_limited" },
    Bug { file: "bbr3/probe_bw.h", function: "bbr3_note_ce", from: "<= c->bbr->delivered_ce", to: "< c->bbr->delivered_ce" },
    Bug { file: "bbr3/probe_bw.h", function: "bbr3_advance_ack_phase", from: "!c->bbr->prev_probe_precautionary ||", to: "" },
    Bug { file: "bbr3/probe_bw.h", function: "bbr3_adapt_inflight_longterm", from: "== BBR3_PROBE_BW_UP", to: "== BBR3_PROBE_BW_REFILL" },
    Bug { file: "bbr3/startup.h", function: "bbr3_is_startup_loss_high", from: "is_round_in_recovery || is_ce_loss", to: "is_round_in_recovery | !is_ce_loss" },
    Bug { file: "bbr3/startup.h", function: "bbr3_is_startup_loss_high", from: ">= c->bbr->recovery_delivered", to: "> c->bbr->recovery_delivered" },
    Bug { file: "bbr3/startup.h", function: "bbr3_check_drain_done", from: "> last_round", to: ">= last_round" },
    Bug { file: "bbr3/probe_rtt.h", function: "bbr3_check_probe_rtt_done", from: "> c->bbr->probe_rtt_done_stamp", to: ">= c->bbr->probe_rtt_done_stamp" },
    Bug { file: "bbr3/probe_rtt.h", function: "bbr3_check_probe_rtt", from: "&& !c->bbr->idle_restart", to: "" },
    Bug { file: "bbr3/recovery.h", function: "bbr3_update_recovery", from: "prev_state >= CA_RECOVERY", to: "prev_state > CA_RECOVERY" },
    Bug { file: "bbr3/recovery.h", function: "bbr3_on_enter_rto", from: "bbr3_save_cwnd(c);", to: "" },
    Bug { file: "bbr3/recovery.h", function: "bbr3_handle_spurious_loss_detection", from: "bbr3_reset_full_bw(c);", to: "" },
    Bug { file: "bbr3.h", function: "bbr3_update_on_ack", from: "if (c->ack->rs_interval_us)", to: "if (c->ack->rs_delivered)" },
];
