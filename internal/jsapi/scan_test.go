package jsapi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/internal/natstest"
)

// A scan that does not end fails its test rather than the whole run.
func limited(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func scan(t testing.TB, js jetstream.JetStream, subject string, each func(seq uint64)) (seqs []uint64) {
	t.Helper()
	for m, err := range jsapi.Scan(limited(t), js, "S", subject, false) {
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, m.Sequence)
		if each != nil {
			each(m.Sequence)
		}
	}
	return seqs
}

func publishMany(t testing.TB, js jetstream.JetStream, n int, subject string) {
	t.Helper()
	for range n {
		if _, err := js.PublishAsync(subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
}

func TestScan(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	s := fill(t, js)
	if got := scan(t, js, "s.>", nil); got != nil {
		t.Errorf("an empty stream: got %v", got)
	}
	publish(t, js, "s.a", "s.b.c", "s.a", "s.b.d", "s.e", "s.a")
	if err := s.DeleteMsg(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		subject string
		want    []uint64
	}{
		{"s.x", nil},
		{"s.a", []uint64{1, 6}},
		{"s.e", []uint64{5}}, // its last message is not the stream's
		{"s.b.*", []uint64{2, 4}},
		{"s.>", []uint64{1, 2, 4, 5, 6}},
	} {
		if got := scan(t, js, tt.subject, nil); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.subject, got, tt.want)
		}
	}
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, "the server to forget the scans", func() bool {
		info, err = s.Info(t.Context())
		return err == nil && info.State.Consumers == 0
	})
}

func TestScanYieldsWholeMessages(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	fill(t, js, "s.a")
	want, err := jsapi.Get(t.Context(), js, "S", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, headersOnly := range []bool{false, true} {
		for m, err := range jsapi.Scan(limited(t), js, "S", "s.a", headersOnly) {
			if err != nil {
				t.Fatal(err)
			}
			if headersOnly {
				if len(m.Data) != 0 || m.Header.Get("X-Subject") != "s.a" {
					t.Errorf("headers only: got %+v", m)
				}
			} else if m.Time = m.Time.UTC(); !cmp.Equal(m, want) {
				t.Error(cmp.Diff(want, m))
			}
		}
	}
}

// A scan ends at the message that was the last when it began, whatever is written meanwhile.
func TestScanDoesNotChase(t *testing.T) {
	t.Parallel()
	const n = 600 // more than a scan's first request asks for, so that the server counts the new ones
	for what, last := range map[string]string{"its last message is the stream's": "s.a", "it is not": "s.b"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			js := natstest.Start(t).JetStream(t)
			fill(t, js)
			publishMany(t, js, n-1, "s.a")
			publish(t, js, last)
			want := n
			if last != "s.a" {
				want--
			}
			got := scan(t, js, "s.a", func(seq uint64) {
				if seq == 1 {
					publish(t, js, "s.a", "s.b")
				}
			})
			if len(got) != want || got[want-1] != uint64(want) {
				t.Errorf("%d messages to %d, want %d", len(got), got[len(got)-1], want)
			}
		})
	}
}

// What a scan has not yet read may be deleted under it: it ends all the same.
func TestScanOfWhatIsDeleted(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	s := fill(t, js)
	const early, late = 500, 700 // a scan's first request is answered by the early ones
	publishMany(t, js, early, "s.early")
	publishMany(t, js, late, "s.late")
	got := scan(t, js, "s.>", func(seq uint64) {
		if seq == 1 {
			natstest.Eventually(t, "the early ones to be on their way", func() bool {
				for info := range s.ListConsumers(t.Context()).Info() {
					if info.Delivered.Consumer == early {
						return true
					}
				}
				return false
			})
			if err := s.Purge(t.Context(), jetstream.WithPurgeSubject("s.late")); err != nil {
				t.Fatal(err)
			}
			// A new one that only the leader shows is not part of the scan either.
			if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "s.new", Header: nats.Header{"Status": {"404"}}}); err != nil {
				t.Fatal(err)
			}
		}
	})
	if len(got) != early {
		t.Errorf("%d messages, want %d", len(got), early)
	}
}

// A stored message that the client library takes for a status of its own does not hide those behind it.
func TestScanOfStatus(t *testing.T) {
	t.Parallel()
	for _, headersOnly := range []bool{false, true} {
		for what, at := range map[string]int{"first": 0, "in the middle": 2, "last": 4} {
			t.Run(fmt.Sprint(what, ", headers only ", headersOnly), func(t *testing.T) {
				t.Parallel()
				js := natstest.Start(t).JetStream(t)
				fill(t, js)
				for i := range 5 {
					if i != at {
						publish(t, js, "s.a")
						continue
					}
					msg := &nats.Msg{Subject: "s.a", Header: nats.Header{"Status": {"409"}, "Description": {"Consumer Deleted"}, "X-Subject": {"s.a"}}}
					if _, err := js.PublishMsg(t.Context(), msg); err != nil {
						t.Fatal(err)
					}
				}
				var got []uint64
				for m, err := range jsapi.Scan(limited(t), js, "S", "s.a", headersOnly) {
					if err != nil {
						t.Fatal(err)
					}
					if got = append(got, m.Sequence); m.Header.Get("X-Subject") != "s.a" || headersOnly && len(m.Data) > 0 {
						t.Errorf("message %d: %+v", m.Sequence, m)
					}
				}
				if want := []uint64{1, 2, 3, 4, 5}; !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		}
	}
}

func TestScanBreak(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	fill(t, js, "s.a", "s.a", "s.a")
	n := 0
	for _, err := range jsapi.Scan(limited(t), js, "S", "s.a", false) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d messages, want 2", n)
	}
}

func TestScanCancelledOnItsWay(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	fill(t, js)
	publishMany(t, js, 1200, "s.a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs []error
	n := 0
	for _, err := range jsapi.Scan(ctx, js, "S", "s.a", false) {
		cancel()
		if err != nil {
			errs = append(errs, err)
		} else {
			n++
		}
	}
	if len(errs) != 1 || !errors.Is(errs[0], context.Canceled) || n == 1200 {
		t.Errorf("%d messages and %v, want fewer than 1200 and one context.Canceled", n, errs)
	}
}

// A server that goes away under a scan ends it with an error, once.
func TestScanServerStops(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	fill(t, js)
	publishMany(t, js, 1200, "s.a")
	n, failed := 0, 0
	for _, err := range jsapi.Scan(limited(t), js, "S", "s.>", false) {
		if err != nil {
			failed++
			continue
		}
		if n++; n == 1 {
			srv.Stop(t)
		}
	}
	if failed != 1 || n >= 1200 {
		t.Errorf("%d messages and %d errors, want fewer than 1200 and one", n, failed)
	}
}
