//! The layers that every request passes.

use std::time::Duration;

use http::{Method, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Server, VOLUME, soon};

#[tokio::test]
async fn every_response_has_its_request_id_and_forbids_guessing_its_type() {
    let (server, _folder) = Server::start(|_| {}).await;
    let paths = ["/", "/healthz", "/volumes/", "/volumes/no.such", "/nowhere", "/volumes?x=y"];
    for path in paths {
        let made = server.get(path).await;
        assert_eq!(made.header("x-request-id").len(), 16, "{path}");
        assert_ne!(made.header("x-request-id"), server.get(path).await.header("x-request-id"), "{path}");
        assert_eq!(made.header("x-content-type-options"), "nosniff", "{path}");
        let taken = server.ask(Method::GET, path, &[("x-request-id", "mine-1")]).await;
        assert_eq!(taken.header("x-request-id"), "mine-1", "{path}");
        let refused = server.ask(Method::GET, path, &[("x-request-id", "mine 1\"")]).await;
        assert_eq!(refused.header("x-request-id").len(), 16, "{path}");
    }
    let refused = server.ask(Method::DELETE, &format!("/volumes/{VOLUME}"), &[]).await;
    assert_eq!((refused.status, refused.header("x-request-id").len()), (StatusCode::UNAUTHORIZED, 16));
}

#[tokio::test]
async fn an_unknown_path_is_a_problem() {
    let (server, _folder) = Server::start(|_| {}).await;
    let answer = server.get("/nowhere").await;
    assert_eq!((answer.status, answer.header("content-type")), (StatusCode::NOT_FOUND, "application/problem+json"));
    assert_eq!(answer.json()["status"], 404);
}

#[tokio::test]
async fn a_browser_gets_a_page_that_says_what_is_wrong() {
    let (server, _folder) = Server::start(|_| {}).await;
    let browser = [("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")];
    for (method, path, status, detail) in [
        (Method::GET, "/nowhere", StatusCode::NOT_FOUND, "there is nothing at this path"),
        (Method::GET, "/rest/%3Cscript%3E", StatusCode::NOT_FOUND, "there is nothing at /&lt;script&gt;"),
        (Method::DELETE, "/rest/a", StatusCode::UNAUTHORIZED, "href=\"../sign-in\">Sign in</a>"),
    ] {
        let page = server.ask(method, path, &browser).await;
        assert_eq!((page.status, page.header("content-type")), (status, "text/html; charset=utf-8"), "{path}");
        assert!(page.header("content-security-policy").starts_with("default-src 'none'"), "{path}");
        assert!(page.text().contains(detail) && !page.text().contains("<script"), "{path}: {}", page.text());
    }
    let page = server.ask(Method::GET, "/rest/a%20b/c/d/fcr:versions", &browser).await;
    let text = page.text();
    for place in [
        "href=\"../../../../rest/\">Repository</a>",
        "href=\"../../../../rest/fcr:search\">Search</a>",
        "href=\"../../../../rest/a%20b\">a b</a>",
        "href=\"../../../../rest/a%20b/c/d\">d</a>",
    ] {
        assert!(text.contains(place), "{place}: {text}");
    }
    let deep = server.ask(Method::GET, &format!("/rest/{}", "a/".repeat(100)), &browser).await;
    assert!(deep.header("content-type").starts_with("text/html") && deep.text().len() < 50_000, "{}", deep.text());
    let deeper = server.ask(Method::GET, &format!("/rest/{}", "a/".repeat(20_000)), &browser).await;
    assert_eq!(deeper.header("content-type"), "application/problem+json", "no page goes up so far");
    assert!(deeper.text().len() < 2_000, "{}", deeper.text());
    let token = server.token("writer").await;
    for (method, path) in [(Method::PUT, "/rest/c/d"), (Method::DELETE, "/rest/c")] {
        let done = server.send(&token, method, path, &[("content-type", "text/turtle")], "").await;
        assert!(done.status.is_success(), "{path}: {}", done.text());
    }
    for (path, link) in [
        ("/rest/c", "href=\"../rest/c/fcr:forms\">Bring it back</a>"),
        ("/rest/c/d", "href=\"../../rest/c/fcr:forms\">Bring back what it belonged to</a>"),
    ] {
        let gone = server.ask(Method::GET, path, &browser).await;
        assert_eq!(gone.status, StatusCode::GONE, "{path}");
        assert!(gone.text().contains(link), "{path}: {}", gone.text());
    }
    let head = server.ask(Method::HEAD, "/nowhere", &browser).await;
    assert_eq!(head.header("content-type"), "text/html; charset=utf-8", "as for GET");
    for accept in ["*/*", "application/json, text/html;q=0.5", "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"] {
        let program = server.ask(Method::GET, "/nowhere", &[("accept", accept)]).await;
        assert_eq!(program.header("content-type"), "application/problem+json", "{accept}");
    }
    let opened = [("accept", "text/html"), ("sec-fetch-mode", "navigate")];
    assert!(server.ask(Method::GET, "/nowhere", &opened).await.header("content-type").starts_with("text/html"));
}

