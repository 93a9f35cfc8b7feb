//! Random commands. Few keys and names, so that commands meet.

use proptest::prelude::*;
use proptest::sample::select;

/// A command.
pub type Words = Vec<String>;

/// The keys of random commands.
pub const KEYS: [&str; 4] = ["a", "b", "{x}1", "ü"];

fn key() -> impl Strategy<Value = String> {
    select(KEYS.to_vec()).prop_map(str::to_owned)
}

fn name() -> impl Strategy<Value = String> {
    select(vec!["f", "g", "h", ""]).prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = String> {
    let odd = ["", "0", "-1", "5", "9223372036854775807", "-0", "01", " 1", "1.5", "1e2", "abc", "a\r\nb"];
    select(odd.to_vec()).prop_map(str::to_owned)
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![any::<i8>().prop_map(|number| number.to_string()), value()]
}

fn one_of(names: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(names.to_vec()).prop_map(str::to_owned)
}

/// A time so far away that no clock matters, or one that has passed, or none.
fn time() -> impl Strategy<Value = String> {
    one_of(&["100000", "200000", "99999999999", "-1", "0", "x", "9223372036854775807"])
}

/// The same, for a command that may compare it with the time that is there. Two far times are hardly
/// ever equal: then the greater one would depend on the milliseconds between the commands.
fn compared_time() -> impl Strategy<Value = String> {
    let far = (100_000_u64..90_000_000).prop_map(|time| time.to_string());
    prop_oneof![1 => far, 2 => one_of(&["99999999999", "-1", "0", "x", "9223372036854775807"])]
}

/// Words that are separated by blanks.
fn options(lines: &'static [&'static str]) -> impl Strategy<Value = Words> {
    select(lines.to_vec()).prop_map(|line| line.split_whitespace().map(str::to_owned).collect())
}

fn on_texts() -> impl Strategy<Value = Words> {
    prop_oneof![
        (one_of(&["GET", "STRLEN", "INCR", "DECR", "GETDEL"]), key()).prop_map(|(command, key)| vec![command, key]),
        (one_of(&["SET", "SETNX", "GETSET", "APPEND", "INCRBY", "DECRBY"]), key(), number())
            .prop_map(|(command, key, value)| vec![command, key, value]),
        (one_of(&["SETEX", "PSETEX"]), key(), time(), value())
            .prop_map(|(command, key, time, value)| vec![command, key, time, value]),
        (
            key(),
            value(),
            options(&[
                "NX",
                "XX",
                "GET",
                "KEEPTTL",
                "NX GET",
                "XX GET",
                "NX XX",
                "NX XX EX 100000",
                "EX 100000",
                "PX 100000000",
                "EX 0",
                "EX x",
                "EX",
                "EX 0 WHAT",
                "KEEPTTL EX 5",
                "EX 5 KEEPTTL",
                "EX 5 PX 5",
                "EX x EX 100000",
                "PX 5 PX 100000000",
                "KEEPTTL KEEPTTL",
                "NX NX",
                "GET XX GET XX",
                "EXAT 9999999999",
                "PXAT 1",
                "EX 9223372036854775807",
                "WHAT"
            ])
        )
            .prop_map(|(key, value, options)| [vec!["SET".to_owned(), key, value], options].concat()),
        (
            key(),
            options(&[
                "",
                "PERSIST",
                "PERSIST PERSIST",
                "EX 100000",
                "EX x EX 100000",
                "EX 5 PX 5",
                "EX 0",
                "EX x",
                "EX",
                "EX 5 EX",
                "PERSIST EX 5",
                "EX 5 PERSIST",
                "PXAT 1",
                "WHAT"
            ])
        )
            .prop_map(|(key, options)| [vec!["GETEX".to_owned(), key], options].concat()),
        (key(), value(), key(), value()).prop_map(|(one, first, other, second)| vec![
            "MSET".into(),
            one,
            first,
            other,
            second
        ]),
    ]
}

