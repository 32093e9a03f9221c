package source

import (
	"context"
	"sync"
)

// hosts limits how much is fetched from one host at once. A host is forgotten when nobody uses it or waits for it.
type hosts struct {
	limit int
	mu    sync.Mutex
	known map[string]*host
}

type host struct {
	slots chan struct{}
	users int // in a slot or waiting for one
}

func newHosts(limit int) *hosts { return &hosts{limit: limit, known: map[string]*host{}} }

// enter waits for a free slot of the host, as long as ctx lasts; leave frees it.
func (h *hosts) enter(ctx context.Context, name string) (leave func(), err error) {
	h.mu.Lock()
	one := h.known[name]
	if one == nil {
		one = &host{slots: make(chan struct{}, h.limit)}
		h.known[name] = one
	}
	one.users++
	h.mu.Unlock()

	select {
	case one.slots <- struct{}{}:
		return func() {
			<-one.slots
			h.forget(name, one)
		}, nil
	case <-ctx.Done():
		h.forget(name, one)
		return nil, ctx.Err()
	}
}

func (h *hosts) forget(name string, one *host) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(h.known, name)
	}
}
