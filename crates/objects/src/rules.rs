//! The rules of the protocols, each of which can be left out to see that the simulator finds what then goes wrong.
//!
//! Without the feature `leave-out` all of them are kept, and asking for one is a constant. The names are those of `docs/protocols.md`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

macro_rules! rules {
    ($($(#[doc = $doc:literal])* $rule:ident = $name:literal,)*) => {
        /// A rule of the protocols.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule {
            $($(#[doc = $doc])* $rule,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &[Self] = &[$(Self::$rule),*];

            /// What it is called.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }
        }
    };
}

rules! {
    /// A sweeper, and who deletes a container, fences the head of a child that never came to be.
    Fence = "fence",
    /// A listing trusts a child only if it is confirmed.
    Confirm = "confirm",
    /// A child is marked as being removed before its head is deleted.
    DelIntent = "delintent",
    /// The marks of children are kept by the incarnation of their container.
    PInc = "pinc",
    /// The head of a removed tombstone becomes free; it is never absent again.
    KeepFree = "keepfree",
    /// Who does not know what came of a write looks for its revision in the head log too.
    Log = "log",
    /// Who is refused looks whether an earlier try of its own was applied.
    Relook = "relook",
    /// A new incarnation is above the floor of the head that was read.
    FloorRead = "floorread",
    /// The job is recorded before the head of a container says that it is being deleted.
    JobFirst = "jobfirst",
    /// The record of the job is dropped only after the head is deleted.
    JobFinish = "jobfinish",
    /// A creator reads the head before it announces the child, and starts anew under another incarnation when it is refused.
    HeadFirst = "headfirst",
    /// A child is written off by one more mark; no mark is removed.
    Marks = "marks",
    /// The container is required after the child was announced.
    ReqLast = "reqlast",
    /// The head is fenced before the child is marked as removed.
    KillBefore = "killbefore",
    /// A container's head says that it is being deleted before its children are read.
    ScanAfter = "scanafter",
    /// A rewritten shard is named beside the old one before it is filled.
    TwoEpochs = "twoepochs",
    /// Creators and deleters require that the shard they wrote to is still the one for new marks.
    EpochReq = "epochreq",
    /// All marks of a child are copied in one step.
    CopyOne = "copyone",
    /// The announcement of a child is repeated until it is acknowledged.
    AckIntent = "ackintent",
    /// What was deleted in an earlier incarnation of its container does not keep the name.
    PIncFree = "pincfree",
    /// A condemnation raises the floor of the head.
    Floor = "floor",
    /// A revision at or below the floor is never switched in.
    CondCas = "condcas",
    /// The grace counts from the condemnation.
    GraceObs = "graceobs",
    /// What was current when the condemnation was spoken stays.
    H0 = "h0",
    /// The life of a plan counts from before its heads are read.
    PlanFirst = "planfirst",
    /// A plan reads heads strongly.
    StrongHead = "stronghead",
    /// A selection is pinned before its heads are read once more.
    PinFirst = "pinfirst",
    /// The collector looks at the pins when it removes.
    PinScan = "pinscan",
    /// The grace is longer than the life of a plan and the difference of clocks.
    LongGrace = "grace",
    /// Away from the heads' home nothing is repaired.
    SweepAtHome = "sweepathome",
    /// A creation that begins anew knows that an earlier try may still arrive.
    StayUnsure = "stayunsure",
    /// Who is unsure looks serially.
    LookSerially = "lookserially",
    /// Each row is written at the level of its table, whatever it is written with. The engine keeps it.
    RowClass = "rowclass",
    /// A container that is being deleted is not marked as removed before its head is deleted.
    EndNested = "endnested",
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no rule `{0}`")]
pub struct NoRule(String);

impl FromStr for Rule {
    type Err = NoRule;

    fn from_str(text: &str) -> Result<Self, NoRule> {
        let named = Self::ALL.iter().find(|rule| rule.name() == text);
        named.copied().ok_or_else(|| NoRule(text.to_owned()))
    }
}

/// The rules that a library keeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    #[cfg(feature = "leave-out")]
    left_out: Option<Rule>,
}

impl Rules {
    /// All but one.
    #[cfg(feature = "leave-out")]
    pub fn without(rule: Rule) -> Self {
        Self { left_out: Some(rule) }
    }

    /// Whether a rule is kept.
    #[cfg(feature = "leave-out")]
    pub fn keep(self, rule: Rule) -> bool {
        self.left_out != Some(rule)
    }

    /// Whether a rule is kept: it is.
    #[cfg(not(feature = "leave-out"))]
    #[inline(always)]
    pub const fn keep(self, _rule: Rule) -> bool {
        true
    }
}
