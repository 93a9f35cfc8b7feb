//! The domain: objects with heads, revisions and containment; volumes, selections, import, audit
