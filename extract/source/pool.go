package source

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// sshPool keeps idle connections for the next fetch from the same host: at most as many as were in use at once, and for
// a minute.
type sshPool struct {
	cfg   SFTP
	guard *guard
	log   *slog.Logger

	mu      sync.Mutex
	idle    map[string][]*sshConn
	watched sync.WaitGroup // one goroutine per connection
}

type sshConn struct {
	address string
	client  *ssh.Client
	files   *sftp.Client
	expiry  *time.Timer // while idle
	dead    bool        // guarded by the pool's lock
}

// cut ends whatever waits for the connection.
func (c *sshConn) cut() { c.client.Close() }

func (c *sshConn) close() {
	c.client.Close() // first: the other Close waits for the server
	c.files.Close()
}

func newSSHPool(cfg SFTP, g *guard, log *slog.Logger) (*sshPool, error) {
	if cfg.KeyFile != "" {
		if _, err := readKey(cfg.KeyFile); err != nil {
			return nil, wrong("SFTP.KeyFile", err)
		}
	}
	if cfg.KnownHosts != "" {
		if _, err := readKnownHosts(cfg.KnownHosts); err != nil {
			return nil, wrong("SFTP.KnownHosts", err)
		}
	}
	if cfg.User == "" && (cfg.KeyFile != "" || cfg.Password != "") {
		return nil, wrong("SFTP.User", errors.New("an SFTP key or password is set, but no user; set both"))
	}
	return &sshPool{cfg: cfg, guard: g, log: log, idle: map[string][]*sshConn{}}, nil
}

// take returns a connection that is the caller's alone, until it closes it or gives it back.
func (p *sshPool) take(ctx context.Context, address string) (*sshConn, error) {
	p.mu.Lock()
	if idle := p.idle[address]; len(idle) > 0 {
		c := idle[len(idle)-1]
		p.drop(c)
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	c, err := p.connect(ctx, address)
	if err != nil {
		return nil, err
	}
	p.watched.Go(func() { // until either side closes it
		_ = c.client.Wait()
		p.mu.Lock()
		c.dead = true
		p.mu.Unlock()
		p.discard(c)
	})
	return c, nil
}

func (p *sshPool) give(c *sshConn) {
	p.mu.Lock()
	dead := c.dead
	if !dead {
		p.idle[c.address] = append(p.idle[c.address], c)
		c.expiry = time.AfterFunc(time.Minute, func() { p.discard(c) })
	}
	p.mu.Unlock()
	if dead {
		c.close()
	}
}

// discard closes a connection if it is idle.
func (p *sshPool) discard(c *sshConn) {
	p.mu.Lock()
	idle := slices.Contains(p.idle[c.address], c)
	if idle {
		p.drop(c)
	}
	p.mu.Unlock()
	if idle {
		c.close()
	}
}

// drop takes an idle connection out of the list. The caller holds the lock.
func (p *sshPool) drop(c *sshConn) {
	c.expiry.Stop()
	rest := slices.DeleteFunc(p.idle[c.address], func(other *sshConn) bool { return other == c })
	if len(rest) == 0 {
		delete(p.idle, c.address)
	} else {
		p.idle[c.address] = rest
	}
}

// close closes the idle connections; there are no others when nobody fetches.
func (p *sshPool) close() {
	p.mu.Lock()
	var all []*sshConn
	for _, idle := range p.idle {
		all = append(all, idle...)
	}
	p.mu.Unlock()
	for _, c := range all {
		p.discard(c)
	}
	p.watched.Wait()
}
