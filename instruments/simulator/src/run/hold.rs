//! Chooses the steps that are held up, and for how long.

use super::{Run, Running};
use crate::setup::Theme;
use crate::turns::{Kind, Waiting};
use crate::work::Work;

/// The most operations that sleep at the same time; the others continue.
const ASLEEP_MAX: usize = 2;

/// The longest time for which a step is held up, in turns.
const HELD_MAX: u64 = 600;

/// Whether the next writer that announces a change is suspended before, until all are released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Suspension {
    #[default]
    None,
    Wanted,
    Begun,
}

impl Run {
    /// Holds up some of the steps that began to wait since the last turn.
    pub(super) fn hold_some(&mut self, step: u64) {
        let now_ms = self.true_ms();
        self.asleep.retain(|until| *until > step);
        let (schedule, asleep) = (&mut self.schedule, &mut self.asleep);
        let (running, setup, suspension) = (&self.running, &self.setup, &mut self.suspension);
        let (holds, sleeps) = if self.is_calm { (0, 0) } else { (setup.weather.holds, setup.pace.sleeps) };
        let hold = |waiting: &Waiting| {
            if *suspension == Suspension::Wanted && waiting.kind == Kind::Announcement {
                *suspension = Suspension::Begun;
                return u64::MAX;
            }
            let of = running.iter().find(|one| Some(one.op) == waiting.op);
            // Most operations are held up for at most as long as a request may take.
            let left_ms = of.map_or(300, |one| setup.request_ms_max.saturating_sub(now_ms - one.began_ms));
            let can_sleep = sleeps > 0
                && asleep.len() < ASLEEP_MAX
                && of.is_some_and(|one| can_sleep(setup.theme, &one.work, waiting.kind));
            if can_sleep && schedule.permille(sleeps) {
                let (least, most) = setup.pace.sleep;
                let most = if is_request(of) { most.min(left_ms / setup.moment_ms) } else { most };
                let until = step + schedule.between(least.min(most), most);
                asleep.push(until);
                return until;
            }
            if !schedule.permille(holds) {
                return 0;
            }
            let left_ms = match of {
                Some(Running { work: Work::Import { .. }, .. }) => setup.long_step_ms_max,
                Some(one) if setup.theme == Theme::Collecting && may_outlast_a_grace(&one.work) => {
                    setup.long_step_ms_max
                }
                _ => left_ms,
            };
            step + schedule.between(1, (left_ms / setup.moment_ms).clamp(1, HELD_MAX))
        };
        self.last_turn = self.turns.hold_new(self.last_turn, hold);
    }
}

/// Whether an operation may take longer than a grace. No request does, except an import, whose rows
/// are then fenced off, and plans and selections, which heads, pins and the life of a plan protect.
fn may_outlast_a_grace(work: &Work) -> bool {
    matches!(work, Work::Import { .. } | Work::Select { .. } | Work::ReadVolumes { .. })
}

fn is_request(of: Option<&Running>) -> bool {
    of.is_none_or(|one| !may_outlast_a_grace(&one.work))
}

/// Whether a step is one before which long activity of others matters.
fn can_sleep(theme: Theme, work: &Work, kind: Kind) -> bool {
    match (theme, work) {
        (Theme::Patient { .. }, Work::Import { .. }) => !kind.is_read(),
        (Theme::Patient { .. }, Work::ReadVolumes { .. }) => kind == Kind::ReadTogether,
        (Theme::Patient { .. }, Work::Select { .. }) => matches!(kind, Kind::ReadTogether | Kind::Pin),
        (Theme::Nested { .. }, Work::List { .. } | Work::Create { .. } | Work::Update { .. } | Work::Delete { .. }) => {
            true
        }
        _ => false,
    }
}
