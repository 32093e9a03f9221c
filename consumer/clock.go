package consumer

import (
	"sync/atomic"
	"time"
)

// clock tells the server's time, by which parked reports come back. With a worker's own, if it is behind, they would come back at once, over and
// over; if it is ahead, long after their upstream answers.
type clock struct {
	ahead atomic.Int64 // the server's, of this process's, in nanoseconds
}

// set learns from what the server said was the time, at some moment between two times of this process.
func (c *clock) set(server, from, to time.Time) {
	switch {
	case server.Before(from):
		c.ahead.Store(int64(server.Sub(from)))
	case server.After(to):
		c.ahead.Store(int64(server.Sub(to)))
	default:
		c.ahead.Store(0)
	}
}

func (c *clock) now() time.Time { return c.of(time.Now()) }

// of is a time of this process by the server's clock.
func (c *clock) of(t time.Time) time.Time { return t.Add(time.Duration(c.ahead.Load())).UTC() }
