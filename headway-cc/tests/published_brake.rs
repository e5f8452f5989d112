//! A model of the published formula for a braking BBR, and the tests that show why it does not brake.
//!
//! The formula (one for BBRv3 and one for BBRv1, by others) lowers the pacing gain on each ACK whose rate sample is below
//! the bandwidth in use. It was once a policy of the controllers; it changed next to nothing there, so it lives here,
//! around the controllers' own functions. `docs/explanation/brake.md` numbers what is wrong with it.

use headway_cc::cc::bbr1::{Bbr1Params, Bbr1State, bbr1_on_event};
use headway_cc::cc::bbr3::{Bbr3Params, Bbr3State, bbr3_on_event};
use headway_cc::cc::fixed::{BW_UNIT, GAIN_UNIT, bw_from, gain_apply};
use headway_cc::cc::{Ack, Control, Controller, Event};
use headway_cc::sim::{FlowSpec, SimRun, SimSpec, Source, run, run_with};

/// What the formula remembers, and its four constants. All ratios are gains.
#[derive(Clone, Copy, Debug)]
struct Formula {
    /// Reduction over the missing part of the bandwidth.
    alpha: u64,
    /// The largest reduction.
    ceiling: u64,
    /// The gain below which the window is to be cut.
    floor: u64,
    /// The smallest gain when it is.
    least: u64,
    /// What the last sample takes from the gain.
    reduction: u64,
    /// The next ACK is to leave the window as it is.
    flag: bool,
}

impl Default for Formula {
    fn default() -> Self {
        Self {
            alpha: GAIN_UNIT / 2,
            ceiling: GAIN_UNIT / 4,
            floor: GAIN_UNIT * 3 / 4,
            least: GAIN_UNIT / 8,
            reduction: 0,
            flag: false,
        }
    }
}

impl Formula {
    /// One valid sample: the gain that the formula makes of another. `old_bw` is the bandwidth in use before the sample.
    /// The early return comes first, so the flag outlives a sample that is not lower.
    fn take(&mut self, max_bw: u64, old_bw: u64, sample: u64, gain: u64) -> u64 {
        self.reduction = 0;
        if max_bw == 0 || sample >= old_bw {
            return gain;
        }
        // In the formula's own steps of 1/256.
        let missing = (old_bw - sample).saturating_mul(256) / max_bw;
        let reduction = gain_apply(missing, self.alpha).saturating_mul(GAIN_UNIT >> 8);
        let mut reduced = gain_apply(gain, GAIN_UNIT - reduction.min(self.ceiling).min(GAIN_UNIT));
        self.flag = reduced < self.floor;
        if self.flag {
            reduced = reduced.max(self.least);
        }
        self.reduction = gain - reduced;
        reduced
    }

    /// The step of the window, which the growth that follows undoes.
    fn cut(&mut self, cwnd: u64, acked: u64) -> u64 {
        if !self.flag || acked == 0 {
            return cwnd;
        }
        self.flag = false;
        cwnd.saturating_sub(acked).max(1)
    }
}

/// BBRv3 with the formula: it paces by the reduced gain.
#[derive(Clone, Debug, Default)]
struct Published3 {
    state: Bbr3State,
    params: Bbr3Params,
    formula: Formula,
    /// The rate that BBRv3 itself would pace at.
    pacing_rate: u64,
    reduced_rounds: u64,
}

impl Controller for Published3 {
    fn on_event(&mut self, ack: &Ack) -> Control {
        let mut ack = *ack;
        let is_sample = ack.event == Event::Ack && ack.newly_acked != 0 && ack.rs_interval_us != 0;
        if is_sample {
            let sample = bw_from(ack.rs_delivered, ack.rs_interval_us);
            self.formula.take(self.state.max_bw, self.state.bw, sample, GAIN_UNIT);
            ack.cwnd = self.formula.cut(ack.cwnd, ack.newly_acked);
        }
        ack.pacing_rate = self.pacing_rate;
        let mut out = Control::default();
        bbr3_on_event(&mut self.state, &self.params, &ack, &mut out);
        self.pacing_rate = out.pacing_rate;
        if is_sample {
            self.reduced_rounds += u64::from(self.state.round_start && self.formula.reduction > 0);
        }
        out.pacing_rate = gain_apply(out.pacing_rate, GAIN_UNIT - self.formula.reduction).max(1);
        out
    }

    fn state(&self) -> Vec<u64> {
        vec![self.state.round_count, self.reduced_rounds]
    }

    fn state_fields(&self) -> &'static [&'static str] {
        &["rounds", "reduced_rounds"]
    }
}

/// BBRv1 with the formula: it changes the pacing gain where it takes the sample, before the model is updated.
#[derive(Clone, Debug, Default)]
struct Published1 {
    state: Bbr1State,
    params: Bbr1Params,
    formula: Formula,
}

impl Controller for Published1 {
    fn on_event(&mut self, ack: &Ack) -> Control {
        if ack.event == Event::Ack && ack.rs_interval_us != 0 {
            let sample = bw_from(ack.rs_delivered, ack.rs_interval_us);
            let max_bw = self.state.bw.get();
            let bw = if self.state.lt_use_bw { self.state.lt_bw } else { max_bw };
            self.state.pacing_gain = self.formula.take(max_bw, bw, sample, self.state.pacing_gain);
        }
        let mut out = Control::default();
        bbr1_on_event(&mut self.state, &self.params, ack, &mut out);
        out
    }

    fn state(&self) -> Vec<u64> {
        vec![self.state.pacing_gain, self.formula.reduction]
    }

    fn state_fields(&self) -> &'static [&'static str] {
        &["pacing_gain", "reduction"]
    }
}

const BW: u64 = 100 * BW_UNIT;

