#![allow(clippy::unwrap_used)]
use http::{HeaderName, HeaderValue};

use super::*;

const PROXY: Peer = Peer {
    address: IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)),
    port: 0,
    local: None,
    on_loopback: false,
    is_proxy: true,
};

fn proxies(fields: ProxyFields) -> Proxies {
    let trusted_proxies = vec!["10.0.0.0/8".to_owned(), "2001:db8:1::/48".to_owned()];
    Proxies::of(&HttpConfig { trusted_proxies, proxy_fields: fields, ..HttpConfig::default() }).unwrap()
}

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let field = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap())
    };
    // Unlike `collect`, this keeps repeated fields.
    let mut headers = HeaderMap::new();
    for (name, value) in fields.iter().map(field) {
        headers.append(name, value);
    }
    headers
}

/// The address in `X-Forwarded-For`; "" if it has none, "malformed" if it is malformed.
fn address_of(values: &[&str]) -> String {
    let fields: Vec<_> = values.iter().map(|value| ("x-forwarded-for", *value)).collect();
    match proxies(ProxyFields::XForwarded).client(PROXY, &headers(&fields)) {
        Ok(client) => client.address.map(|address| address.to_string()).unwrap_or_default(),
        Err(_) => "malformed".to_owned(),
    }
}

#[test]
fn the_client_is_the_last_address_that_is_no_proxy() {
    for (values, client) in [
        (&["203.0.113.7"][..], "203.0.113.7"),
        (&["198.51.100.1, 203.0.113.7, 10.0.0.9"], "203.0.113.7"),
        (&["198.51.100.1", "203.0.113.7", " 10.0.0.9 ,10.0.0.8"], "203.0.113.7"),
        (&["nonsense, 203.0.113.7"], "203.0.113.7"),
        (&["203.0.113.7:4711"], "203.0.113.7"),
        (&["2001:db8:2::7, 2001:db8:1::1"], "2001:db8:2::7"),
        (&["[2001:db8:2::7]:443"], "2001:db8:2::7"),
        (&["[2001:db8:2::7]"], "2001:db8:2::7"),
        (&["::ffff:203.0.113.7"], "203.0.113.7"),
        (&[", ,203.0.113.7,"], "203.0.113.7"),
        // Everybody is a proxy.
        (&["10.0.0.7, 10.0.0.8"], "10.0.0.7"),
    ] {
        assert_eq!(address_of(values), client, "{values:?}");
    }
}

#[test]
fn an_address_that_is_hidden_is_that_of_the_proxy_that_hides_it() {
    for hidden in ["unknown", "unknown:4711", "_hidden", "_hidden:_port"] {
        assert_eq!(address_of(&[&format!("203.0.113.7, {hidden}, 10.0.0.9")]), "10.0.0.9", "{hidden}");
    }
    for hidden in ["_hidden", "Unknown", "unix:"] {
        assert_eq!(address_of(&[hidden]), "", "{hidden}");
    }
    assert_eq!(address_of(&[]), "");
}

#[test]
fn what_a_trusted_proxy_writes_has_to_be_an_address() {
    for values in [&["nonsense"][..], &["203.0.113.7, nonsense, 10.0.0.9"], &["203.0.113.256"], &["books.example"]] {
        assert_eq!(address_of(values), "malformed", "{values:?}");
    }
    let long = "198.51.100.1, ".repeat(1_000);
    assert_eq!(address_of(&[&long]), "malformed");
    assert_eq!(address_of(&["\u{e9}"]), "malformed");
}

#[test]
fn nobody_but_a_proxy_speaks_for_others() {
    let fields = headers(&[("x-forwarded-for", "203.0.113.7"), ("x-forwarded-host", "evil.example")]);
    let direct = Peer { is_proxy: false, ..PROXY };
    assert_eq!(proxies(ProxyFields::XForwarded).client(direct, &fields), Ok(Client::default()));
}

#[test]
fn only_the_kind_of_fields_that_the_proxies_write_is_read() {
    let both = headers(&[
        ("x-forwarded-for", "203.0.113.7"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "one.example"),
        ("forwarded", "for=198.51.100.1;host=two.example;proto=http"),
    ]);
    let client = |fields| proxies(fields).client(PROXY, &both).unwrap();
    let of = |address: &str, encrypted, host: &str| Client {
        address: Some(address.parse().unwrap()),
        encrypted: Some(encrypted),
        host: Some(host.parse().unwrap()),
    };
    assert_eq!(client(ProxyFields::XForwarded), of("203.0.113.7", true, "one.example"));
    assert_eq!(client(ProxyFields::Forwarded), of("198.51.100.1", false, "two.example"));
}

#[test]
fn the_host_and_the_scheme_are_those_of_the_hop_of_the_client() {
    let client = |line: &str| proxies(ProxyFields::Forwarded).client(PROXY, &headers(&[("forwarded", line)]));
    let chain =
        "for=1.1.1.1;host=evil.example, for=203.0.113.7;host=a.example;proto=https, for=10.0.0.9;host=b.example";
    let found = client(chain).unwrap();
    assert_eq!(found.address, Some("203.0.113.7".parse().unwrap()));
    assert_eq!((found.host.unwrap().as_str(), found.encrypted), ("a.example", Some(true)));
    let hidden = client("for=203.0.113.7;host=evil.example, for=_gate;host=a.example").unwrap();
    assert_eq!((hidden.address, hidden.host.unwrap().as_str()), (None, "a.example"));
    for malformed in ["for=203.0.113.7;proto=gopher", "for=203.0.113.7;host=\"a b\"", "for=nobody", "for"] {
        assert!(client(malformed).is_err(), "{malformed}");
    }
}

#[test]
fn of_several_hosts_and_schemes_the_last_one_counts() {
    let fields = headers(&[
        ("x-forwarded-host", "evil.example"),
        ("x-forwarded-host", "a.example, b.example"),
        ("x-forwarded-proto", "http, HTTPS"),
    ]);
    let client = proxies(ProxyFields::XForwarded).client(PROXY, &fields).unwrap();
    assert_eq!((client.host.unwrap().as_str(), client.encrypted), ("b.example", Some(true)));
    for (name, value) in [("x-forwarded-host", "a b"), ("x-forwarded-host", "u@a"), ("x-forwarded-proto", "on")] {
        assert!(proxies(ProxyFields::XForwarded).client(PROXY, &headers(&[(name, value)])).is_err(), "{value}");
    }
}

#[test]
fn a_proxy_is_an_address_a_network_or_a_socket() {
    let of = |entry: &str| {
        let trusted_proxies = vec![entry.to_owned()];
        Proxies::of(&HttpConfig { trusted_proxies, ..HttpConfig::default() })
    };
    assert!(of("192.0.2.1").unwrap().trust("192.0.2.1".parse().unwrap()));
    assert!(!of("192.0.2.1").unwrap().trust_sockets());
    assert!(of("unix").unwrap().trust_sockets());
    for entry in ["", "*", "proxy.example", "10.0.0.1/8"] {
        assert!(of(entry).is_err(), "{entry}");
    }
}
