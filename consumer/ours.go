package consumer

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/guyline/guyline/stream"
)

// ours are the reports that this worker has put off for a retry, if nobody but itself has had them so far: of their next delivery it is
// known that nobody has begun to bury them (row 3b), and that the delivery before ended with a verdict (row 4b). It saves the look-ups, and
// decides nothing else: a report that is not among them is looked up.
type ours struct {
	troubles    atomic.Uint64 // so far
	mu          sync.Mutex
	new, former map[stream.Ref]putOff // former is what new was when it was full
}

// putOff is the delivery after which a report was put off.
type putOff struct {
	published time.Time // streams that are made anew give their sequences again
	count     uint64
}

// mostOurs is how many reports either half may name, of which each takes about 100 bytes. Those that go to another worker stay until the halves
// have been filled.
const mostOurs = 1 << 14

// add notes a report that is about to be put off.
func (o *ours) add(d *delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.new) >= mostOurs {
		o.new, o.former = nil, o.new
	}
	if o.new == nil {
		o.new = map[stream.Ref]putOff{}
	}
	o.new[d.Ref] = putOff{d.PublishedAt, d.count}
}

// take reports whether a delivery follows directly on the one after which this worker has put the report off.
func (o *ours) take(d *delivery) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, half := range []map[stream.Ref]putOff{o.new, o.former} {
		if p, found := half[d.Ref]; found {
			delete(half, d.Ref)
			return p.count+1 == d.count && p.published.Equal(d.PublishedAt)
		}
	}
	return false
}

// forget forgets all, when deliveries may have been lost: the server may count some of them again.
func (o *ours) forget() {
	o.troubles.Add(1)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.new, o.former = nil, nil
}

// troubles counts the signs of trouble so far, also a lost connection that no pull has noticed yet.
func (c *Consumer) troubles() uint64 { return c.ours.troubles.Load() + c.js.Conn().Stats().Reconnects }

// shaken reports whether there was trouble since the report was delivered: a server that has forgotten that may have given it to another, as if
// for the first time.
func (c *Consumer) shaken(d *delivery) bool { return c.troubles() != d.troubles }
