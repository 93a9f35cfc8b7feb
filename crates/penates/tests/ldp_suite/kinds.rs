//! The four parts of the suite, and how many tests each has.

use crate::judge::Counts;

/// A part of the suite: the kind of resource that it tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Basic,
    Direct,
    Indirect,
    NonRdf,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Basic, Self::Direct, Self::Indirect, Self::NonRdf];

    /// The suite's parameter that names the container.
    pub fn container_parameter(self) -> &'static str {
        match self {
            Self::Basic | Self::NonRdf => "basicContainer",
            Self::Direct => "directContainer",
            Self::Indirect => "indirectContainer",
        }
    }

    pub fn classes(self) -> &'static [&'static str] {
        match self {
            Self::Basic => &["org.w3.ldp.testsuite.test.BasicContainerTest", "MemberResourceSuite"],
            Self::Direct => &["org.w3.ldp.testsuite.test.DirectContainerTest", "MemberResourceSuite"],
            Self::Indirect => &["org.w3.ldp.testsuite.test.IndirectContainerTest", "MemberResourceSuite"],
            Self::NonRdf => &["NonRdfSourceSuite"],
        }
    }

    /// The tests of version 0.1.1.
    pub fn expected(self) -> Counts {
        match self {
            Self::Basic => Counts { must: 61, should: 24, may: 5, by_hand: 8 },
            Self::Direct => Counts { must: 65, should: 26, may: 5, by_hand: 8 },
            Self::Indirect => Counts { must: 60, should: 24, may: 5, by_hand: 8 },
            Self::NonRdf => Counts { must: 15, should: 1, may: 6, by_hand: 1 },
        }
    }

    /// `ldp:` name of the container's interaction model.
    pub fn container_model(self) -> &'static str {
        match self {
            Self::Basic | Self::NonRdf => "BasicContainer",
            Self::Direct => "DirectContainer",
            Self::Indirect => "IndirectContainer",
        }
    }

    /// The body that creates the container, in Turtle, with its membership rule if it has one.
    pub fn container_body(self) -> &'static str {
        match self {
            Self::Basic | Self::NonRdf => "<> <http://purl.org/dc/terms/title> \"A container\" .",
            Self::Direct => {
                "@prefix ldp: <http://www.w3.org/ns/ldp#> .
                 <> <http://purl.org/dc/terms/title> \"A container\" ; ldp:membershipResource <> ; ldp:hasMemberRelation ldp:member ."
            }
            Self::Indirect => {
                "@prefix ldp: <http://www.w3.org/ns/ldp#> .
                 <> <http://purl.org/dc/terms/title> \"A container\" ; ldp:membershipResource <> ; ldp:hasMemberRelation ldp:member ;
                    ldp:insertedContentRelation ldp:MemberSubject ."
            }
        }
    }
}
