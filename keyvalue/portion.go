package keyvalue

import (
	"sync/atomic"
	"time"
)

// portion is how many entries to ask for in one request: as many as the server finds quickly.
//
// For an entry that it has not in memory the server reads the whole block around it, 4 MiB, and indexes it: 2 ms of processor time, and
// 30 ms or more if the block was not used for two minutes. Of entries that lie together the first pays for all. But for those of a list
// that is scattered over a large ledger each pays; and while the server answers, it reads nothing else from this connection and
// takes no commit. So a request must not be long.
type portion struct{ n atomic.Int64 }

const (
	fewest, some, most = 8, 32, 128 // entries in a request: at least, at first, at most
	quick, slow        = 100 * time.Millisecond, 400 * time.Millisecond
)

func (p *portion) size() int {
	if n := p.n.Load(); n > 0 {
		return int(n)
	}
	return some
}

// took learns from a request for n entries.
func (p *portion) took(n int, d time.Duration) {
	switch size := p.size(); {
	case d > slow:
		p.n.Store(int64(max(fewest, min(n, size)/2)))
	case d < quick && n >= size:
		p.n.Store(int64(min(most, 2*size)))
	}
}
