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

// An embedded server dies with its worker and may forget the deliveries of its last moments (server v2.15.3: about 20 ms). So a report
// that kills both could be tried for ever. The in-flight file names the attempts that are running; it is written in place, into
// the page cache, which survives the process. What the file still names at the next start has been spent. The record of an attempt that has
// ended stays until another takes its place: its report is gone by then, or the attempt was spent all the same.

// inflightRecord is the size of a record: key, queue, sequence, attempt and a checksum.
const inflightRecord = 32 + 1 + 8 + 4 + 4

// inflight is the file and what it says. Without a file, and as nil, it remembers nothing.
type inflight struct {
	file *os.File

	mu    sync.Mutex
	slots int64                     // records in the file
	free  []int64                   // of them: not in use
	spent map[inflightReport]*spent // left by the process before
}

type inflightReport struct {
	ref stream.Ref
	key report.Key
}

// spent is a record that the process before has left.
type spent struct {
	at      int64 // its place in the file
	held    bool  // the place is still its own
	attempt int   // in which that process died
	lag     int   // by how much the server's count is too low; -1 until that is known
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
	f.slots = min(info.Size()/inflightRecord, 1<<16)
	b := make([]byte, inflightRecord)
	for at := range f.slots {
		if _, err := f.file.ReadAt(b, at*inflightRecord); err != nil {
			return nil, fmt.Errorf("read the in-flight file: %w", err)
		}
		r, attempt, ok := parseInflight(b)
		if ok {
			m, err := queues.Stored(ctx, r.ref)
			if err != nil && !errors.Is(err, jsapi.ErrNotFound) {
				return nil, fmt.Errorf("read the in-flight file: %w", err)
			}
			ok = err == nil && m.Key == r.key
		}
		last := f.spent[r]
		switch {
		case !ok:
			f.free = append(f.free, at)
		case last == nil:
			f.spent[r] = &spent{at, true, attempt, -1}
		default: // of two attempts the later one counts
			f.free = append(f.free, at)
			last.attempt = max(last.attempt, attempt)
		}
	}
	return f, nil
}

// begin notes that an attempt runs, until the returned function is called.
func (f *inflight) begin(d *delivery, attempt int) (end func()) {
	if f == nil || f.file == nil {
		return func() {}
	}
	r := inflightReport{d.Ref, d.Key}
	at := f.take(r)
	if _, err := f.file.WriteAt(formatInflight(r, attempt), at*inflightRecord); err != nil {
		d.log().Warn("attempt not noted in the in-flight file", "err", err)
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.free = append(f.free, at)
	}
}

// take finds the report's record, or a free one.
func (f *inflight) take(r inflightReport) (at int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.spent[r]; s != nil && s.held {
		s.held = false
		return s.at
	}
	if n := len(f.free); n > 0 {
		at, f.free = f.free[n-1], f.free[:n-1]
		return at
	}
	f.slots++
	return f.slots - 1
}

// forgotten is how many attempts of a report the server does not count, as it died with the process that made them. counted is what it
// counts, this delivery included.
func (f *inflight) forgotten(ref stream.Ref, key report.Key, counted int) int {
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.spent[inflightReport{ref, key}]
	if s == nil {
		return 0
	}
	if s.lag < 0 {
		s.lag = max(0, s.attempt+1-counted)
	}
	return s.lag
}

// close forgets what has ended, as the server knows of it, unless an attempt still runs.
func (f *inflight) close() {
	if f.file == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if int64(len(f.free)) == f.slots {
		_ = f.file.Truncate(0)
	}
	_ = f.file.Close()
}

func formatInflight(r inflightReport, attempt int) []byte {
	b := make([]byte, 0, inflightRecord)
	key, _ := hex.DecodeString(string(r.key)) // ours, so it is hex
	b = append(b, key...)
	queue := byte(1)
	if r.ref.Stream == stream.Requeued {
		queue = 2
	}
	b = append(b, queue)
	b = binary.LittleEndian.AppendUint64(b, r.ref.Sequence)
	b = binary.LittleEndian.AppendUint32(b, uint32(attempt))
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func parseInflight(b []byte) (r inflightReport, attempt int, ok bool) {
	body, sum := b[:inflightRecord-4], binary.LittleEndian.Uint32(b[inflightRecord-4:])
	if crc32.ChecksumIEEE(body) != sum || body[32] != 1 && body[32] != 2 {
		return r, 0, false
	}
	r.key = report.Key(hex.EncodeToString(body[:32]))
	r.ref = stream.Ref{Stream: stream.Names()[body[32]-1], Sequence: binary.LittleEndian.Uint64(body[33:])}
	return r, int(min(binary.LittleEndian.Uint32(body[41:]), 1<<20)), true
}
