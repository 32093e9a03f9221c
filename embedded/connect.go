package embedded

import (
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// join returns the store of a holder that listens. It returns nil if the holder has left no address
// of its own, and nil with an error if nobody of that name answers there.
func join(dir string, who holder) (*Store, error) {
	address, ok := readURL(dir, who)
	if !ok {
		return nil, nil
	}
	s := &Store{dir: dir, start: who.Start, url: address}
	nc, err := s.connect(nats.Timeout(2 * time.Second))
	if err != nil {
		return nil, err
	}
	nc.Close()
	return s, nil
}

// connect connects in process, or to the holder, and to nobody else.
func (s *Store) connect(opts ...nats.Option) (*nats.Conn, error) {
	if !s.Remote() {
		return nats.Connect(s.url, append(slices.Clip(opts), nats.InProcessServer(s.server))...)
	}
	nc, err := nats.Connect(s.url, opts...)
	if err != nil {
		return nil, err
	}
	if got := nc.ConnectedServerName(); got != serverName(s.start) {
		nc.Close()
		return nil, fmt.Errorf("another server, %q, has taken the address; try again", got)
	}
	return nc, nil
}
