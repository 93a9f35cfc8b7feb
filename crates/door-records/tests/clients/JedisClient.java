import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.HSetExParams;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

/** Jedis as applications use it, in both versions of the protocol. Prints what it saw. */
public class JedisClient {
    static final int MANY = 500;

    public static void main(String[] arguments) {
        for (RedisProtocol protocol : RedisProtocol.values()) {
            use(HostAndPort.from(arguments[0]), protocol);
            System.out.println(protocol + " works");
        }
    }

    static void equal(Object expected, Object found) {
        if (!Objects.equals(expected, found)) {
            throw new AssertionError(found + ", not " + expected);
        }
    }

    static void use(HostAndPort server, RedisProtocol protocol) {
        String key = "user:" + protocol;
        String text = "text:" + protocol;
        DefaultJedisClientConfig config = DefaultJedisClientConfig.builder().protocol(protocol).build();
        try (JedisPooled client = new JedisPooled(server, config)) {
            equal("PONG", client.ping());
            equal(2L, client.hset(key, Map.of("city", "Ulm", "visits", "1")));
            equal(3L, client.hincrBy(key, "visits", 2));
            equal(Map.of("city", "Ulm", "visits", "3"), client.hgetAll(key));
            equal(Arrays.asList("Ulm", null), client.hmget(key, "city", "nothing"));
            equal(List.of(1L, -2L), client.hexpire(key, 100, "city", "nothing"));
            long left = client.httl(key, "city").get(0);
            equal(true, left > 0 && left <= 100);
            equal(List.of(1L), client.hpersist(key, "city"));
            equal(1L, client.hsetex(key, HSetExParams.hSetExParams().ex(100), "token", "x"));
            equal(List.of("x"), client.hgetdel(key, "token"));
            equal("OK", client.set(text, "a", SetParams.setParams().nx().ex(100)));
            equal(null, client.set(text, "b", SetParams.setParams().nx()));
            pipelined(client);
            inTransactions(client, key);

            Set<String> found = new HashSet<>();
            ScanParams some = new ScanParams().match("p:*").count(100);
            String cursor = ScanParams.SCAN_POINTER_START;
            do {
                ScanResult<String> page = client.scan(cursor, some);
                found.addAll(page.getResult());
                cursor = page.getCursor();
            } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
            equal(MANY, found.size());
            equal(3, client.hscan(key, cursor, new ScanParams()).getResult().size());

            try {
                client.incr(key);
                throw new AssertionError("a text command on attributes");
            } catch (JedisDataException error) {
                equal(true, error.getMessage().startsWith("WRONGTYPE"));
            }
            equal(1L, client.del(key));
            equal(false, client.exists(key));
        }
    }

    static void pipelined(JedisPooled client) {
        List<Response<String>> read = new ArrayList<>();
        try (Pipeline pipeline = client.pipelined()) {
            for (int number = 0; number < MANY; number++) {
                pipeline.set("p:" + number, String.valueOf(number));
            }
            for (int number = 0; number < MANY; number++) {
                read.add(pipeline.get("p:" + number));
            }
            pipeline.sync();
        }
        for (int number = 0; number < MANY; number++) {
            equal(String.valueOf(number), read.get(number).get());
        }
    }

    static void inTransactions(JedisPooled client, String key) {
        try (AbstractTransaction transaction = client.multi()) {
            transaction.hset(key, "a", "b");
            transaction.hget(key, "a");
            transaction.hlen(key);
            equal(List.of(1L, "b", 3L), transaction.exec());
        }
        try (AbstractTransaction transaction = client.transaction(false)) {
            transaction.watch(key);
            client.hset(key, "a", "c");
            transaction.multi();
            transaction.hset(key, "a", "d");
            // A watched key has changed.
            equal(null, transaction.exec());
        }
        equal("c", client.hget(key, "a"));
    }
}