#[tokio::test]
async fn an_unsupported_method_is_a_problem_that_names_the_supported_ones() {
    let (server, _folder) = Server::start(|_| {}).await;
    for (method, path, allowed) in [
        (Method::GET, "/selections", "POST"),
        (Method::DELETE, "/data-api/volumes", "GET,HEAD,POST"),
        (Method::POST, "/healthz", "GET,HEAD"),
    ] {
        let answer = server.ask(method, path, &[]).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        assert_eq!(answer.header("content-type"), "application/problem+json", "{path}");
        assert_eq!(answer.header("allow"), allowed, "{path}");
    }
}

#[tokio::test]
async fn metrics_count_by_route_and_contain_neither_ids_nor_addresses() {
    let (server, _folder) = Server::start(|_| {}).await;
    for path in
        [format!("/volumes/{VOLUME}"), format!("/data-api/volumes/{VOLUME}/pages/7"), "/made-up-path".to_owned()]
    {
        server.get(&path).await;
    }
    server.ask(Method::from_bytes(b"BREW").unwrap(), "/", &[]).await;
    let answer = server.get("/metrics").await;
    assert!(answer.header("content-type").starts_with("text/plain; version=0.0.4"));
    let metrics = answer.text();
    for route in ["/volumes/{id}", "/data-api/volumes/{id}/pages/{seq}", "other"] {
        let line =
            format!("http_server_request_duration_seconds_count{{http_request_method=\"GET\",http_route=\"{route}\"");
        assert!(metrics.contains(&line), "{route} is not in\n{metrics}");
    }
    for gauge in [
        "penates_audit_lag_seconds ",
        "penates_store_refusing_writes{lane=\"text\"} 0",
        "penates_store_free_bytes ",
        "penates_background_failed_records_total{pass=\"resuming\"} 0",
    ] {
        assert!(metrics.contains(gauge), "{gauge} is not in\n{metrics}");
    }
    for never in [VOLUME, "t0ks80527", "127.0.0.1", "made-up", "BREW"] {
        assert!(!metrics.contains(never), "{never} is in\n{metrics}");
    }
}

#[tokio::test]
async fn the_server_is_alive_and_ready_and_reports_how_much_it_stores() {
    let (server, _folder) = Server::start(|_| {}).await;
    assert_eq!(server.get("/healthz").await.status, StatusCode::OK);
    assert_eq!(server.get("/readyz").await.status, StatusCode::OK);
    let stat = server.get("/stat").await.json();
    assert_eq!((&stat["volumes"], &stat["pages"]), (&1.into(), &24.into()));
}

#[tokio::test]
async fn a_request_body_that_pauses_for_too_long_is_given_up_with_the_connection() {
    let (server, _folder) = Server::start(|config| config.limits.body_pause = Duration::from_millis(100)).await;
    let mut client = TcpStream::connect(server.http()).await.unwrap();
    let head = "POST /volumes HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 99\r\n\r\n";
    client.write_all(format!("{head}volumeIDs=").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    soon("an answer", client.read_to_end(&mut answer)).await.unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("\r\nConnection: close\r\n"), "{answer}");
}

/// It never pauses for long, and never ends. So it does not matter how fast the machine is.
#[tokio::test]
async fn a_body_that_is_slower_than_the_least_rate_is_given_up() {
    let (server, _folder) = Server::start(|config| {
        (config.limits.body_pause, config.limits.body_rate) = (Duration::from_millis(300), 1 << 20);
    })
    .await;
    let mut client = TcpStream::connect(server.http()).await.unwrap();
    let head = "POST /volumes HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 1000000\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    let (mut receives, mut sends) = client.split();
    let mut status = [0; 12];
    let dribble = async {
        while sends.write_all(b"a").await.is_ok() {
            // This is no wait for an event: it is how slow the client is.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        read = soon("an answer", receives.read_exact(&mut status)) => {
            read.unwrap();
        }
        () = dribble => {}
    }
    assert_eq!(&status, b"HTTP/1.1 408");
}

