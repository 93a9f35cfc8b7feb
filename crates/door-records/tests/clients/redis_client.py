"""redis-py as applications use it, in both versions of the protocol. Prints what it saw."""

import sys

import redis

host, port = sys.argv[1].split(":")
for protocol in (2, 3):
    client = redis.Redis(host=host, port=int(port), protocol=protocol, decode_responses=True)
    key = f"user:{protocol}"
    assert client.ping()
    assert client.hset(key, mapping={"city": "Ulm", "visits": 1}) == 2
    assert client.hincrby(key, "visits", 2) == 3
    assert client.hgetall(key) == {"city": "Ulm", "visits": "3"}
    assert client.hmget(key, "city", "nothing") == ["Ulm", None]
    assert client.hexpire(key, 100, "city", "nothing") == [1, -2]
    assert 0 < client.httl(key, "city")[0] <= 100
    assert client.hpersist(key, "city") == [1]
    assert client.set("text", "a", ex=100, nx=True) is (True if protocol == 2 else None)
    assert 0 < client.ttl("text") <= 100
    with client.pipeline(transaction=False) as pipeline:
        for number in range(500):
            pipeline.set(f"p:{number}", number)
        for number in range(500):
            pipeline.get(f"p:{number}")
        assert pipeline.execute() == [True] * 500 + [str(number) for number in range(500)]
    with client.pipeline(transaction=True) as pipeline:
        pipeline.hset(key, "a", "b").hget(key, "a").hlen(key)
        assert pipeline.execute() == [1, "b", 3]
    with client.pipeline() as pipeline:
        pipeline.watch(key)
        assert pipeline.hget(key, "a") == "b"
        client.hset(key, "a", "c")
        pipeline.multi()
        pipeline.hset(key, "a", "d")
        try:
            pipeline.execute()
            raise AssertionError("a watched key has changed")
        except redis.WatchError:
            pass
    assert client.transaction(lambda pipeline: pipeline.multi() or pipeline.hset(key, "a", "b"), key) == [0]
    assert sorted(client.scan_iter(match="p:*", count=100)) == sorted(f"p:{number}" for number in range(500))
    assert dict(client.hscan_iter(key)) == {"city": "Ulm", "visits": "3", "a": "b"}
    try:
        client.incr(key)
        raise AssertionError("a text command on attributes")
    except redis.ResponseError as error:
        assert str(error).startswith("WRONGTYPE"), error
    assert client.delete(key) == 1 and client.exists(key) == 0
    client.close()
    print(f"RESP{protocol} works")