/// The factor that a sample makes of a gain of 1, in percent, and the flag.
fn factor(max_bw: u64, old_bw: u64, sample: u64) -> (u64, bool) {
    let mut formula = Formula::default();
    let factor = formula.take(max_bw, old_bw, sample, GAIN_UNIT);
    (factor * 100 / GAIN_UNIT, formula.flag)
}

/// Defects 1 and 2: whatever the drop, the factor stays at 3/4 or above and the flag is never set; a path of half the
/// rate and one of a tenth have the same answer.
#[test]
fn the_flag_is_unreachable_and_the_cap_comes_at_half() {
    for permille in 0..=1000 {
        let (factor, flag) = factor(BW, BW, BW / 1000 * permille);
        assert!(factor >= 75 && !flag, "{permille}: {factor} %, flag {flag}");
    }
    assert_eq!((factor(BW, BW, BW / 2).0, factor(BW, BW, BW / 10).0), (75, 75));
    assert_eq!(factor(BW, BW, BW * 3 / 4).0, 87, "half of a quarter, in steps of 1/256");
}

/// Defect 3: the window's step is undone by the growth that follows; alone, it goes below any minimum.
#[test]
fn the_cut_of_the_window_is_undone() {
    let armed = Formula { flag: true, ..Formula::default() };
    let mut formula = armed;
    assert_eq!(formula.cut(100, 10) + 10, 100);
    assert!(!formula.flag);
    assert_eq!({ armed }.cut(10, 30), 1);
}

/// Defect 6: in a probe the factor makes 0.94 of 1.25, so that the probe finds nothing.
#[test]
fn the_factor_cancels_a_probe() {
    assert!(Formula::default().take(BW, BW, BW / 2, GAIN_UNIT * 5 / 4) < GAIN_UNIT);
}

/// Defect 7: once loss has lowered the bandwidth in use to what arrives, there is nothing to be seen.
#[test]
fn the_reference_moves_with_loss() {
    assert_eq!(factor(BW, BW * 4 / 10, BW * 4 / 10), (100, false));
}

/// Defect 9: where the flag can be set at all, a good sample leaves it.
#[test]
fn a_flag_stays_armed() {
    let mut formula = Formula { ceiling: GAIN_UNIT, ..Formula::default() };
    assert_eq!(formula.take(BW, BW, 0, GAIN_UNIT), GAIN_UNIT / 2);
    formula.take(BW, BW, BW, GAIN_UNIT);
    assert_eq!((formula.flag, formula.reduction), (true, 0));
}

fn spec(path: &str, source: Source, seconds: u64, seed: u64) -> SimSpec {
    let flow = FlowSpec { source, ..FlowSpec::bulk("bbr3") };
    SimSpec::new(path.parse().expect(path), vec![flow], seconds * 1_000_000, seed)
}

/// A flow with BBRv3, and the same with the formula.
fn without_and_with(path: &str, source: Source, seed: u64) -> [SimRun; 2] {
    let spec = spec(path, source, 20, seed);
    let published = run_with(&spec, &|_| Ok(Box::new(Published3::default())));
    [run(&spec), published].map(|run| run.expect("a valid spec"))
}

/// Defects 4 and 5: a steady link and an application below it set it off nearly always.
#[test]
fn it_is_on_where_nothing_is_wrong() {
    let messages = Source::Messages { bytes: 25_000, interval_us: 20_000 };
    for (path, source) in
        [("50mbit 40ms queue=2bdp jitter=5ms", Source::Bulk), ("50mbit 40ms queue=2bdp", messages)]
    {
        let [_, with] = without_and_with(path, source, 5);
        let [rounds, reduced] = with.flows[0].state[..] else { panic!("two words") };
        assert!(1000 * reduced / rounds > 500, "{path}: on in {reduced} of {rounds} rounds");
    }
    // And it costs throughput: it takes losses for a slower path.
    let lossy = without_and_with("50mbit 40ms queue=2bdp loss=1%", Source::Bulk, 5);
    let [without, with] = lossy.map(|run| run.flows[0].delivered_bytes);
    assert!(with * 100 < without * 97, "{without} bytes without, {with} with");
}

/// 99th percentile of the queueing delay of probes sent from 8 s to 18 s.
fn p99_us(run: &SimRun) -> u64 {
    let window = run.probes.iter().filter(|p| (8_000_000..18_000_000).contains(&p.sent_us));
    let mut delays: Vec<u64> =
        window.filter_map(|p| Some(p.rtt_us? - run.base_rtt_us.min(p.rtt_us?))).collect();
    delays.sort_unstable();
    delays[delays.len() * 99 / 100]
}

/// Defect 2 in a flow: after a deep drop the queue is as it was.
#[test]
fn it_does_not_shorten_the_queue() {
    let path = "50mbit 40ms queue=4bdp @8s 10mbit @13s 50mbit";
    let [without, with] = without_and_with(path, Source::Bulk, 1).map(|run| p99_us(&run));
    assert!(with * 10 >= without * 9, "{without} us without, {with} us with");
}

/// Defect 10: in v1 the gain that it changes is overwritten before anything is paced by it.
#[test]
fn it_does_not_pace_in_v1() {
    let mut spec = spec("50mbit 40ms queue=4bdp jitter=5ms", Source::Bulk, 10, 1);
    spec.trace = true;
    let run = run_with(&spec, &|_| Ok(Box::new(Published1::default()))).expect("a valid spec");
    let (trace, p) = (&run.flows[0].trace, Bbr1Params::default());
    let own = [p.high_gain, p.drain_gain, p.pacing_gain_up, p.pacing_gain_down, GAIN_UNIT, 0];
    assert!(trace.iter().filter(|row| row.state[1] > 0).count() > trace.len() / 4);
    assert!(trace.iter().all(|row| own.contains(&row.state[0])));
}