#[tokio::test]
async fn a_long_list_in_a_url_is_served_on_http_1_and_http_2() {
    let (server, _folder) = Server::start(|_| {}).await;
    let ids: Vec<String> = (0..2_500).map(|number| format!("lib.volume{number:08}")).collect();
    let path = format!("/volumes?volumeIDs={}", ids.join("%7C"));
    assert!((50_000..65_000).contains(&path.len()));
    assert_eq!(server.get(&path).await.status, StatusCode::OK);
    let stream = TcpStream::connect(server.http()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(format!("http://localhost{path}")).body(Empty::<bytes::Bytes>::new()).unwrap();
    let response = soon("an answer", sender.send_request(request)).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert!(response.into_body().collect().await.unwrap().to_bytes().starts_with(b"PK"));
}

/// Sends all of a request before it reads the response, as simple clients do. Returns the status
/// line.
async fn status_line(server: &Server, head: &str, body_bytes: usize) -> String {
    let mut client = TcpStream::connect(server.http()).await.unwrap();
    let head = format!("{head}\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {body_bytes}\r\n\r\n");
    let sent = async {
        client.write_all(head.as_bytes()).await?;
        client.write_all(&vec![b'a'; body_bytes]).await?;
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned())
    };
    soon(&head, sent).await.unwrap_or_else(|error| error.to_string())
}

#[tokio::test]
async fn a_client_that_sends_everything_before_it_reads_gets_the_reason_of_a_refusal() {
    let (server, _folder) = Server::start(|_| {}).await;
    let form = "content-type: application/x-www-form-urlencoded";
    for (head, status) in [
        (format!("POST /volumes HTTP/1.1\r\n{form}"), "413 Payload Too Large"),
        (format!("PUT /volumes/{VOLUME} HTTP/1.1\r\n{form}"), "401 Unauthorized"),
        (format!("POST /nowhere HTTP/1.1\r\n{form}"), "404 Not Found"),
        ("POST /volumes HTTP/1.1\r\ncontent-type: image/png".to_owned(), "415 Unsupported Media Type"),
    ] {
        assert_eq!(status_line(&server, &head, (16 << 20) + 1).await, format!("HTTP/1.1 {status}"), "{head}");
    }
}

