package dlq

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/report"
)

func TestPut(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	l := full()
	if got, err := y.Current(t.Context(), l.Site, l.Key); !errors.Is(err, ErrNotFound) {
		t.Errorf("before the first: got %+v, %v; want ErrNotFound", got, err)
	}
	if _, err := y.Put(t.Context(), l, 5); !errors.Is(err, ErrConflict) {
		t.Errorf("in place of a letter that is not there: got %v, want ErrConflict", err)
	}
	first, err := y.Put(t.Context(), l, 0)
	if err != nil {
		t.Fatal(err)
	}
	second := l
	second.Reason, second.Body, second.Sequence = "another", []byte{0, 1, 0xff}, 0
	for _, last := range []uint64{0, first + 1} {
		if seq, err := y.Put(t.Context(), second, last); seq != 0 || !errors.Is(err, ErrConflict) {
			t.Errorf("in place of %d, which is %d: got %d, %v; want ErrConflict", last, first, seq, err)
		}
	}
	l.Sequence = first
	for what, got := range map[string]func() (Letter, error){
		"Current":           func() (Letter, error) { return y.Current(t.Context(), l.Site, l.Key) },
		"Current of a key":  func() (Letter, error) { return y.Current(t.Context(), "*", l.Key) },
		"At":                func() (Letter, error) { return y.At(t.Context(), first) },
		"After the first":   func() (Letter, error) { return y.After(t.Context(), 0) },
		"After, its own":    func() (Letter, error) { return y.After(t.Context(), first) },
		"Find, a whole key": func() (Letter, error) { return y.Find(t.Context(), string(l.Key)) },
	} {
		if got, err := got(); err != nil || !cmp.Equal(got, l) {
			t.Errorf("%s: %v %s", what, err, cmp.Diff(l, got))
		}
	}

	if second.Sequence, err = y.Put(t.Context(), second, first); err != nil {
		t.Fatal(err)
	}
	if got, err := y.At(t.Context(), first); !errors.Is(err, ErrNotFound) {
		t.Errorf("the replaced one: got %+v, %v; want ErrNotFound", got, err)
	}
	if got, err := y.After(t.Context(), second.Sequence+1); !errors.Is(err, ErrNotFound) {
		t.Errorf("after the last: got %+v, %v; want ErrNotFound", got, err)
	}
	if got := collect(t, y.Export(t.Context(), Filter{})); !cmp.Equal(got, []Letter{second}) {
		t.Errorf("left: %s", cmp.Diff([]Letter{second}, got))
	}
}

// A report of the largest size that the queue takes makes a letter that the server takes.
func TestPutLarge(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	l := full()
	l.Reason = report.Clean(strings.Repeat("reason ", 1000))
	l.Worker, l.Version, l.Upstream = strings.Repeat("w", 999), strings.Repeat("v", 999), strings.Repeat("u", 999)
	l.Site = report.NewToken(strings.Repeat("é", 64))
	for _, tt := range []struct {
		what          string
		body, foreign int
		dropped       bool
	}{
		{"the server refuses it with the headers", 1010 << 10, 15 << 10, true},
		{"too many headers", 1, report.MaxForeignHeaders + 1, true},
		{"more headers than the server takes", 1, 70 << 10, true},
		{"940 KiB and all the headers", 940 << 10, report.MaxForeignHeaders, false},
		{"the largest event", report.MaxMessage, 0, false},
	} {
		l.Key = report.NewKey("large", tt.what)
		l.Body, l.Foreign, l.Dropped = bytes.Repeat([]byte{0xff}, tt.body), nats.Header{}, 0
		if tt.foreign > 0 {
			l.Foreign["X-Large"] = []string{strings.Repeat("x", tt.foreign-len("X-Large")-4)}
		}
		got := y.put(t, l)
		got, err := y.At(t.Context(), got.Sequence)
		if err != nil || !bytes.Equal(got.Body, l.Body) || got.Reason != l.Reason {
			t.Errorf("%s: a body of %d bytes, reason %.20q, %v", tt.what, len(got.Body), got.Reason, err)
		}
		if tt.dropped {
			l.Foreign, l.Dropped = nats.Header{}, 1
		}
		if !cmp.Equal(got.Foreign, l.Foreign) || got.Dropped != l.Dropped {
			t.Errorf("%s: %d headers, %d dropped", tt.what, len(got.Foreign), got.Dropped)
		}
	}
	l.Foreign, l.Body = nats.Header{"X": {"y"}}, make([]byte, 2<<20)
	if _, err := y.Put(t.Context(), l, 0); err == nil || errors.Is(err, ErrConflict) {
		t.Errorf("what no server takes: got %v", err)
	}
}

