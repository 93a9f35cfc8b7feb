// Command goredis uses go-redis as applications do, in both versions of the protocol. It prints what
// it saw.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// equal fails unless both are the same.
func equal(expected, found any) {
	if !reflect.DeepEqual(expected, found) {
		panic(fmt.Sprintf("%#v, not %#v", found, expected))
	}
}

// done is the answer of a command, which must not fail.
func done[T any](answer T, err error) T {
	if err != nil {
		panic(err)
	}
	return answer
}

func use(address string, protocol int) {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: address, Protocol: protocol})
	defer client.Close()
	key, text := fmt.Sprintf("user:%d", protocol), fmt.Sprintf("text:%d", protocol)

	equal("PONG", done(client.Ping(ctx).Result()))
	equal(int64(2), done(client.HSet(ctx, key, "city", "Ulm", "visits", 1).Result()))
	equal(int64(3), done(client.HIncrBy(ctx, key, "visits", 2).Result()))
	equal(map[string]string{"city": "Ulm", "visits": "3"}, done(client.HGetAll(ctx, key).Result()))
	equal([]any{"Ulm", nil}, done(client.HMGet(ctx, key, "city", "nothing").Result()))
	equal([]int64{1, -2}, done(client.HExpire(ctx, key, 100*time.Second, "city", "nothing").Result()))
	left := done(client.HTTL(ctx, key, "city").Result())
	equal(true, len(left) == 1 && left[0] > 0 && left[0] <= 100)
	equal([]int64{1}, done(client.HPersist(ctx, key, "city").Result()))
	expiring := &redis.HSetEXOptions{ExpirationType: redis.HSetEXExpirationEX, ExpirationVal: 100}
	equal(int64(1), done(client.HSetEXWithArgs(ctx, key, expiring, "token", "x").Result()))
	equal([]string{"x"}, done(client.HGetDel(ctx, key, "token").Result()))
	equal(true, done(client.SetNX(ctx, text, "a", 100*time.Second).Result()))
	equal(false, done(client.SetNX(ctx, text, "b", 0).Result()))

	read := make([]*redis.StringCmd, 500)
	done(client.Pipelined(ctx, func(pipeline redis.Pipeliner) error {
		for number := range read {
			pipeline.Set(ctx, fmt.Sprintf("p:%d", number), number, 0)
		}
		for number := range read {
			read[number] = pipeline.Get(ctx, fmt.Sprintf("p:%d", number))
		}
		return nil
	}))
	for number, answer := range read {
		equal(fmt.Sprint(number), done(answer.Result()))
	}

	var added, count *redis.IntCmd
	var value *redis.StringCmd
	done(client.TxPipelined(ctx, func(pipeline redis.Pipeliner) error {
		added = pipeline.HSet(ctx, key, "a", "b")
		value = pipeline.HGet(ctx, key, "a")
		count = pipeline.HLen(ctx, key)
		return nil
	}))
	equal(int64(1), added.Val())
	equal("b", value.Val())
	equal(int64(3), count.Val())
	err := client.Watch(ctx, func(watching *redis.Tx) error {
		equal("b", done(watching.HGet(ctx, key, "a").Result()))
		done(client.HSet(ctx, key, "a", "c").Result())
		_, err := watching.TxPipelined(ctx, func(pipeline redis.Pipeliner) error {
			pipeline.HSet(ctx, key, "a", "d")
			return nil
		})
		return err
	}, key)
	equal(true, errors.Is(err, redis.TxFailedErr))
	equal("c", done(client.HGet(ctx, key, "a").Result()))

	found := map[string]bool{}
	ids := client.Scan(ctx, 0, "p:*", 100).Iterator()
	for ids.Next(ctx) {
		found[ids.Val()] = true
	}
	equal(nil, ids.Err())
	equal(len(read), len(found))
	pairs, cursor, err := client.HScan(ctx, key, 0, "", 0).Result()
	equal(nil, err)
	equal(uint64(0), cursor)
	equal(6, len(pairs))

	err = client.Incr(ctx, key).Err()
	equal(true, err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE"))
	equal(int64(1), done(client.Del(ctx, key).Result()))
	equal(int64(0), done(client.Exists(ctx, key).Result()))
}

func main() {
	for _, protocol := range []int{2, 3} {
		use(os.Args[1], protocol)
		fmt.Printf("RESP%d works\n", protocol)
	}
}
