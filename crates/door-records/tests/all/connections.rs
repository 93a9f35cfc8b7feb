//! What connections say of themselves, what they learn of others, and how they end them.

use budget::Party;
use door_records::{Access, Exceeded, Refused, Rights, WrongPassword};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::frame::Frame;
use crate::support::{Connection, Subject};

/// A connection that is read byte by byte, because it may end.
struct Raw(TcpStream);

impl Raw {
    async fn to(address: std::net::SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    /// Sends a command, and reads its answer of one line, or a text of some lines.
    async fn ask(&mut self, command: &str) -> String {
        self.0.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
        let line = self.line().await;
        let Some(bytes) = line.strip_prefix('$').and_then(|bytes| bytes.parse::<usize>().ok()) else { return line };
        let mut text = vec![0; bytes + 2];
        self.0.read_exact(&mut text).await.unwrap();
        String::from_utf8(text).unwrap()
    }

    async fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(self.0.read_u8().await.unwrap());
        }
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    /// Whether nothing comes any more.
    async fn has_ended(mut self) -> bool {
        matches!(self.0.read(&mut [0]).await, Ok(0) | Err(_))
    }
}

async fn ask(connection: &mut Connection, command: &str) -> String {
    connection.ask(&command.split(' ').collect::<Vec<_>>()).await.text()
}

/// Who has sent the right password may read, and nobody else may do anything.
struct WithPassword;

impl Access for WithPassword {
    fn rights(&self, password: Option<&[u8]>) -> Result<Rights, WrongPassword> {
        match password {
            None => Ok(Rights::default()),
            Some(b"right") => Ok(Rights { read: true, ..Rights::default() }),
            Some(_) => Err(WrongPassword),
        }
    }

    fn user(&self, password: &[u8]) -> Option<String> {
        (password == b"right").then(|| "reader".to_owned())
    }

    fn count(&self, _: &Party) -> Result<(), Exceeded> {
        Ok(())
    }

    fn sent(&self, _: &Party, _: u64) {}

