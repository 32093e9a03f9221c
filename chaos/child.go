package chaos

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/guyline/guyline/internal/part"
)

// The hidden commands as which the program starts itself.
const (
	WorkerCommand = "chaos-worker"
	ServerCommand = "chaos-server"
	CleanCommand  = "chaos-clean"
)

// children is every process that was started.
type children struct {
	mu  sync.Mutex
	all []*part.Process
}

func (c *children) start(cfg part.Config) (*part.Process, error) {
	p, err := part.Start(cfg)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, p)
	return p, nil
}

// running counts those that have not ended.
func (c *children) running() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.all {
		select {
		case <-p.Ended():
		default:
			n++
		}
	}
	return n
}

// settle is [part.Settings] for the hidden commands.
func settle(ctx context.Context, in io.Reader, settings any, hear func(string)) (context.Context, error) {
	ctx, err := part.Settings(ctx, in, settings, hear)
	if err != nil {
		return nil, fmt.Errorf("%w: this command is for the use of `guyline chaos` alone", err)
	}
	return ctx, nil
}
