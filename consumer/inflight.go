package consumer

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"sync"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// An embedded server dies with its worker and may forget the deliveries of its last moments (server v2.15.3: up to 100 ms). So a report
// that kills both could be tried for ever. The in-flight file names the reports that are worked or wait for it, and the attempt that each is
// for; it is written in place, into the page cache, which survives the process. What the file still names at the next start has been spent, as
// every delivery has that was in hand when a worker died, and is suspected like one (decision 10). The record of a report that is not in hand any
// more stays until another takes its place: the report is gone by then, or the attempt was spent all the same.

// inflightRecord is the size of a record: key, queue, sequence, time of publication, attempt and a checksum.
const inflightRecord = 32 + 1 + 8 + 8 + 4 + 4

// inflight is the file and what it says. Without a file, and as nil, it remembers nothing.
type inflight struct {
	file *os.File

	mu    sync.Mutex
	used  []bool                    // the records of the file: may not be overwritten
	inUse int                       // of them
	next  int                       // where to look for others
	spent map[inflightReport]*spent // left by the process before
}

type inflightReport struct {
	ref       stream.Ref
	key       report.Key
	published int64 // in nanoseconds: streams that are made anew give their sequences again
}

func inflightOf(m stream.Message) inflightReport {
	return inflightReport{m.Ref, m.Key, m.PublishedAt.UnixNano()}
}

// spent is a record that the process before has left.
type spent struct {
	at      int  // its place in the file
	held    bool // the place is still its own
	attempt int  // in which that process died
	lag     int  // by how much the server's count is too low; -1 until that is known
}

// openInflight opens or creates the file. Records of messages that are gone are dropped, and so is what is garbled.
func openInflight(ctx context.Context, path string, queues *stream.Queues) (*inflight, error) {
	f := &inflight{spent: map[inflightReport]*spent{}}
	if path == "" {
		return f, nil
	}
	var err error
	if f.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("open the in-flight file: %w", err)
	}
	info, err := f.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("open the in-flight file: %w", err)
	}
	f.used = make([]bool, min(info.Size()/inflightRecord, 1<<16))
	b := make([]byte, inflightRecord)
	for at := range f.used {
		if _, err := f.file.ReadAt(b, int64(at)*inflightRecord); err != nil {
			return nil, fmt.Errorf("read the in-flight file: %w", err)
		}
		r, attempt, ok := parseInflight(b)
		if ok {
			m, err := queues.Stored(ctx, r.ref)
			if err != nil && !errors.Is(err, jsapi.ErrNotFound) {
				return nil, fmt.Errorf("read the in-flight file: %w", err)
			}
			ok = err == nil && inflightOf(m) == r
		}
		last := f.spent[r]
		switch {
		case !ok:
		case last == nil:
			f.spent[r] = &spent{at, true, attempt, -1}
			f.use(at)
		case attempt > last.attempt: // of two attempts the later one counts, and keeps its place
			f.used[last.at], f.used[at] = false, true
			last.at, last.attempt = at, attempt
		}
	}
	return f, nil
}

// begin notes reports that are about to be worked, each until end: in one write, if the file has room for them side by side.
func (f *inflight) begin(reports []*delivery, most int) {
	if f == nil || f.file == nil || len(reports) == 0 {
		return
	}
	var b []byte
	from := 0 // where b goes
	for i, at := range f.take(reports) {
		d := reports[i]
		if d.noted = at + 1; at != from+len(b)/inflightRecord {
			f.write(d, b, from)
			b, from = b[:0], at
		}
		b = appendInflight(b, inflightOf(d.Message), d.attempt(most))
	}
	f.write(reports[0], b, from)
}

func (f *inflight) write(d *delivery, records []byte, at int) {
	if _, err := f.file.WriteAt(records, int64(at)*inflightRecord); err != nil {
		d.log().Warn("attempts not noted in the in-flight file", "number", len(records)/inflightRecord, "err", err)
	}
}

// end frees the report's record.
func (f *inflight) end(d *delivery) {
	if d.noted == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used[d.noted-1] = false
	f.inUse--
	d.noted = 0
}

// take finds each report's record, or free ones, side by side where it can: half of the file is kept free for that.
func (f *inflight) take(reports []*delivery) []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := 2 * (f.inUse + len(reports)); len(f.used) < n {
		f.used = append(f.used, make([]bool, n-len(f.used))...)
	}
	places := make([]int, len(reports))
	for i, d := range reports {
		if s := f.spent[inflightOf(d.Message)]; s != nil && s.held {
			s.held = false
			places[i] = s.at
			continue
		}
		for f.next %= len(f.used); f.used[f.next]; {
			f.next = (f.next + 1) % len(f.used)
		}
		f.use(f.next)
		places[i] = f.next
		f.next++
	}
	return places
}

func (f *inflight) use(at int) {
	f.used[at] = true
	f.inUse++
}

// forgotten is how many attempts of a report the server does not count, as it died with the process that made them. counted is what it
// counts, this delivery included. unseen says that it has forgotten the last one: nobody has said yet what became of that.
func (f *inflight) forgotten(m stream.Message, counted int) (attempts int, unseen bool) {
	if f == nil {
		return 0, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.spent[inflightOf(m)]
	if s == nil {
		return 0, false
	}
	if s.lag < 0 {
		s.lag = max(0, s.attempt+1-counted)
		unseen = s.lag > 0
	}
	return s.lag, unseen
}

// close forgets what has ended, as the server knows of it, unless something is still in hand.
func (f *inflight) close() {
	if f.file == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inUse == 0 {
		_ = f.file.Truncate(0)
	}
	_ = f.file.Close()
}

func appendInflight(b []byte, r inflightReport, attempt int) []byte {
	from := len(b)
	b, _ = hex.AppendDecode(b, []byte(r.key)) // ours, so it is hex
	queue := byte(1)
	if r.ref.Stream == stream.Requeued {
		queue = 2
	}
	b = append(b, queue)
	b = binary.LittleEndian.AppendUint64(b, r.ref.Sequence)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.published))
	b = binary.LittleEndian.AppendUint32(b, uint32(attempt))
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b[from:]))
}

func parseInflight(b []byte) (r inflightReport, attempt int, ok bool) {
	body, sum := b[:inflightRecord-4], binary.LittleEndian.Uint32(b[inflightRecord-4:])
	if crc32.ChecksumIEEE(body) != sum || body[32] != 1 && body[32] != 2 {
		return r, 0, false
	}
	r.key = report.Key(hex.EncodeToString(body[:32]))
	r.ref = stream.Ref{Stream: stream.Names()[body[32]-1], Sequence: binary.LittleEndian.Uint64(body[33:])}
	r.published = int64(binary.LittleEndian.Uint64(body[41:]))
	return r, int(min(binary.LittleEndian.Uint32(body[49:]), 1<<20)), true
}
