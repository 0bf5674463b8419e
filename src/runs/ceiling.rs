//! What a plan asks of the generator, against what this machine's was measured to send.

use crate::{
    model::{AxisKind, figure},
    scenario::Plan,
    store::{Store, StoreError},
};

/// Beyond this share of the measured ceiling a rate may say more of the generator than of the target.
const SAFE_SHARE: f64 = 0.8;

/// The sentence for a plan whose highest rate lies too near to the ceiling; `None` where it does not, or nothing was measured.
pub(super) async fn remark(store: &Store, plan: &Plan) -> Result<Option<String>, StoreError> {
    if plan.scenario.workload.about().axis.kind != AxisKind::Rate {
        return Ok(None);
    }
    let Some(host) = crate::sample::this_machine().name else { return Ok(None) };
    let Some(made) = store.calibration(&host).await? else { return Ok(None) };
    let top = plan.outline.ladder.iter().copied().max().unwrap_or(0);
    Ok((top as f64 > SAFE_SHARE * made.ceiling_per_s as f64).then(|| {
        format!(
            "The highest rate is more than 80 % of the {} operations per second that a load thread of this machine was measured to send (`rampart calibrate`).",
            figure::group(&made.ceiling_per_s.to_string())
        )
    }))
}
