package chaos

import (
	"fmt"
	"io"
	"net"
	"sync"
)

// way is a direction through a proxy.
type way int

const (
	toServer way = iota
	fromServer
)

// proxy stands between the clients and one server. What it loses on one way is kept, as TCP would send it again: when the loss
// is over it arrives late, or the connections are reset and it never does.
type proxy struct {
	listener net.Listener
	server   string // address
	all      sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[*line]struct{}
	losing [2]chan struct{} // closed when the loss is over; nil while there is none
}

// line is one connection of a client, with its way on to the server.
type line struct {
	client, server *net.TCPConn
	once           sync.Once
	reset          chan struct{} // closed with the line
}

// newProxy listens on loopback for the clients of a server, whose address is host:port.
func newProxy(server string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &proxy{listener: l, server: server, open: map[*line]struct{}{}}
	p.all.Go(p.accept)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.all.Go(func() { p.connect(client.(*net.TCPConn)) })
	}
}

func (p *proxy) connect(client *net.TCPConn) {
	conn, err := net.Dial("tcp", p.server)
	if err != nil { // the server is away
		client.Close()
		return
	}
	l := &line{client: client, server: conn.(*net.TCPConn), reset: make(chan struct{})}
	p.mu.Lock()
	closed := p.closed
	p.open[l] = struct{}{}
	p.mu.Unlock()
	if closed {
		l.close()
	}
	var both sync.WaitGroup
	both.Go(func() { p.carry(l, toServer, client, l.server) })
	both.Go(func() { p.carry(l, fromServer, l.server, client) })
	both.Wait()
	p.mu.Lock()
	delete(p.open, l)
	p.mu.Unlock()
}

// carry moves bytes one way until either end closes.
func (p *proxy) carry(l *line, w way, from io.Reader, to io.Writer) {
	defer l.close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			p.mu.Lock()
			losing := p.losing[w]
			p.mu.Unlock()
			if losing != nil {
				select {
				case <-losing:
				case <-l.reset:
				}
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// close resets both ends: what is on its way is lost.
func (l *line) close() {
	l.once.Do(func() {
		close(l.reset)
		for _, c := range []*net.TCPConn{l.client, l.server} {
			_ = c.SetLinger(0)
			c.Close()
		}
	})
}

// drop resets every connection.
func (p *proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.open {
		l.close()
	}
}

// lose begins to lose everything on one way, and returns how to end that. It is called again only after that.
func (p *proxy) lose(w way) (end func(late bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	losing := make(chan struct{})
	p.losing[w] = losing
	return func(late bool) {
		if !late {
			p.drop()
		}
		p.mu.Lock()
		p.losing[w] = nil
		p.mu.Unlock()
		close(losing)
	}
}

// close ends everything and waits for it.
func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.drop()
	p.all.Wait()
}
