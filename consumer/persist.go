package consumer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/guyline/guyline/audit"
	"github.com/guyline/guyline/dlq"
	"github.com/guyline/guyline/keyvalue"
)

// errStopped says that a stop ended the repetition of a write, errClosed that the connection is closed for good.
var (
	errStopped = errors.New("stopped before the server took it")
	errClosed  = errors.New("the connection is closed for good")
)

const (
	// requestTimeout bounds one request to the server.
	requestTimeout = 5 * time.Second
	// persistTimeout bounds one try of persist: the trail of one report can be long.
	persistTimeout = 30 * time.Second
)

// persist is [Consumer.repeat] for what may take many requests, with a context that bounds each try.
func (c *Consumer) persist(d *delivery, what string, op func(context.Context) error) error {
	return c.repeat(d, what, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), persistTimeout)
		defer cancel()
		return op(ctx)
	})
}

// repeat repeats what a report in hand needs from the server until it succeeds: op, whose requests are bounded, returns an error only if the
// server could not do it. While it fails the message stays in hand and intake is paused. A stop ends it after one more
// try, with [errStopped].
func (c *Consumer) repeat(d *delivery, what string, op func() error) error {
	failing := false
	defer func() {
		if failing {
			c.trouble() // what was in hand may be lost
			c.gate.open()
		}
	}()
	for try := 1; ; try++ {
		last := c.stopping.Err() != nil
		err := op()
		switch {
		case err == nil:
			if failing {
				d.log().Info("the server took it", "what", what, "tries", try)
			}
			return nil
		case c.js.Conn().IsClosed():
			return errClosed
		case hopeless(err): // and other reports are not concerned
			d.log().Error("ALARM: what is stored about the report cannot be read or trusted; it is left alone", "what", what, "err", err)
			return err
		case last:
			d.log().Warn("not taken before the stop", "what", what, "err", err)
			return errStopped
		}
		if !failing {
			failing = true
			c.gate.shut()
		}
		if try == 1 || try%30 == 0 {
			d.log().Error("ALARM: the server does not take it; the report stays in hand and intake is paused", "what", what, "tries", try, "err", err)
		}
		select {
		case <-time.After(min(2*time.Second, time.Duration(try)*50*time.Millisecond)):
		case <-c.stopping.Done():
		}
	}
}

// hopeless reports whether repeating does not help: what is stored about one report is not ours.
func hopeless(err error) bool {
	return errors.Is(err, keyvalue.ErrUnreadable) || errors.Is(err, audit.ErrUnreadable) || errors.Is(err, dlq.ErrForged)
}

// gate lets intake through while nobody has shut it.
type gate struct {
	mu     sync.Mutex
	shuts  int
	opened chan struct{} // closed when shuts falls to 0
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shuts++; g.shuts == 1 {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shuts--; g.shuts == 0 {
		close(g.opened)
	}
}

func (g *gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shuts > 0
}

// wait returns when the gate is open, or with an error when ctx ends.
func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	shut, opened := g.shuts > 0, g.opened
	g.mu.Unlock()
	if shut {
		select {
		case <-opened:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}
