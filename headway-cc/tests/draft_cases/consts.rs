//! CONST: the draft's numbers (§2.5 to §2.16, §5.6.1).

use super::driver::*;
use headway_cc::cc::bbr3::*;

#[test]
fn const_01_startup_paces_at_2_77() {
    for state in BBR3_STARTUP..=BBR3_PROBE_RTT {
        assert_eq!(Flow::at(state).s.state, state);
    }
}