// Names that the client library does not send do not keep a report from being buried.
func TestPutUnsendable(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	for _, name := range []string{"", " ", "a b", "a:b", "a/b", "é", `"`, "a\r\nb"} {
		l := full()
		l.Key = report.NewKey("unsendable", name)
		l.Foreign = nats.Header{name: {"x"}}
		got := y.put(t, l)
		if got, err := y.At(t.Context(), got.Sequence); err != nil || len(got.Foreign) != 0 || string(got.Body) != "{}" {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
}

// A full queue refuses new letters, keeps the old ones, and still takes what replaces one.
func TestPutFull(t *testing.T) {
	t.Parallel()
	for what, limit := range map[string]func(*jetstream.StreamConfig){
		"messages": func(c *jetstream.StreamConfig) { c.MaxMsgs = 2 },
		"bytes":    func(c *jetstream.StreamConfig) { c.MaxBytes = 2500 },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			y, _ := newYard(t)
			s, err := y.js.Stream(t.Context(), Stream)
			if err != nil {
				t.Fatal(err)
			}
			cfg := s.CachedInfo().Config
			limit(&cfg)
			if _, err := y.js.UpdateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			var letters []Letter
			for i := range 5 {
				l := full()
				l.Key = report.NewKey(what, string(rune('a'+i)))
				if l.Sequence, err = y.Put(t.Context(), l, 0); err == nil {
					letters = append(letters, l)
				}
			}
			if err == nil || errors.Is(err, ErrConflict) || len(letters) == 0 || len(letters) == 5 {
				t.Fatalf("%d of 5 letters were taken, the last said %v", len(letters), err)
			}
			letters = append(letters[1:], y.put(t, letters[0]))
			if got := collect(t, y.Export(t.Context(), Filter{})); !cmp.Equal(got, letters) {
				t.Errorf("left: %s", cmp.Diff(letters, got))
			}
		})
	}
}

func TestSetupAgainKeepsLimits(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	config := func() jetstream.StreamConfig {
		s, err := y.js.Stream(t.Context(), Stream)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().Config
	}
	want := config()
	if want.Discard != jetstream.DiscardNew || want.Retention != jetstream.LimitsPolicy || want.Storage != jetstream.FileStorage ||
		want.MaxMsgsPerSubject != 1 || want.MaxMsgs != -1 || want.MaxBytes != -1 || want.MaxAge != 0 {
		t.Errorf("without an operator: %+v", want)
	}
	want.MaxBytes, want.MaxMsgs, want.MaxAge = 1<<40, 1_000_000, 365*24*time.Hour
	if _, err := y.js.UpdateStream(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	want = config()
	l := y.put(t, full())
	if err := Setup(t.Context(), y.js, 1); err != nil {
		t.Fatal(err)
	}
	if got := config(); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	if got := collect(t, y.Export(t.Context(), Filter{})); !cmp.Equal(got, []Letter{l}) {
		t.Error(cmp.Diff([]Letter{l}, got))
	}
	if err := Setup(t.Context(), y.js, 3); err == nil || !strings.Contains(err.Error(), Stream) {
		t.Errorf("three replicas on one server: got %v", err)
	}
}

func TestServerGone(t *testing.T) {
	t.Parallel()
	y, _ := newYard(t)
	l := y.die(t, "a.pdf")
	y.js.Conn().Close()
	_, current := y.Current(t.Context(), l.Site, l.Key)
	_, at := y.At(t.Context(), l.Sequence)
	_, find := y.Find(t.Context(), "a")
	_, put := y.Put(t.Context(), l, l.Sequence)
	replayed, replay := y.Replay(t.Context(), l.Sequence, operator)
	discarded, discard := y.Discard(t.Context(), l.Sequence, operator)
	list, verify := errors.New("no error"), errors.New("no error")
	for _, err := range y.List(t.Context(), Filter{}) {
		list = err
	}
	for _, err := range y.Verify(t.Context()) {
		verify = err
	}
	for what, err := range map[string]error{
		"current": current, "at": at, "find": find, "put": put, "replay": replay, "discard": discard, "list": list, "verify": verify,
	} {
		if !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("%s: got %v, want ErrConnectionClosed", what, err)
		}
	}
	if replayed != "" || discarded != "" {
		t.Errorf("outcomes %q and %q without a server", replayed, discarded)
	}
}