    fn refused(&self, _: &Refused<'_>) {}
}

#[tokio::test]
async fn hello_with_a_token_is_auth() {
    const NOBODY: &str = "NOAUTH Authentication required.";
    let subject = Subject::guarded(Box::new(WithPassword)).await;
    let mut connection = subject.connect();
    for (hello, refused) in [
        ("HELLO 4", "NOPROTO unsupported protocol version"),
        ("HELLO 1 AUTH any right", "NOPROTO unsupported protocol version"),
        ("HELLO x", "ERR Protocol version is not an integer or out of range"),
        ("HELLO 2 AUTH any wrong", "WRONGPASS the password is no access token of this server"),
        ("HELLO 2 WHAT", "ERR Syntax error in HELLO option 'WHAT'"),
    ] {
        assert_eq!(ask(&mut connection, hello).await, refused, "{hello}");
        assert_eq!(ask(&mut connection, "GET a").await, NOBODY, "{hello}");
    }
    assert!(ask(&mut connection, "HELLO").await.contains("proto 2 "), "it tells the version that is spoken");
    assert!(ask(&mut connection, "HELLO 2 SETNAME mine AUTH any right").await.contains("proto 2 "));
    for (command, answer) in [
        ("GET a", "nothing"),
        ("SET a 1", "NOPERM this user has no permissions to run this command"),
        ("CLIENT GETNAME", "mine"),
        // What is refused changes nothing.
        ("HELLO 9 SETNAME other", "NOPROTO unsupported protocol version"),
        ("AUTH any wrong", "WRONGPASS the password is no access token of this server"),
        ("CLIENT GETNAME", "mine"),
        ("GET a", "nothing"),
        ("RESET", "RESET"),
        ("GET a", NOBODY),
        ("AUTH right", "OK"),
        ("GET a", "nothing"),
    ] {
        assert_eq!(ask(&mut connection, command).await, answer, "{command}");
    }
    connection.hello("3").await;
    let Frame::Map(said) = connection.ask(&["HELLO"]).await else { panic!("no map") };
    assert!(said.iter().any(|(name, value)| name.text() == "proto" && *value == Frame::Integer(3)), "{said:?}");
}

#[tokio::test]
async fn a_connection_says_what_it_is_and_reset_forgets_all_but_its_library() {
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    for (command, answer) in [
        // What clients send first.
        ("CLIENT SETINFO LIB-NAME mylib", "OK"),
        ("CLIENT SETINFO lib-ver 1.2", "OK"),
        ("CLIENT SETINFO WHAT 1", "ERR Unrecognized option"),
        (
            "CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type none",
            "ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.",
        ),
        ("COMMAND DOCS", ""),
        ("COMMAND DOCS get set", ""),
        ("AUTH somebody", "OK"),
        ("CLIENT SETNAME mine", "OK"),
    ] {
        assert_eq!(ask(&mut connection, command).await, answer, "{command}");
    }
    let told = [ask(&mut connection, "CLIENT INFO").await, ask(&mut subject.connect(), "CLIENT LIST").await];
    for said in ["name=mine ", "user=somebody resp=2 lib-name=mylib lib-ver=1.2\n"] {
        assert!(told.iter().all(|told| told.contains(said)), "{said}: {told:?}");
    }
    assert_eq!(ask(&mut connection, "RESET").await, "RESET");
    let told = ask(&mut connection, "CLIENT INFO").await;
    assert!(told.contains("name= "), "{told}");
    assert!(told.ends_with("user=default resp=2 lib-name=mylib lib-ver=1.2\n"), "{told}");
    assert_eq!(ask(&mut connection, "CLIENT GETNAME").await, "nothing");
}

#[tokio::test]
async fn commands_with_wrong_words_are_refused_as_by_redis() {
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    for (command, expected) in [
        ("CLIENT NO-EVICT on", "OK"),
        ("CLIENT NO-TOUCH OFF", "OK"),
        ("CLIENT NO-EVICT maybe", "ERR syntax error"),
        ("CLIENT NO-TOUCH maybe", "ERR syntax error"),
        ("CLIENT NO-EVICT", "ERR wrong number of arguments for 'client|no-evict' command"),
        ("CLIENT NO-TOUCH on off", "ERR wrong number of arguments for 'client|no-touch' command"),
        ("WAIT 0 100", "0"),
        ("WAIT", "ERR wrong number of arguments for 'wait' command"),
        ("WAIT 0", "ERR wrong number of arguments for 'wait' command"),
        ("WAIT x -1", "ERR value is not an integer or out of range"),
        ("WAIT 0 x", "ERR timeout is not an integer or out of range"),
        ("WAIT 0 -1", "ERR timeout is negative"),
        ("SELECT 0", "OK"),
        ("SELECT x", "ERR value is not an integer or out of range"),
        ("SELECT -1", "ERR DB index is out of range"),
        ("SELECT 9999999999", "ERR value is out of range, value must between -2147483648 and 2147483647"),
        ("HELLO 2 What", "ERR Syntax error in HELLO option 'What'"),
        ("HELLO 2 AUTH a", "ERR Syntax error in HELLO option 'AUTH'"),
        ("HELLO 2 SETNAME", "ERR Syntax error in HELLO option 'SETNAME'"),
        ("INFO nosuch", ""),
        ("INFO nosuch Replication", "# Replication\r\nrole:master\r\n"),
    ] {
        let answer = connection.ask(&command.split(' ').collect::<Vec<_>>()).await.text();
        assert_eq!(answer, expected, "{command}");
    }
}

#[tokio::test]
async fn words_too_many_refuse_a_command_and_the_transaction_that_it_is_in() {
    const PREVIOUS: &str = "EXECABORT Transaction discarded because of previous errors.";
    let arity = |name: &str| format!("wrong number of arguments for '{name}' command");
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    for (command, name) in [
        ("MULTI x", "multi"),
        ("DISCARD x", "discard"),
        ("UNWATCH x", "unwatch"),
        ("DBSIZE x", "dbsize"),
        ("RESET x", "reset"),
        ("CLIENT ID x", "client|id"),
        ("CLIENT INFO x", "client|info"),
        ("CLIENT GETNAME x", "client|getname"),
        ("CONFIG GET", "config|get"),
        ("SCAN", "scan"),
        ("WATCH", "watch"),
        ("PING x y", "ping"),
    ] {
        let answer = connection.ask(&command.split(' ').collect::<Vec<_>>()).await.text();
        assert_eq!(answer, format!("ERR {}", arity(name)), "{command}");
    }
    let at_end = format!("EXECABORT Transaction discarded because of: {}", arity("exec"));
    for (wrong, ends) in [
        (&["EXEC", "x"][..], [&*at_end, "ERR EXEC without MULTI"]),
        (&["DISCARD", "x"], [&*format!("ERR {}", arity("discard")), PREVIOUS]),
        (&["MULTI", "x"], [&*format!("ERR {}", arity("multi")), PREVIOUS]),
        // It would count its words only when it runs.
        (&["PING", "x", "y"], ["ERR only commands on records can be in a transaction", PREVIOUS]),
        (&["GET"], [&*format!("ERR {}", arity("get")), PREVIOUS]),
    ] {
        let sent = [&["MULTI"][..], &["SET", "a", "1"], wrong, &["EXEC"], &["GET", "a"]];
        let answers: Vec<String> = connection.ask_all(&sent).await.iter().map(|answer| answer.text()).collect();
        assert_eq!(answers, ["OK", "QUEUED", ends[0], ends[1], "nothing"], "{wrong:?}");
    }
}

#[tokio::test]
async fn a_command_on_several_keys_is_refused_in_a_transaction_and_one_on_one_key_is_not() {
    const PREVIOUS: &str = "EXECABORT Transaction discarded because of previous errors.";
    const SEVERAL: &str = "CROSSSLOT all commands of a transaction must be on the same key";
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    for (second, [queued, ended, then]) in [
        (&["MSET", "a", "2", "b", "3"][..], [SEVERAL, PREVIOUS, "nothing nothing"]),
        (&["DEL", "a", "b"], [SEVERAL, PREVIOUS, "nothing nothing"]),
        (&["MGET", "a", "b"], [SEVERAL, PREVIOUS, "nothing nothing"]),
        (&["MSET", "b", "2"], ["QUEUED", SEVERAL, "nothing nothing"]),
        (&["MSET", "a", "2", "a", "3"], ["QUEUED", "OK OK", "3 nothing"]),
        (&["DEL", "a", "a"], ["QUEUED", "OK 1", "nothing nothing"]),
    ] {
        let sent = [&["MULTI"][..], &["SET", "a", "1"], second, &["EXEC"], &["MGET", "a", "b"]];
        let answers: Vec<String> = connection.ask_all(&sent).await.iter().map(|answer| answer.text()).collect();
        assert_eq!(answers, ["OK", "QUEUED", queued, ended, then], "{second:?}");
    }
}

#[tokio::test]
async fn config_get_lists_each_setting_once_and_takes_at_most_64_patterns() {
    let subject = Subject::start().await;
    let mut connection = subject.connect();
    for (others, expected) in [(62, "save  appendonly yes"), (63, "ERR CONFIG GET takes at most 64 patterns, not 65")] {
        let others = vec!["no*such"; others];
        let answer = connection.ask(&[&["CONFIG", "GET", "SAVE", "*only"][..], &others[..]].concat()).await.text();
        assert_eq!(answer, expected);
    }
}

#[tokio::test]
async fn a_client_lists_connections_and_ends_them_by_number_and_by_address() {
    let subject = Subject::start().await;
    let address = subject.listen().await;
    let [mut own, mut first, mut second] = [Raw::to(address).await, Raw::to(address).await, Raw::to(address).await];
    for (connection, name) in [(&mut own, "own"), (&mut first, "first"), (&mut second, "second")] {
        assert_eq!(connection.ask(&format!("CLIENT SETNAME {name}")).await, "+OK");
    }
    let id = first.ask("CLIENT ID").await.trim_start_matches(':').to_owned();
    let list = own.ask("CLIENT LIST").await;
    let at = second.0.local_addr().unwrap();
    for part in ["name=own ", "name=first ", &format!("id={id} "), &format!("addr={at} laddr={address} name=second ")] {
        assert!(list.contains(part), "{part}: {list}");
    }
    assert_eq!(own.ask("CLIENT LIST TYPE replica").await.trim(), "");
    assert_eq!(own.ask(&format!("CLIENT LIST ID {id}")).await.trim().lines().count(), 1);

    for (command, answer) in [
        ("CLIENT KILL ID 999999999".to_owned(), ":0"),
        ("CLIENT KILL 192.0.2.1:1".to_owned(), "-ERR No such client"),
        ("CLIENT KILL ID none".to_owned(), "-ERR client-id should be greater than 0"),
        ("CLIENT KILL TYPE odd".to_owned(), "-ERR Unknown client type 'odd'"),
        ("CLIENT KILL MAXAGE 1000000".to_owned(), ":0"),
        ("CLIENT KILL USER somebody".to_owned(), ":0"),
        ("CLIENT KILL LADDR 192.0.2.1:1".to_owned(), ":0"),
        ("CLIENT KILL ADDR 192.0.2.1:1 USER default".to_owned(), ":0"),
        ("CLIENT KILL".to_owned(), "-ERR wrong number of arguments for 'client|kill' command"),
        (format!("CLIENT KILL ID {id}"), ":1"),
        (format!("CLIENT KILL {at}"), "+OK"),
    ] {
        assert_eq!(own.ask(&command).await, answer, "{command}");
    }
    assert!(first.has_ended().await && second.has_ended().await);

    // All filters have to fit.
    let mut named = Raw::to(address).await;
    assert_eq!(named.ask("AUTH somebody").await, "+OK");
    let list = own.ask("CLIENT LIST").await;
    assert!(list.lines().any(|line| line.contains(&format!("laddr={address} ")) && line.contains("user=somebody ")));
    assert_eq!(own.ask("CLIENT KILL USER default LADDR 192.0.2.1:1").await, ":0");
    assert_eq!(own.ask(&format!("CLIENT KILL USER somebody LADDR {address}")).await, ":1");
    assert!(named.has_ended().await);

    // By itself a client ends all others, and with SKIPME no itself, after the answer.
    let id = own.ask("CLIENT ID").await.trim_start_matches(':').to_owned();
    assert_eq!(own.ask(&format!("CLIENT KILL ID {id}")).await, ":0");
    assert_eq!(own.ask(&format!("CLIENT KILL ID {id} SKIPME no")).await, ":1");
    assert!(own.has_ended().await);
}
