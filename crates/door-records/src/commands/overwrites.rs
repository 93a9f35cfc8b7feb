//! Commands in mode fast that write without reading. Their answers count what is written, since
//! nothing is known of what was there.

use std::collections::HashSet;

use bytes::Bytes;
use records::{Attribute, Overwrite, Record};
use store::UnixMillis;

use super::attributes::{SetAndExpire, pairs};
use super::texts::{SetText, expiring};
use crate::error::{CommandResult, Refusal};
use crate::reply::Reply;
use crate::words::{ExpiryOption, SentTime, TimeUnit, Words};

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

/// The expiry of what is set. An option that depends on what is stored is refused.
fn unread_expiry<'a>(
    sent: &SetAndExpire<'a>,
    command: &str,
    look: impl FnOnce(SentTime<'a>) -> CommandResult<UnixMillis>,
) -> CommandResult<Option<UnixMillis>> {
    match sent.expiry {
        _ if sent.is_there.is_some() || sent.only_absent || sent.only_present => Err(Refusal::option_not_fast(command)),
        ExpiryOption::Keep => Err(Refusal::option_not_fast(command)),
        ExpiryOption::At(time) => look(time).map(Some),
        ExpiryOption::Unsaid | ExpiryOption::Drop => Ok(None),
    }
}

pub(super) fn set_and_expire(change: &mut Overwrite, words: Words<'_>) -> CommandResult<Reply> {
    let (command, now) = (words.command, change.now);
    let sent = SetAndExpire::of_attributes(words)?;
    let expires_at = unread_expiry(&sent, command, |time| time.moment_of_attribute(now))?;
    for [name, value] in sent.pairs {
        change.set(name.clone(), Attribute { value: value.clone(), expires_at }, None);
    }
    Ok(Reply::Integer(1))
}

/// The expiry is that of the record, in the attributes that are set. Others keep theirs, unread.
pub(super) fn set_in_expiring_record(change: &mut Overwrite, words: Words<'_>) -> CommandResult<Reply> {
    let (command, now) = (words.command, change.now);
    let sent = SetAndExpire::of_record(words)?;
    let of_record = unread_expiry(&sent, command, |time| time.moment(now))?;
    for [name, value] in sent.pairs {
        change.set(name.clone(), Attribute::lasting(value.clone()), of_record);
    }
    Ok(count(sent.pairs.iter().map(|[name, _]| name)))
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