/// Fails unless a client that is refused gets what shows health, and what the page of the refusal
/// loads.
async fn serves_health_and_assets(server: &Server) {
    for path in ["/healthz", "/assets/page.css", "/assets/icon.svg", "/assets/page.js", "/assets/openapi.js"] {
        assert_eq!(server.get(path).await.status, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn a_client_with_too_many_requests_is_asked_to_wait_and_others_are_not() {
    let limited = |config: &mut server::config::Config| {
        (config.limits.request_rate, config.limits.request_burst) = (1, 2);
    };
    let (server, _folder) = Server::start(limited).await;
    // A fast machine sends them within a second, and a slow one sends more of them.
    let mut answer = server.get("/stat").await;
    assert_eq!((answer.status, answer.header("ratelimit-policy")), (StatusCode::OK, "\"requests\";q=2;w=2"));
    for _ in 0..1_000 {
        answer = server.get("/stat").await;
        if answer.status != StatusCode::OK {
            break;
        }
    }
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!((answer.header("retry-after"), answer.header("ratelimit")), ("1", "\"requests\";r=0;t=2"));
    assert_eq!(answer.json()["kind"], "too-many-requests");
    serves_health_and_assets(&server).await;
    assert_eq!(server.admin(Method::GET, "/admin/tokens").await.status, StatusCode::OK);
    let bearer = format!("Bearer {}", server.token("other").await);
    let other = server.ask(Method::GET, "/stat", &[("authorization", &bearer)]).await;
    assert_eq!((other.status, other.header("ratelimit")), (StatusCode::OK, "\"requests\";r=1;t=1"));
}

#[tokio::test]
async fn a_client_that_got_the_bytes_of_its_day_is_refused_until_the_next() {
    let (server, _folder) = Server::start(|config| config.limits.bytes_per_day = 100).await;
    let page = format!("/volumes/{VOLUME}/pages/7");
    let first = server.get(&page).await;
    assert_eq!((first.status, first.header("ratelimit")), (StatusCode::OK, "\"bytes\";r=100;t=86400"));
    assert_eq!(first.header("ratelimit-policy"), "\"bytes\";q=100;qu=\"content-bytes\";w=86400");
    let refused = server.get(&page).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.header("retry-after").parse::<u64>().unwrap() > 86_000, "{}", refused.header("retry-after"));
    assert!(refused.header("ratelimit").starts_with("\"bytes\";r=0;"), "{}", refused.header("ratelimit"));
    serves_health_and_assets(&server).await;
    let bearer = format!("Bearer {}", server.token("reader").await);
    assert_eq!(server.ask(Method::GET, &page, &[("authorization", &bearer)]).await.status, StatusCode::OK);
}

/// Sends lines of the Redis protocol, and returns the lines of the answers up to that to `QUIT`.
async fn commands(server: &Server, lines: &str) -> Vec<String> {
    let mut client = TcpStream::connect(server.addresses.records.unwrap()).await.unwrap();
    client.write_all(format!("{lines}QUIT\r\n").as_bytes()).await.unwrap();
    let mut answers = String::new();
    soon("answers", client.read_to_string(&mut answers)).await.unwrap();
    answers.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_client_of_records_with_too_many_commands_is_refused_and_goes_on_and_others_do() {
    let (server, _folder) = Server::start(|config| {
        config.records.listen = Some("127.0.0.1:0".parse().unwrap());
        (config.limits.command_rate, config.limits.command_burst) = (1, 3);
    })
    .await;
    // A slow machine needs more than a second for a few of them, and then there is one more.
    let answers = commands(&server, &"PING\r\n".repeat(100)).await;
    assert_eq!(answers[..3], ["+PONG"; 3]);
    let refused: Vec<_> = answers.iter().filter(|answer| answer.starts_with("-LIMIT ")).collect();
    assert!(refused.len() > 50, "{answers:?}");
    let limit = "-LIMIT this client may make 1 commands per second, and 3 at once; try again in ";
    assert!(refused[0].starts_with(limit), "{}", refused[0]);
    assert_eq!(answers.last().unwrap(), "+OK", "it may quit");
    // One with a token has its own, and says who it is in any case.
    let token = server.token("bidder").await;
    assert_eq!(commands(&server, &format!("AUTH {token}\r\nPING\r\n")).await[..2], ["+OK", "+PONG"]);
    // What was refused in a transaction breaks it.
    let many = "SET a 1\r\n".repeat(50);
    let answers = commands(&server, &format!("AUTH {token}\r\nMULTI\r\n{many}EXEC\r\n")).await;
    assert!(answers[1] == "+OK" && answers[answers.len() - 2].starts_with("-EXECABORT"), "{answers:?}");
    // So does a watch that was refused.
    let many = "PING\r\n".repeat(50);
    let answers = commands(&server, &format!("{many}WATCH a\r\nMULTI\r\nEXEC\r\n")).await;
    let [.., watch, multi, exec, _] = &answers[..] else { panic!("{answers:?}") };
    let is_refused = watch.starts_with("-LIMIT") && exec.starts_with("-EXECABORT");
    assert!(multi == "+OK" && (is_refused || !watch.starts_with("-LIMIT")), "{answers:?}");
}

#[tokio::test]
async fn answers_of_records_count_for_the_bytes_of_a_day_as_responses_do() {
    let (server, _folder) = Server::start(|config| {
        config.records.listen = Some("127.0.0.1:0".parse().unwrap());
        config.limits.bytes_per_day = 100;
    })
    .await;
    let text = "x".repeat(200);
    let answers = commands(&server, &format!("ECHO {text}\r\n")).await;
    assert_eq!(answers, ["$200", &*text, "+OK"]);
    let refused = commands(&server, "PING\r\n").await;
    assert!(refused[0].starts_with("-LIMIT this client may get 100 bytes in a day; try again in 86"), "{refused:?}");
    assert_eq!(server.get("/stat").await.status, StatusCode::TOO_MANY_REQUESTS, "they count together");
    // Who has got the bytes of a token does not get them as somebody else.
    let token = server.token("bidder").await;
    let batch = format!("AUTH {token}\r\nECHO {text}\r\nRESET\r\n");
    assert!(commands(&server, &batch).await.contains(&text));
    let answers = commands(&server, &batch).await;
    assert!(answers[0] == "+OK" && answers[1].starts_with("-LIMIT ") && !answers.contains(&text), "{answers:?}");
}

#[tokio::test]
async fn a_request_runs_until_its_response_has_ended() {
    let (server, _folder) = Server::start(|config| config.limits.requests_at_once = 1).await;
    let mut follower = TcpStream::connect(server.http()).await.unwrap();
    let request = b"GET /feed HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
    follower.write_all(request).await.unwrap();
    let mut head = [0; 12];
    soon("a stream", follower.read_exact(&mut head)).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    let refused = server.get("/volumes/").await;
    assert_eq!((refused.status, refused.header("retry-after")), (StatusCode::TOO_MANY_REQUESTS, "1"));
    assert_eq!(refused.header("ratelimit"), "\"at-once\";r=0");
    drop(follower);
    let is_served = async {
        while server.get("/volumes/").await.status != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon("the end of the stream", is_served).await;
}
