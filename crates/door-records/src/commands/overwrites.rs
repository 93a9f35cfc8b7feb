//! Commands in mode fast that write without reading. Their answers count what is written, since
//! nothing is known of what was there.

use std::collections::HashSet;

use bytes::Bytes;
use records::{Attribute, Overwrite, Record};

use super::attributes::{SetAndExpire, pairs};
use super::texts::{SetText, expiring};
use crate::error::{CommandResult, Refusal};
use crate::reply::Reply;
use crate::words::{ExpiryOption, TimeUnit, Words};

/// The number of different names.
fn count<'a>(names: impl Iterator<Item = &'a Bytes>) -> Reply {
    Reply::count(names.collect::<HashSet<_>>().len())
}

pub(super) fn set(change: &mut Overwrite, words: Words<'_>) -> CommandResult<Reply> {
    let pairs: Vec<_> = pairs(words.rest(), words.command)?.collect();
    let answer = count(pairs.iter().map(|(name, _)| name));
    for (name, attribute) in pairs {
        change.set(name, attribute, None);
    }
    Ok(answer)
}

pub(super) fn set_many(change: &mut Overwrite, words: Words<'_>) -> CommandResult<Reply> {
    set(change, words).map(|_| Reply::OK)
}

pub(super) fn set_and_expire(change: &mut Overwrite, words: Words<'_>) -> CommandResult<Reply> {
    let command = words.command;
    let SetAndExpire { is_there, only_absent, only_present, expiry, pairs } = SetAndExpire::take(words, change.now)?;
    let expires_at = match expiry {
        _ if is_there.is_some() || only_absent || only_present => return Err(Refusal::option_not_fast(command)),
        ExpiryOption::Keep => return Err(Refusal::option_not_fast(command)),
        ExpiryOption::At(at) => Some(at),
        ExpiryOption::Unsaid | ExpiryOption::Drop => None,
    };
    for [name, value] in pairs {
        change.set(name.clone(), Attribute { value: value.clone(), expires_at }, None);
    }
    Ok(Reply::Integer(1))
}

pub(super) fn delete_attributes(change: &mut Overwrite, words: Words<'_>) -> CommandResult<Reply> {
    for name in words.rest() {
        change.delete_attribute(name.clone());
    }
    Ok(count(words.rest().iter()))
}

pub(super) fn set_text(change: &mut Overwrite, words: Words<'_>) -> CommandResult<Reply> {
    let command = words.command;
    let SetText { value, only_absent, only_present, gets, keeps, at } = SetText::take(words, change.now)?;
    if only_absent || only_present || gets || keeps {
        return Err(Refusal::option_not_fast(command));
    }
    change.put(Record { expires_at: at, ..Record::text(value) });
    Ok(Reply::OK)
}

pub(super) fn set_text_for_seconds(change: &mut Overwrite, words: Words<'_>) -> CommandResult<Reply> {
    change.put(expiring(words, TimeUnit::Seconds, change.now)?);
    Ok(Reply::OK)
}

pub(super) fn set_text_for_milliseconds(change: &mut Overwrite, words: Words<'_>) -> CommandResult<Reply> {
    change.put(expiring(words, TimeUnit::Milliseconds, change.now)?);
    Ok(Reply::OK)
}

/// A key and value of `MSET`.
pub(super) fn set_text_plainly(change: &mut Overwrite, mut words: Words<'_>) -> CommandResult<Reply> {
    change.put(Record::text(words.next()?.clone()));
    Ok(Reply::OK)
}

pub(super) fn delete(change: &mut Overwrite, _words: Words<'_>) -> CommandResult<Reply> {
    change.delete();
    Ok(Reply::Integer(1))
}
