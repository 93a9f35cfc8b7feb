//! The rules of the protocols. Tests can leave out each of them, to show that the simulator finds
//! what then goes wrong.
//!
//! Without the feature `leave-out` all rules are in force, and asking for one is a constant. Their
//! names are those of `docs/protocols.md`.

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

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }
        }
    };
}

rules! {
    /// A sweeper or deleter of a container fences the head of a child that was never created.
    Fence = "fence",
    /// A listing trusts a child only if it is confirmed.
    Confirm = "confirm",
    /// A child is marked as being removed before its head is deleted.
    DelIntent = "delintent",
    /// The marks of children are keyed by the incarnation of their container.
    PInc = "pinc",
    /// The head of a removed tombstone becomes free; it is never absent again.
    KeepFree = "keepfree",
    /// A writer that does not know the outcome of a write also searches the head log for its
    /// revision.
    Log = "log",
    /// A writer that is refused checks whether an earlier try of its own was applied.
    Relook = "relook",
    /// A new incarnation is above the floor of the head that was read.
    FloorRead = "floorread",
    /// The job is recorded before a container's head says that it is being deleted.
    JobFirst = "jobfirst",
    /// The record of the job is dropped only after the head is deleted.
    JobFinish = "jobfinish",
    /// A creator reads the head before it announces the child, and restarts under another
    /// incarnation when it is refused.
    HeadFirst = "headfirst",
    /// A removed child gets one more mark; no mark is deleted.
    Marks = "marks",
    /// The container is required after the child is announced.
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
    /// A name is free if its resource was deleted in an earlier incarnation of its container.
    PIncFree = "pincfree",
    /// A condemnation raises the floor of the head.
    Floor = "floor",
    /// A revision at or below the floor is never switched in.
    CondCas = "condcas",
    /// The grace counts from the condemnation.
    GraceObs = "graceobs",
    /// The revision that is current at a condemnation stays.
    H0 = "h0",
    /// The life of a plan counts from before its heads are read.
    PlanFirst = "planfirst",
    /// A plan reads heads strongly.
    StrongHead = "stronghead",
    /// A selection is pinned before its heads are read again.
    PinFirst = "pinfirst",
    /// The collector reads the pins when it removes.
    PinScan = "pinscan",
    /// The grace is longer than the life of a plan and the clock skew together.
    LongGrace = "grace",
    /// Nothing is repaired away from the heads' home.
    SweepAtHome = "sweepathome",
    /// A creation that restarts knows that an earlier try may still arrive.
    StayUnsure = "stayunsure",
    /// An unsure writer reads serially.
    LookSerially = "lookserially",
    /// Each row is written at the consistency level of its table, whatever other rows are in the
    /// step list. The engine keeps this rule.
    RowClass = "rowclass",
    /// A container that is being deleted is not marked as removed before its head is deleted.
    EndNested = "endnested",
    /// Nobody switches a head that an open transaction holds.
    Claim = "claim",
    /// A transaction is ended by its state before what it holds is taken over.
    EndFirst = "endfirst",
    /// A transaction is decided by its state before anything of it is carried out, and until then
    /// nothing of it is.
    DecideFirst = "decidefirst",
    /// A staged operation counts only if the transaction is still open after it was claimed, or if
    /// the decision names it.
    OpenAfter = "openafter",
    /// A transaction is closed before it is read which operations count.
    CloseFirst = "closefirst",
    /// Of a transaction only those operations are carried out that the decision names.
    OnlyNamed = "onlynamed",
    /// An operation whose claim was surely lost is removed from its transaction.
    ForgetLost = "forgetlost",
    /// A transaction claims the archival group of what it changes.
    HoldGroup = "holdgroup",
    /// A change without a transaction looks whether a transaction holds the archival group.
    LookGroup = "lookgroup",
    /// A transaction gives up an archival group after everything in it is carried out.
    GroupLast = "grouplast",
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no rule.
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
    /// All rules except one.
    #[cfg(feature = "leave-out")]
    pub fn without(rule: Rule) -> Self {
        Self { left_out: Some(rule) }
    }

    /// Whether a rule is in force.
    #[cfg(feature = "leave-out")]
    pub fn keep(self, rule: Rule) -> bool {
        self.left_out != Some(rule)
    }

    /// Whether a rule is in force: always.
    #[cfg(not(feature = "leave-out"))]
    #[inline(always)]
    pub const fn keep(self, _rule: Rule) -> bool {
        true
    }
}
