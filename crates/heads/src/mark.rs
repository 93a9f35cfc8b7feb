//! Marks: on the children of a container, and on versions ([`version_marks`](crate::version_marks)).

/// A mark on a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// It is about to be created.
    Added = b'a',
    /// It was created.
    Confirmed = b'c',
    /// It is about to be deleted.
    Removing = b'x',
    /// It is gone, or was never created.
    Removed = b'r',
}

impl Mark {
    /// The mark that a byte of a key encodes.
    pub fn from_byte(byte: u8) -> Option<Self> {
        [Mark::Added, Mark::Confirmed, Mark::Removing, Mark::Removed].into_iter().find(|mark| *mark as u8 == byte)
    }
}

/// All marks of one child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    added: bool,
    confirmed: bool,
    removing: bool,
    removed: bool,
}

/// What marks show about a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is live.
    Live,
    /// It is not there.
    Dead,
    /// Its head has to be read.
    Unsettled,
}

impl Marks {
    /// Adds a mark.
    pub fn add(&mut self, mark: Mark) {
        match mark {
            Mark::Added => self.added = true,
            Mark::Confirmed => self.confirmed = true,
            Mark::Removing => self.removing = true,
            Mark::Removed => self.removed = true,
        }
    }

    /// Whether it was announced.
    pub fn added(&self) -> bool {
        self.added
    }

    /// Whether it is gone for good, or was never created.
    pub fn removed(&self) -> bool {
        self.removed
    }

    /// Each mark.
    pub fn iter(&self) -> impl Iterator<Item = Mark> {
        let marks = [
            (self.added, Mark::Added),
            (self.confirmed, Mark::Confirmed),
            (self.removing, Mark::Removing),
            (self.removed, Mark::Removed),
        ];
        marks.into_iter().filter_map(|(is_there, mark)| is_there.then_some(mark))
    }

    /// Whether its deletion was at least begun.
    pub fn removing(&self) -> bool {
        self.removing
    }

    /// What the marks show. Without the intent there is no child: no head is switched in before the
    /// intent is acknowledged.
    pub fn settled(&self) -> Settled {
        match self {
            Marks { removed: true, .. } | Marks { added: false, .. } => Settled::Dead,
            Marks { confirmed: true, removing: false, .. } => Settled::Live,
            _ => Settled::Unsettled,
        }
    }
}

/// A mark on a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum VersionMark {
    /// A client asked for it.
    Asked = b'a',
    /// It was removed.
    Removed = b'r',
}

impl VersionMark {
    /// The mark that a byte of a key encodes.
    pub fn from_byte(byte: u8) -> Option<Self> {
        [Self::Asked, Self::Removed].into_iter().find(|mark| *mark as u8 == byte)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn settled(marks: &str) -> Settled {
        let mut all = Marks::default();
        marks.bytes().for_each(|byte| all.add(Mark::from_byte(byte).unwrap()));
        all.settled()
    }

    #[test]
    fn marks_say_the_same_in_whatever_order_they_were_written() {
        assert_eq!((settled("ac"), settled("ca")), (Settled::Live, Settled::Live));
        assert_eq!((settled("acxr"), settled("rxca")), (Settled::Dead, Settled::Dead));
        assert_eq!((settled("acx"), settled("xca")), (Settled::Unsettled, Settled::Unsettled));
        assert_eq!(settled("a"), Settled::Unsettled);
        assert_eq!(settled("ar"), Settled::Dead);
    }
}