fn on_attributes() -> impl Strategy<Value = Words> {
    prop_oneof![
        (one_of(&["HGETALL", "HLEN", "HKEYS", "HVALS"]), key()).prop_map(|(command, key)| vec![command, key]),
        (one_of(&["HGET", "HEXISTS", "HSTRLEN", "HDEL", "HMGET"]), key(), name())
            .prop_map(|(command, key, name)| vec![command, key, name]),
        (one_of(&["HDEL", "HMGET"]), key(), name(), name())
            .prop_map(|(command, key, one, other)| vec![command, key, one, other]),
        (one_of(&["HSET", "HMSET", "HSETNX", "HINCRBY"]), key(), name(), number())
            .prop_map(|(command, key, name, value)| vec![command, key, name, value]),
        (key(), one_of(&["1.5", "-1", "0.25", "abc", "", "5.0e1", "1_0", "0x10", "-0X.8p+1", "0x", "0x1p"]))
            .prop_map(|(key, by)| vec!["HINCRBYFLOAT".into(), key, "decimal".into(), by]),
        (key(), name(), value(), name(), value()).prop_map(|(key, one, first, other, second)| vec![
            "HSET".into(),
            key,
            one,
            first,
            other,
            second
        ]),
        (key(), options(&["0", "0 MATCH [f-g]", "0 COUNT 2", "0 COUNT 0", "x", "0 WHAT"]))
            .prop_map(|(key, options)| [vec!["HSCAN".to_owned(), key], options].concat()),
    ]
}

fn on_records() -> impl Strategy<Value = Words> {
    let rules = ["", "NX", "XX", "GT", "LT", "XX GT", "NX GT", "GT LT", "WHAT"];
    prop_oneof![
        (one_of(&["TYPE", "PERSIST", "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"]), key())
            .prop_map(|(command, key)| vec![command, key]),
        (one_of(&["DEL", "UNLINK", "EXISTS", "TOUCH", "MGET"]), prop::collection::vec(key(), 1..4))
            .prop_map(|(command, keys)| [vec![command], keys].concat()),
        (one_of(&["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"]), key(), compared_time(), select(rules.to_vec()))
            .prop_map(|(command, key, time, rules)| {
                let rules = rules.split_whitespace().map(str::to_owned).collect();
                [vec![command, key, time], rules].concat()
            }),
    ]
}

fn odd() -> impl Strategy<Value = Words> {
    options(&[
        "GET",
        "GET a b",
        "HSET a f",
        "HSET a f 1 g",
        "MSET a",
        "MGET",
        "SET a",
        "NOSUCH a b",
        "PING",
        "PING x",
        "ECHO",
        "ECHO x",
        "SELECT 0",
        "SELECT 0 0",
        "SELECT x",
        "SELECT 00",
        "SELECT -1",
        "SELECT 16",
        "SELECT 9999999999",
        "SELECT 99999999999999999999",
        "ECHO x y",
        "PING x y",
        "AUTH",
        "AUTH a b c",
        "AUTH default x",
        "HELLO x",
        "HELLO 4",
        "HELLO -1",
        "HELLO what",
        "HELLO 2 WHAT",
        "HELLO 3 what",
        "HELLO 2 AUTH",
        "HELLO 2 auth a",
        "HELLO 2 SETNAME",
        "HELLO 2 AUTH default x WHAT",
        "INFO nosuch",
        "INFO nosuch other",
        "CONFIG GET nosuch",
        "CONFIG GET save",
        "CONFIG GET maxmemory",
        "CONFIG GET nosuch maxmemor[xy]",
        "WATCH",
        "SCAN",
        "MULTI x",
        "EXEC x",
        "DISCARD x",
        "UNWATCH x",
        "DBSIZE x",
        "RESET x",
        "COMMAND COUNT x",
        "CONFIG",
        "CONFIG GET",
        "CLIENT",
        "CLIENT ID x",
        "CLIENT INFO x",
        "CLIENT GETNAME x",
        "CLIENT SETNAME",
        "CLIENT KILL",
        "HGET a",
        "TTL",
        "DISCARD",
        "EXEC",
        "CLIENT GETNAME",
        "CLIENT SETNAME x y",
        "CLIENT NO-EVICT maybe",
        "CLIENT NO-EVICT",
        "CLIENT NO-EVICT on",
        "WAIT",
        "WAIT 0",
        "WAIT 0 0",
        "WAIT x -1",
        "WAIT 0 x",
        "WAIT 0 -1",
    ])
}

/// A list of commands: one, or some on one key in a transaction.
pub fn commands() -> impl Strategy<Value = Vec<Words>> {
    let single = prop_oneof![4 => on_texts(), 4 => on_attributes(), 3 => on_records(), 1 => odd()];
    let inner = prop_oneof![on_texts(), on_attributes(), on_records()].prop_map(|mut words| match words[0].as_str() {
        "MSET" | "MGET" | "DEL" | "UNLINK" | "EXISTS" | "TOUCH" => vec!["GET".to_owned(), "a".to_owned()],
        _ => {
            words[1] = "a".to_owned();
            words
        }
    });
    // They are refused at once, and the transaction with them.
    let wrong = options(&["GET", "HGET a", "MULTI x", "DISCARD x", "EXEC x"]);
    let inner = prop_oneof![20 => inner, 1 => wrong];
    let transaction = (prop::collection::vec(inner, 0..5), one_of(&["EXEC", "EXEC", "DISCARD"]))
        .prop_map(|(commands, end)| [vec![vec!["MULTI".to_owned()]], commands, vec![vec![end]]].concat());
    prop_oneof![9 => single.prop_map(|command| vec![command]), 1 => transaction]
}

/// The command that sets attributes and the expiry of their record, which only this door has.
pub const SETS_BOTH: &str = "PENATES.HSET";

/// Likewise, mostly that command.
pub fn commands_that_set_both() -> impl Strategy<Value = Vec<Words>> {
    let rules = ["", "", "NX", "XX", "FNX", "FXX", "XX FNX", "FXX NX"];
    let expiry = ["", "EX 100000", "PX 200000000", "EXAT 9999999999", "PXAT 1", "EXAT 1", "KEEPTTL", "PERSIST"];
    let fields = ["FIELDS 1 f 1", "FIELDS 2 f 1 g 2", "FIELDS 2 g 3 g 4", "FIELDS 3 f 5 g 6 h 7"];
    let sets = (key(), select(rules.to_vec()), select(expiry.to_vec()), select(fields.to_vec()));
    let sets_both = sets.prop_map(|(key, rule, expiry, fields)| {
        let words = [SETS_BOTH, &key, rule, expiry, fields].join(" ");
        words.split_whitespace().map(str::to_owned).collect()
    });
    let others = prop_oneof![2 => on_attributes(), 2 => on_records(), 1 => on_texts()];
    prop_oneof![1 => sets_both, 1 => others].prop_map(|command: Words| vec![command])
}

/// Likewise, mostly about attributes that expire.
pub fn commands_on_expiring_attributes() -> impl Strategy<Value = Vec<Words>> {
    let names = || {
        options(&[
            "FIELDS 1 f",
            "FIELDS 2 f g",
            "FIELDS 3 g h nosuch",
            "FIELDS 2 f f",
            "FIELDS 3 g f g",
            "FIELDS 0",
            "FIELDS 2 f",
            "f",
        ])
    };
    let rules = || options(&["", "", "NX", "XX", "GT", "LT", "NX GT", "WHAT"]);
    let expiring = prop_oneof![
        (one_of(&["HEXPIRE", "HPEXPIRE", "HEXPIREAT", "HPEXPIREAT"]), key(), compared_time(), rules(), names())
            .prop_map(|(command, key, time, rules, names)| [vec![command, key, time], rules, names].concat()),
        (one_of(&["HTTL", "HPTTL", "HEXPIRETIME", "HPEXPIRETIME", "HPERSIST"]), key(), names())
            .prop_map(|(command, key, names)| [vec![command, key], names].concat()),
        (
            key(),
            options(&[
                "",
                "EX 100000",
                "PX 100000000",
                "EXAT 9999999999",
                "PERSIST",
                "PERSIST PERSIST",
                "EX x EX 100000",
                "EX 5 PX 5",
                "EX 5 PERSIST",
                "EX 0",
                "PXAT 1",
                "EX -1",
                "EX x",
                "WHAT"
            ]),
            names()
        )
            .prop_map(|(key, expiry, names)| [vec!["HGETEX".to_owned(), key], expiry, names].concat()),
        (
            key(),
            options(&["", "FNX", "FXX", "NX", "XX", "XX FNX", "FXX NX", "NX XX", "NX FNX NX FNX"]),
            options(&[
                "",
                "EX 100000",
                "PX 100000000",
                "KEEPTTL",
                "KEEPTTL KEEPTTL",
                "KEEPTTL EX 5",
                "EX x EX 100000",
                "EXAT 9999999999",
                "PX 0",
                "EXAT 1",
                "EX -1"
            ]),
            options(&["FIELDS 1 f 1", "FIELDS 2 f 1 g 2", "FIELDS 2 f 1 f 2", "FIELDS 2 f 1 g"])
        )
            .prop_map(|(key, rule, expiry, fields)| [vec!["HSETEX".to_owned(), key], rule, expiry, fields].concat()),
        (key(), names()).prop_map(|(key, names)| [vec!["HGETDEL".to_owned(), key], names].concat()),
        // Redis 7.0 does not know `NOVALUES`.
        (key(), options(&["0 NOVALUES", "0 MATCH [f-g] NOVALUES", "0 NOVALUES COUNT 0", "0 NOVALUES WHAT"]))
            .prop_map(|(key, options)| [vec!["HSCAN".to_owned(), key], options].concat()),
    ];
    prop_oneof![4 => expiring, 2 => on_attributes(), 1 => on_records()].prop_map(|command| vec![command])
}
